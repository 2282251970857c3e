"""The rules: what the parts of a pipeline ask of each other, before data is touched."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

import ccl_plugins as ccl
from ccl_plugins.experiments import rules
from ccl_plugins.experiments.configuration import default_evaluators
from ccl_plugins.experiments.rules import check_columns
from ccl_plugins.metadata import fitted
from ccl_plugins.methods import SimCLR
from ccl_plugins.objectives import ClInfoNCE, InfoNCE
from ccl_plugins.protocols import Table


def test_a_rule_is_a_function_that_names_what_it_reads(monkeypatch, tmp_path):
    monkeypatch.setattr(rules, "_RULES", {**rules._RULES})

    @rules.rule
    def warm(objective, sampler, settings):
        if objective.temperature < 0.1:
            raise ValueError(f"{sampler.spec.name} is too cold for {settings.epochs} epochs")

    @rules.rule
    def small(networks, dataset):
        if networks.method.backbone.num_features > 10:
            raise ValueError(f"the features are too many for {type(dataset).__name__}")

    with pytest.raises(ValueError, match="uniform is too cold for 100 epochs"):
        compose({"use": "infonce", "temperature": 0.05}, None)
    pipeline = compose("infonce", None)
    with pytest.raises(ValueError, match="the features are too many for ColorDigits"):
        pipeline.fit(out=tmp_path / "run", progress=False)


class BatchAlone(InfoNCE):
    """A loss of the batch alone, as one of lightly's."""

    reads_queue = False

    def terms(self, pairs):
        return super().terms(replace(pairs, queue=None))


def compose(objective, condition, **rest):
    return ccl.Pipeline(
        dataset="color_digits",
        backbone="lenet5",
        objective=objective,
        condition=condition,
        **rest,
    )


CLASS_READERS = (
    "cl_infonce",
    "supcon",
    {"use": "mixture", "objectives": ["infonce", "cl_infonce"]},
)


@pytest.mark.parametrize("levels", [[4, 8], [8]])
@pytest.mark.parametrize("objective", CLASS_READERS, ids=str)
def test_a_hierarchy_is_refused_where_one_class_id_is_read(objective, levels):
    with pytest.raises(ValueError, match=r"'condition', WordNet, is a hierarchy .*wordnet\(level="):
        compose(objective, {"use": "wordnet", "levels": levels})
    compose(objective, {"use": "wordnet", "level": 4})


def test_several_k_are_a_hierarchy():
    with pytest.raises(ValueError, match=r"Clusters, is a hierarchy .*one k \(clusters\(k="):
        compose("cl_infonce", {"use": "clusters", "k": [3, 5]})
    compose("cl_infonce", {"use": "clusters", "k": 3})


def test_a_saved_condition_knows_what_it_was(tmp_path):
    file = tmp_path / "levels.safetensors"
    split = ccl.create("dataset", "color_digits")("train")
    for values in (torch.zeros(len(split), 2).long(), torch.zeros(len(split)).long()):
        fitted.save_table(file, Table(values), "categorical", split)
        if values.ndim == 2:
            with pytest.raises(ValueError, match="Saved, is a hierarchy"):
                compose("cl_infonce", {"use": "saved", "file": str(file)})
        else:
            compose("cl_infonce", {"use": "saved", "file": str(file)})


def test_an_objective_that_reads_several_class_ids_says_so():
    class ReadsAll(ClInfoNCE):
        hierarchies = True

    compose(ReadsAll(), {"use": "wordnet", "levels": [4, 8]})


def test_a_sampler_may_group_by_all_levels():
    compose(
        "infonce",
        {"use": "wordnet", "levels": [4, 8]},
        sampler={"use": "same_condition", "small": "repeat"},
    )


def test_what_means_nothing_in_another_batch_is_kept_out_of_a_queue(tmp_path):
    class OfTheBatch:
        refresh, value_type, within_batch = "batch", "categorical", True

        def __call__(self, embedded):
            return torch.arange(embedded.projections.shape[1])

    method = {"use": "moco_v2", "hidden": 8, "dim": 4, "queue_size": 512}
    pipeline = compose("cl_infonce", OfTheBatch(), method=method)
    with pytest.raises(
        ValueError, match=r"'condition', OfTheBatch, .* use a method without a queue"
    ):
        pipeline.fit(out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_label_of_numbers_is_measured_by_regression():
    split = {"features": [[0.0, 1.0], [1.0, 0.0]], "label": [0.5, 1.5]}
    dataset = ccl.create("dataset", "features", train=split, test=split)
    assert default_evaluators(dataset) == [{"use": "regression", "column": "label"}]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"hue": ("categorical",)}, "reads the column 'hue', and the data set has label"),
        ({"label": ("continuous",)}, "needs a continuous column, and 'label' is categorical"),
        ({"age": ("continuous",), "label": ("continuous",)}, "and 'label' is categorical"),
        ({"age": ("continuous",), "hue": ("continuous",)}, "reads the column 'hue'"),
        ({"age": ("continuous",), "label": ("continuous", "categorical")}, None),
        ({}, None),
        (["label"], r"Probe.columns must have value types .*, not \['label'\]"),
        ({"label": "categorical"}, "Probe.columns must have value types"),
        ({"label": ("class",)}, "Probe.columns must have value types"),
    ],
)
def test_an_evaluator_declares_several_columns_which_are_checked_before_training(columns, message):
    evaluator = type("Probe", (), {"columns": columns})()
    dataset = SimpleNamespace(schema=lambda: {"label": "categorical", "age": "continuous"})
    refused = pytest.raises(ValueError, match=message) if message else nullcontext()
    with refused:
        check_columns([evaluator], dataset)


def test_a_sampler_refuses_a_condition_that_keeps_samples_without_a_value():
    label = {"use": "label", "missing": "ignore"}
    with pytest.raises(ValueError, match=r"same_condition .* missing='own' or 'drop'"):
        compose("infonce", label, sampler="same_condition")
    compose("supcon", label)


def test_an_objective_that_masks_no_samples_is_refused_with_ignored_values():
    class Bare(torch.nn.Module):
        conditions, min_views = {"condition": ["categorical"]}, 2
        within_view, embedding, distributed = False, "sphere", "mean"

        def terms(self, pairs):
            return pairs.own_sim(0, 1)[None], torch.ones(1, len(pairs.anchors[0]))

        def loss(self, pairs):
            return self.terms(pairs)[0].mean()

    compose(Bare(), "label")
    for objective in (Bare(), {"use": "mixture", "objectives": [Bare(), "infonce"]}):
        with pytest.raises(ValueError, match="Bare is not a subclass of ContrastiveObjective"):
            compose(objective, {"use": "label", "missing": "ignore"})


def test_an_evaluator_that_declares_no_columns_is_not_checked():
    check_columns([lambda train, test: {}], SimpleNamespace())


class ByColor(SimCLR):
    """Reads two conditions in ``pairs``."""

    conditions: ClassVar = {"color": ("continuous",), "age": ("continuous", "categorical")}


class On(SimCLR):
    """Reads the condition that a parameter names."""

    def __init__(self, on="color", *, backbone):
        super().__init__(16, 8, backbone=backbone)
        self.on = on

    @property
    def conditions(self):
        return {self.on: ("continuous",)}


COLOR = {"use": "column", "name": "color"}
LABEL = {"use": "label"}


@pytest.mark.parametrize(
    ("method", "conditions", "message"),
    [
        (ByColor, {"color": COLOR, "age": LABEL}, None),
        (
            ByColor,
            {"color": COLOR},
            r"ByColor reads the condition 'age' .* conditions={'color': ..., 'age': ...}",
        ),
        (
            ByColor,
            {"color": LABEL, "age": LABEL},
            "ByColor needs a continuous .* 'color', Label, is",
        ),
        (On, {"color": COLOR}, None),
        (On, {"hue": COLOR}, "On reads the condition 'color' .* give it on='hue'"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_method_declares_several_conditions_which_are_checked_when_composed(
    method, conditions, message
):
    refused = pytest.raises(ValueError, match=message) if message else nullcontext()
    with refused:
        ccl.Pipeline(
            dataset="color_digits",
            backbone="lenet5",
            objective="infonce",
            method=ccl.local("method", method),
            conditions=conditions,
        )


@pytest.mark.parametrize(
    "objective", [BatchAlone(), {"use": "mixture", "objectives": [BatchAlone()]}]
)
def test_an_objective_that_ignores_the_queue_is_a_warning_when_composed(objective):
    parts = {"dataset": "color_digits", "backbone": "lenet5", "objective": objective}
    with pytest.warns(
        UserWarning, match="(BatchAlone|Mixture) .* a queue, so that of moco_v2 has no effect"
    ):
        ccl.Pipeline(method="moco_v2", **parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ccl.Pipeline(method="moco_v3", **parts)
        ccl.Pipeline(**{**parts, "objective": "infonce"}, method="moco_v2")


@pytest.mark.parametrize("method", ["simclr", "moco_v2", "moco_v3"])
def test_too_few_views_are_refused_when_a_pipeline_is_composed(method):
    words = "CACR needs at least 5 views, and this transform gives 2: use transform multi"
    with pytest.raises(ValueError, match=words):
        compose({"use": "cacr", "positives": 4}, None, method=method)


def test_a_mistake_in_settings_leaves_a_run_that_is_to_be_overwritten(tmp_path):
    (tmp_path / "weights.pt").write_bytes(b"mine")
    (tmp_path / "pipeline.json").write_text("{}")
    pipeline = compose("infonce", None)
    with pytest.raises(ValueError, match="cannot be shared by 3 processes"):
        pipeline.fit(out=tmp_path, overwrite=True, devices=3, batch_size=256)
    assert (tmp_path / "weights.pt").read_bytes() == b"mine"
