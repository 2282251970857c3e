"""Composing, building and fitting happen once, in Python and on the command line."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
import torch

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.datasets import Features
from ccl_plugins.hooks import hookimpl
from ccl_plugins.objectives import ClInfoNCE

# Its two classes are in batches of their own, which the pipelines here are not told to mend.
pytestmark = pytest.mark.filterwarnings("ignore:step .* batches have one class:UserWarning")

COUNTS: Counter[str] = Counter()


class CountedCondition:
    """Class ids, which count how often they are made.

    Args:
        classes: How many.
    """

    refresh, value_type = "never", "categorical"

    def __init__(self, classes: int = 2) -> None:
        COUNTS["condition built"] += 1
        self.classes = classes

    def fit(self, split, embed, previous):
        COUNTS["condition fitted"] += 1
        return torch.arange(len(split)) % self.classes


class CountedDataset:
    """Vectors, which count how often they are read.

    Args:
        size: How many.
    """

    def __init__(self, size: int = 32) -> None:
        COUNTS["dataset built"] += 1
        self.made = Features(
            **{
                name: {"features": torch.randn(n, 4), "label": torch.arange(n) % 2}
                for name, n in (("train", size), ("test", 8))
            }
        )

    def __call__(self, split):
        COUNTS[f"{split} read"] += 1
        return self.made(split)

    def schema(self):
        return self.made.schema()


class Hooks:
    @hookimpl
    def ccl_pipeline_composed(self, pipeline, options):
        COUNTS["composed"] += 1
        assert set(pipeline.conditions) == {"condition"}
        assert pipeline.to_dict()["fit"]["epochs"] == pipeline.settings.epochs


TOML = """
dataset = {use = "local/counteddataset", size = 32}
backbone = {use = "mlp", in_features = 4, hidden = [8]}
method = {use = "simclr", hidden = 8, dim = 4}
transform = "noise"
objective = "cl_infonce"
sampler = "same_condition"
condition = {use = "local/countedcondition", classes = 2}
evaluate = ["knn"]
fit = {epochs = 3, batch_size = 16, workers = 0}
"""

ONCE = {"composed": 1, "dataset built": 1, "condition built": 1, "condition fitted": 1}

MEASURING = ("dataset", "transform", "backbone", "method", "condition", "evaluator", "logger")
"""The kinds of component that measuring a run again needs."""

TRAINING = (*MEASURING, "objective", "sampler", "optimizer", "schedule")


@pytest.fixture(autouse=True)
def _counting(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ccl.local("dataset", CountedDataset)
    ccl.local("condition", CountedCondition)
    (tmp_path / "x.toml").write_text(TOML)
    call = type(ccl._registry()).call

    def with_ours(self, hook, **kwargs):
        if hook == "ccl_pipeline_composed":
            Hooks().ccl_pipeline_composed(**{**kwargs, "options": {}})
        return call(self, hook, **kwargs)

    monkeypatch.setattr(type(ccl._registry()), "call", with_ours)
    build = ccl.Choice.build

    def counting(choice, *given, **named):
        constructor = choice._target

        def construct(**arguments):
            COUNTS[choice.kind] += 1
            return constructor(**arguments)

        with monkeypatch.context() as patched:
            if constructor is not None:
                patched.setattr(choice, "_target", construct)
            return build(choice, *given, **named)

    monkeypatch.setattr(ccl.Choice, "build", counting)
    COUNTS.clear()


def assert_once(kinds=TRAINING):
    assert {name: COUNTS[name] for name in ONCE} == ONCE
    assert {kind: COUNTS[kind] for kind in kinds} == dict.fromkeys(kinds, 1)


def test_a_fit_composes_builds_and_fits_once():
    pipeline = ccl.Pipeline.from_toml("x.toml")
    run = pipeline.fit(out="run", epochs=1, progress=False)
    run.evaluate()
    assert_once()
    assert (COUNTS["train read"], COUNTS["test read"]) == (1, 1)
    pipeline.fit(out="another", epochs=1, progress=False)
    kept = {*TRAINING} - {"backbone", "method", "objective", "sampler"}
    assert {kind for kind in TRAINING if COUNTS[kind] == 1} == kept


def test_the_command_line_composes_builds_and_fits_once(capsys):
    assert main(["train", "x.toml", "--quiet", "--epochs", "1"]) == 0
    assert_once()
    COUNTS.clear()
    objects = {"dataset": CountedDataset, "condition": CountedCondition}
    ccl.load("runs/x", objects=objects).evaluate()  # as `ccl evaluate` does
    assert {kind: COUNTS[kind] for kind in TRAINING if COUNTS[kind]} == dict.fromkeys(MEASURING, 1)


def test_networks_that_training_changed_are_built_anew_to_be_measured():
    """What a compiled network computes differs in the last digits."""
    run = ccl.Pipeline.from_toml("x.toml").fit(
        out="run", epochs=1, progress=False, precision="64-true"
    )
    assert run.encode(torch.randn(2, 4)).dtype == torch.float32
    assert COUNTS["backbone"] == 2


class Drawn(ClInfoNCE):
    """Has a parameter that its constructor draws."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.classes = classes
        self.centers = torch.nn.Parameter(torch.randn(classes, 3))


def test_an_objective_that_draws_is_built_with_the_seed_and_after_the_method():
    ccl.local("objective", Drawn)
    pipeline = ccl.Pipeline.from_toml("x.toml", changes=[(("objective",), "local/drawn")])
    centers = []
    for _ in range(2):
        torch.manual_seed(7)
        parts = pipeline.build()
        torch.manual_seed(7)
        pipeline._build_method({})
        assert torch.equal(parts.objective.centers, torch.randn(2, 3))
        centers.append(parts.objective.centers)
    assert centers[0] is not centers[1]


def test_a_file_of_the_command_line_is_composed_with_its_settings(capsys):
    """The hook sees the settings of the run, and what the options replace is not checked."""
    with open("x.toml", "w") as file:
        file.write(TOML.replace("epochs = 3", "epochs = 0"))
    assert main(["train", "x.toml", "--quiet", "--epochs", "1"]) == 0
    assert COUNTS["composed"] == 1


def test_the_information_plane_builds_nothing_again(capsys):
    assert main(["information", "x.toml"]) == 0
    assert_once(["dataset", "condition"])


def test_other_settings_leave_the_first_pipeline_as_it_is():
    pipeline = ccl.Pipeline.from_toml("x.toml")
    other = pipeline.with_settings(epochs=7)
    assert (pipeline.settings.epochs, other.settings.epochs) == (3, 7)
    assert other != pipeline
    assert type(other) is ccl.Pipeline
    assert COUNTS["composed"] == 1
    with pytest.raises(ccl.InvalidConfig, match="unknown key 'epoch'"):
        pipeline.with_settings(epoch=7)


def test_a_warning_comes_once(tmp_path):
    pipeline = TOML.replace('"cl_infonce"', '"infonce"').replace('"same_condition"', '"uniform"')
    (tmp_path / "x.toml").write_text(pipeline)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert main(["train", "x.toml", "--quiet", "--epochs", "1"]) == 0
    unread = [w for w in caught if "nothing in this pipeline reads" in str(w.message)]
    assert len(unread) == 1


@pytest.mark.parametrize("refresh", ["never", "epoch", "batch"])
def test_a_condition_without_the_method_of_its_refresh_is_refused(refresh):
    class Empty:
        value_type = "categorical"

    Empty.refresh = refresh
    method = "__call__" if refresh == "batch" else "fit"
    message = rf"the condition 'z', Empty, has refresh '{refresh}', .* needs a method {method}$"
    given = {"dataset": "color_digits", "backbone": "lenet5", "objective": "infonce"}
    with pytest.raises(ValueError, match=message):
        ccl.Pipeline(**given, conditions={"z": Empty()})
    Empty.refresh = "daily"
    with pytest.raises(ValueError, match="'z', Empty, has refresh 'daily'; it must be 'never'"):
        ccl.Pipeline(**given, conditions={"z": Empty()})
