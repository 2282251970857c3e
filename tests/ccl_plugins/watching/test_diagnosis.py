"""A run that does not learn says why in one line, and one that learns says nothing."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Callback
from support.slips import SLIPS
from torch import Tensor, nn
from torch.nn import functional

import ccl_plugins as ccl
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.kinds import registry
from ccl_plugins.methods import MoCoV2
from ccl_plugins.objectives import HCL, AlignUniform, ClInfoNCE, InfoNCE, SupCon
from ccl_plugins.pairs import Samples, in_batch
from ccl_plugins.protocols import Length
from ccl_plugins.training import ranks
from ccl_plugins.training.findings import read_findings
from ccl_plugins.watching import Finding, Observation, Symptom, diagnosis
from ccl_plugins.watching.batches import Embeddings, embedding_numbers
from ccl_plugins.watching.chance import scale_of
from ccl_plugins.watching.diagnosis import Diagnosis
from ccl_plugins.watching.symptoms import Collapse, rise

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "when-it-does-not-learn.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
MAIN = ["color_digits_infonce", "color_digits_fair"]


def rows(size: int = 256, classes: int = 8) -> dict[str, Tensor]:
    """Vectors around one center per class, with columns of several kinds."""
    draw = torch.Generator().manual_seed(0)
    label = torch.arange(size) % classes
    centers = torch.randn(classes, 16, generator=draw)
    return {
        "features": centers[label] + torch.randn(size, 16, generator=draw),
        "label": label,
        "color": torch.rand(size, 3, generator=draw),
        "number": torch.arange(size),
        "shop": torch.zeros(size, dtype=torch.long),
        "price": torch.full((size, 2), 7.0),
    }


TRAIN = rows()


def compose(**changes: Any) -> ccl.Pipeline:
    """A pipeline of 48 steps, 8 more than those after which a loss must have moved."""
    given: dict[str, Any] = {
        "dataset": ccl.create("dataset", "features", train=TRAIN, test=TRAIN),
        "backbone": ccl.backbone("mlp", in_features=16, hidden=[32]),
        "method": ccl.method("simclr", hidden=32, dim=16, batch_norm=False),
        "transform": "noise",
        "objective": ccl.objective("infonce", temperature=0.2),
        "evaluate": [],
    }
    fit = {"epochs": 6, "batch_size": 32, "workers": 0, "log_every": 5, "checkpoint_every": 99}
    return ccl.Pipeline(**{**given, **changes, "fit": {**fit, **changes.get("fit", {})}})


def lines(out: Path, pipeline: ccl.Pipeline, **given: Any) -> list[str]:
    """The warnings of a run, which are what its file holds."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipeline.fit(out=out, logger=False, progress=False, **given)
    said = [str(w.message) for w in caught if "when-it-does-not-learn" in str(w.message)]
    kept = json.loads((out / "diagnosis.json").read_text())
    now = [each for each in kept if any(each["line"] in line for line in said)]
    assert len(now) == len(said)
    assert all(
        line.startswith(f"step {each['step']}: ") for each, line in zip(now, said, strict=True)
    )
    return said


LONG = {
    "a rate of nearly 0",
    "a rate that is too high",
    "nothing that keeps samples apart",
    "keys of other networks",
    "infonce",
    "cl_infonce",
}
"""Cases with the patience that a run of a user has: one of each test, and those that need the steps."""


@pytest.fixture
def shorter(monkeypatch: Any) -> Callable[[str, ccl.Pipeline], dict[str, Any]]:
    """Half of a run's steps, and of those after which a loss must have moved, but for the `LONG`."""

    def settings(name: str, pipeline: ccl.Pipeline) -> dict[str, Any]:
        if name in LONG or pipeline.settings.epochs < 6:
            return {}
        monkeypatch.setattr(diagnosis, "LEAST", 20)
        return {"epochs": pipeline.settings.epochs // 2}

    return settings


class Leave(Callback):
    """Ends the training after some batches."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        trainer.should_stop = trainer.global_step >= self.batches


def sgd(lr: float) -> dict[str, Any]:
    return {"optimizer": {"use": "sgd", "lr": lr}}


def moco(**options: Any) -> Any:
    return ccl.method(
        "moco_v2", hidden=32, dim=16, **{"queue_size": 128, "momentum": 0.9, **options}
    )


class Strangers(nn.Module):
    """Views that have nothing in common."""

    count = 2

    def __call__(self, image: Tensor) -> list[Tensor]:
        return [torch.randn_like(image) for _ in range(self.count)]

    def plain(self, image: Tensor) -> Tensor:
        return image


class Dying(nn.Sequential):
    """A network whose units die after ten batches, as at a rate that is too high."""

    num_features = 32

    def __init__(self) -> None:
        super().__init__(nn.Linear(16, 32), nn.ReLU())
        self.batches = 0

    def forward(self, x: Tensor) -> Tensor:
        self.batches += self.training
        return super().forward(x) * (self.batches < 10)


class Stuck(MoCoV2):
    """A queue that is written at the beginning alone."""

    written = 0

    def enqueue(self, pairs: Any) -> None:
        self.written += 1
        if self.written < 4:
            super().enqueue(pairs)


class Blind(InfoNCE):
    """Its value is right, and its gradient is lost."""

    def loss(self, pairs: Any) -> Tensor:
        loss = super().loss(pairs)
        return loss.detach() + 0 * loss


NAMED = {"use": "column", "name": "number"}
CASES: dict[str, tuple[Callable[[], ccl.Pipeline], str, str]] = {
    "a rate of nearly 0": (
        lambda: compose(fit={"optimizer": {"use": "adamw", "lr": 1e-9}}),
        "the-loss-stays-at-chance",
        "the weights hardly move: raise fit.optimizer.lr (now 1e-09)",
    ),
    "a short run at a rate of nearly 0": (
        lambda: compose(fit={"epochs": 3, **sgd(1e-8)}),
        "the-loss-stays-at-chance",
        "raise fit.optimizer.lr (now 1e-08)",
    ),
    "a classifier at a rate of nearly 0": (
        lambda: compose(
            objective="cluster_cross_entropy", condition="label", fit={"epochs": 3, **sgd(1e-8)}
        ),
        "the-loss-stays-at-chance",
        "raise fit.optimizer.lr (now 1e-08)",
    ),
    "views with nothing in common": (
        lambda: compose(transform=Strangers()),
        "the-loss-stays-at-chance",
        "take weaker views (transform)",
    ),
    "a rate that rises too far": (
        lambda: compose(fit={"epochs": 20, "warmup_epochs": 10, "batch_size": 64, **sgd(1e3)}),
        "the-loss-rises",
        "lower fit.optimizer.lr (now 1000)",
    ),
    "a rate that is too high": (
        lambda: compose(fit={"optimizer": {"use": "adamw", "lr": 30.0}}),
        "the-loss-rises",
        "lower fit.optimizer.lr (now 30)",
    ),
    "dead units": (
        lambda: compose(backbone=Dying(), fit=sgd(3.0)),
        "the-embeddings-collapse",
        "lower fit.optimizer.lr (now 3)",
    ),
    "nothing that keeps samples apart": (
        lambda: compose(objective=ccl.objective("align_uniform", uniform_weight=0.0)),
        "the-embeddings-collapse",
        "take an objective with negatives",
    ),
    "a head of one unit": (
        lambda: compose(method=ccl.method("simclr", hidden=1, dim=16, batch_norm=False)),
        "the-embeddings-lie-on-a-line",
        "method.hidden",
    ),
    "a kernel that is too narrow": (
        lambda: compose(
            objective=ccl.objective("fair_cclk", kernel=ccl.kernel("rbf", scale=1e-9)),
            condition=ccl.condition("column", name="color"),
        ),
        "a-kernel-sees-almost-nothing",
        'take another objective.kernel.scale, such as "median"',
    ),
    "a kernel that is too wide": (
        lambda: compose(
            objective=ccl.objective("fair_cclk", kernel=ccl.kernel("rbf", scale=1e6)),
            condition=ccl.condition("column", name="color"),
        ),
        "a-kernel-sees-all-as-equal",
        'take another objective.kernel.scale, such as "median"',
    ),
    "a kernel of numbers on class ids": (
        lambda: compose(
            objective=ccl.objective("fair_cclk", kernel=ccl.kernel("rbf", scale=1.0)),
            condition="label",
        ),
        "a-kernel-of-numbers-reads-class-ids",
        'objective.kernel = "delta"',
    ),
    "a narrow kernel on the batch": (
        lambda: compose(
            objective=ccl.objective("hardneg_cclk", kernel=ccl.kernel("rbf", scale=1e-9)),
            condition="embedding",
        ),
        "a-kernel-sees-almost-nothing",
        "on condition 'condition'",
    ),
    "one class id": (
        lambda: compose(objective="supcon", condition=ccl.condition("column", name="shop")),
        "a-condition-is-constant",
        "choose another condition",
    ),
    "one number": (
        lambda: compose(
            objective=ccl.objective("fair_cclk", kernel="rbf", on="price"),
            conditions={"price": ccl.condition("column", name="price")},
        ),
        "a-condition-is-constant",
        "choose another conditions.price",
    ),
    "an id per sample": (
        lambda: compose(objective="supcon", condition=NAMED),
        "a-condition-is-unique-per-sample",
        "256 of 256 samples",
    ),
    "an id per sample, for which no anchor counts": (
        lambda: compose(objective="fair_infonce", condition=NAMED),
        "a-condition-is-unique-per-sample",
        "choose a coarser condition",
    ),
    "one class id, for which no anchor counts": (
        lambda: compose(objective="scl", condition=ccl.condition("column", name="shop")),
        "a-condition-is-constant",
        "choose another condition",
    ),
    "batches of one class": (
        lambda: compose(objective="supcon", condition="label", sampler="same_condition"),
        "batches-have-one-class",
        "all 32 samples of each have one value of condition 'condition'",
    ),
    "a batch of one sample": (
        lambda: compose(
            dataset=ccl.create("dataset", "features", train=rows(64), test=rows(64)),
            fit={"batch_size": 1, "epochs": 1},
        ),
        "no-anchor-of-the-batch-counts",
        "take a larger batch_size",
    ),
    "a gradient of 0": (
        lambda: compose(objective=Blind()),
        "no-gradient-reaches-the-networks",
        "raise objective.temperature if",
    ),
    "a high temperature": (
        lambda: compose(objective=ccl.objective("infonce", temperature=50)),
        "the-temperature-is-too-high",
        "lower objective.temperature",
    ),
    "a low temperature": (
        lambda: compose(objective=ccl.objective("hcl", temperature=0.001)),
        "the-temperature-is-too-low",
        "raise objective.temperature",
    ),
    "a schedule to a high temperature": (
        lambda: compose(
            objective=ccl.objective(
                "infonce", temperature={"schedule": "cosine", "start": 0.2, "end": 9.0}
            )
        ),
        "the-temperature-is-too-high",
        "at 9 ",
    ),
    "a learned temperature": (
        lambda: compose(
            objective=ccl.objective("infonce", temperature={"learn": True, "start": 2.5}),
            transform=Strangers(),
            fit={"optimizer": {"use": "adamw", "lr": 0.05}},
        ),
        "the-temperature-is-too-high",
        "lower objective.temperature",
    ),
    "a temperature in a mixture": (
        lambda: compose(
            objective=ccl.objective(
                "mixture", objectives={"a": "ucl", "b": ccl.objective("infonce", temperature=8)}
            )
        ),
        "the-temperature-is-too-high",
        "objective.objectives.b.temperature",
    ),
    "a queue longer than the run": (
        lambda: compose(method=moco(queue_size=4096)),
        "the-queue-is-stale",
        "lower method.queue_size (now 4096)",
    ),
    "keys that stand still": (
        lambda: compose(method=moco(momentum=0.99999)),
        "the-keys-do-not-follow",
        "lower method.momentum",
    ),
    "a queue that nobody writes": (
        lambda: compose(
            method=ccl.local("method", Stuck, hidden=32, dim=16, queue_size=128, momentum=0.9)
        ),
        "the-keys-no-longer-match",
        "lower method.queue_size",
    ),
    "keys of other networks": (
        lambda: compose(method=moco(momentum=0.0, queue_size=512)),
        "the-keys-no-longer-match",
        "raise method.momentum",
    ),
}


def test_each_line_has_its_section():
    sources = (ROOT / "ccl_plugins").rglob("*.py")
    found = {
        n
        for file in sources
        for n in re.findall(r'^ +f?"([a-z{}]+(?:-[a-z{}]+){2,})",$', file.read_text(), re.M)
    }
    sections = {
        line.lower().replace(" ", "-")
        for line in re.findall(r"^## (.*)$", PAGE.read_text().partition("# The lines")[2], re.M)
    }
    named = {name for each in found for name in ([each] if "{" not in each else _ends(each))}
    assert named == sections
    assert {section for _, section, _ in CASES.values()} | {*SLIPS} == sections


def _ends(name: str) -> list[str]:
    return [name.replace("{name}", word) for word in ("high", "low")]


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_does_not_learn_says_why(case, tmp_path, shorter):
    make, section, setting = CASES[case]
    pipeline = make()
    found = lines(tmp_path / "run", pipeline, **shorter(case, pipeline))
    assert len(found) == 1, found
    (line,) = found
    assert line.endswith(f"see docs/how-to/when-it-does-not-learn.md#{section}")
    assert setting in line
    assert "\n" not in line


LEARNING: dict[str, Callable[[], ccl.Pipeline]] = {
    name: (lambda given=given: compose(**given))
    for name, given in {
        "infonce": {},
        "infonce, cold": {"objective": ccl.objective("infonce", temperature=0.02)},
        "infonce, warm": {"objective": ccl.objective("infonce", temperature=1.0)},
        "small batches": {"fit": {"batch_size": 8, "epochs": 2}},
        "batches of two": {"fit": {"batch_size": 2, "epochs": 1}},
        "one sample and a queue": {
            "backbone": ccl.backbone("mlp", in_features=16, hidden=[32], batch_norm=False),
            "method": moco(queue_size=32),
            "fit": {"batch_size": 1, "epochs": 1},
        },
        "nt_xent": {"objective": "nt_xent", "method": ccl.method("simclr", hidden=32, dim=16)},
        "ucl": {"objective": "ucl"},
        "hcl": {"objective": "hcl"},
        "hucl": {"objective": ccl.objective("hucl", beta=2.0)},
        "supcon": {"objective": "supcon", "condition": "label"},
        "scl": {"objective": ccl.objective("scl", positives="all"), "condition": "label"},
        "hscl": {"objective": "hscl", "condition": "label"},
        "weaklysup_infonce": {"objective": "weaklysup_infonce", "condition": "label"},
        "fair_infonce": {"objective": "fair_infonce", "condition": "label"},
        "fair_infonce, batches of one class": {
            "objective": "fair_infonce",
            "condition": "label",
            "sampler": "same_condition",
        },
        "cl_infonce": {
            "objective": "cl_infonce",
            "condition": ccl.condition("clusters", k=8, warmup=4),
        },
        "align_uniform": {"objective": "align_uniform"},
        "cacr": {"objective": "cacr"},
        "soft_infonce": {
            "objective": ccl.objective("soft_infonce", kernel="cosine"),
            "condition": ccl.condition("column", name="color"),
        },
        "fair_cclk": {
            "objective": ccl.objective("fair_cclk", kernel=ccl.kernel("rbf", scale="median")),
            "condition": ccl.condition("column", name="color"),
        },
        "weaklysup_cclk": {
            "objective": ccl.objective("weaklysup_cclk", kernel=ccl.kernel("rbf", scale="median")),
            "condition": ccl.condition("column", name="color"),
        },
        "hardneg_cclk": {
            "objective": ccl.objective("hardneg_cclk", kernel=ccl.kernel("rbf", scale="median")),
            "condition": "embedding",
        },
        "cluster_cross_entropy": {"objective": "cluster_cross_entropy", "condition": "label"},
        "cmc": {"objective": "cmc"},
        "mixture": {
            "objective": ccl.objective("mixture", objectives=["infonce", "supcon"]),
            "condition": "label",
        },
        "a learned temperature": {
            "objective": ccl.objective("infonce", temperature={"learn": True, "start": 0.07})
        },
        "a scheduled temperature": {
            "objective": ccl.objective(
                "infonce", temperature={"schedule": "cosine", "start": 1.0, "end": 0.05}
            )
        },
        "moco_v2": {"method": moco()},
        "moco_v3": {"method": ccl.method("moco_v3", hidden=32, dim=16, momentum=0.9)},
    }.items()
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (i % 3 > 0)) for i, name in enumerate(LEARNING)],
)
def test_a_run_that_learns_is_quiet(name, tmp_path, shorter):
    pipeline = LEARNING[name]()
    assert lines(tmp_path / "run", pipeline, **shorter(name, pipeline)) == []


@pytest.mark.parametrize(("deviation", "count"), [(0.2, 1), (1.2, 0)])
def test_losses_that_differ_from_batch_to_batch_are_no_rise(deviation, count):
    assert len([*rise(20, 3.4, 2.2, deviation, 0.1)]) == count


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(each, marks=[pytest.mark.slow] * (each.stem not in MAIN), id=each.stem)
        for each in EXAMPLES
    ],
)
def test_the_first_steps_of_an_example_are_quiet(path, tmp_path):
    pipeline = ccl.Pipeline.from_toml(path, epochs=1, warmup_epochs=0, workers=0)
    pipeline.evaluators, pipeline.built_evaluators = [], []
    assert lines(tmp_path / "run", pipeline, callbacks=[Leave(3)]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MAIN)
def test_a_whole_main_example_is_quiet(name, tmp_path):
    assert lines(tmp_path / "run", ccl.Pipeline.from_toml(ROOT / "examples" / f"{name}.toml")) == []


@pytest.mark.parametrize(
    ("length", "step"),
    [
        (Length(6, 8), 40),  # less than twice as many
        (Length(100, 50), 2000),
        (Length(10, 100), 500),
        (Length(10, 100, warmup_epochs=6), 640),
        (Length(100, 500, warmup_epochs=2, max_steps=1100), 1040),
    ],
)
def test_a_loss_may_stay_until_half_of_the_run_and_the_warm_up_have_passed(length, step):
    assert diagnosis.patience(length) == step


def test_what_was_said_before_a_resume_is_not_said_again(tmp_path):
    def make(epochs: int) -> ccl.Pipeline:
        warm = ccl.objective("infonce", temperature=9.0)
        return compose(objective=warm, fit={"epochs": epochs, "schedule": {"use": "constant"}})

    assert len(lines(tmp_path / "run", make(2))) == 1
    assert lines(tmp_path / "run", make(6), resume=True) == []
    kept = json.loads((tmp_path / "run" / "diagnosis.json").read_text())
    assert [(each["name"], each["step"]) for each in kept] == [("the-temperature-is-too-high", 0)]
    assert len(lines(tmp_path / "run", make(2), overwrite=True)) == 1


def test_wrong_findings_of_an_interrupted_run_are_named_and_found_again(tmp_path):
    def make(epochs: int) -> ccl.Pipeline:
        return compose(objective=ccl.objective("infonce", temperature=9.0), fit={"epochs": epochs})

    (line,) = lines(tmp_path / "run", make(1))
    file = tmp_path / "run" / "diagnosis.json"
    file.write_text(file.read_text().replace("temperature", "temperaturf"))
    with pytest.warns(UserWarning, match="damaged") as caught:
        make(2).fit(out=tmp_path / "run", resume=True, logger=False, progress=False)
    damaged, again = (str(each.message) for each in caught)
    assert re.search(r"diagnosis\.json is damaged.*may be reported again", damaged)
    assert again == line.replace("step 0:", "step 8:")
    assert [str(each) for each in read_findings(RunFolder(tmp_path / "run"))] == [again]


def test_a_resumed_run_compares_with_the_start_of_the_first(tmp_path):
    def make(epochs: int) -> ccl.Pipeline:
        return compose(fit={"epochs": epochs, "schedule": {"use": "constant"}, **sgd(1e-9)})

    assert lines(tmp_path / "run", make(2)) == []
    (line,) = lines(tmp_path / "run", make(6), resume=True)
    assert "raise fit.optimizer.lr" in line


def test_after_a_resume_weights_are_compared_with_those_before_the_first_step(
    tmp_path, monkeypatch
):
    found: list[float] = []
    monkeypatch.setattr(Collapse, "look", lambda self, seen: found.append(seen.moved()) or ())
    for epochs in (3, 4):
        fit = {"epochs": epochs, "schedule": {"use": "constant"}, **sgd(0.1)}
        compose(fit=fit).fit(out=tmp_path / "run", resume=True, logger=False, progress=False)
    assert found == sorted(found)
    assert len(found) > 5


class Counts(Symptom):
    """Says how often it looked, once it has looked four times."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self, seen: Observation) -> Iterator[Finding]:
        self.looks += 1
        if self.looks == 4:
            yield Finding("looked-four-times", seen.step, f"{seen.loss:.3g}", page="docs/mine.md")


class Follows(Counts):
    follows = True


class Breaks(Symptom):
    def look(self, seen: Observation) -> Iterator[Finding]:
        raise KeyError("height")


def of_a_plugin(monkeypatch: Any, *symptoms: Symptom) -> None:
    def call(hook: str, **_: Any) -> Any:
        return [("ccl-plugins", list(symptoms))] if hook == "ccl_symptoms" else []

    monkeypatch.setattr(registry(), "call", call)


def said(out: Path, epochs: int, **given: Any) -> list[str]:
    constant = {"epochs": epochs, "schedule": {"use": "constant"}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compose(fit=constant).fit(out=out, logger=False, progress=False, **given)
    return [str(w.message) for w in caught if re.search("looked|no longer checked", str(w.message))]


def test_a_symptom_of_a_plugin_is_looked_for_and_remembers_over_a_resume(tmp_path, monkeypatch):
    of_a_plugin(monkeypatch, Counts())
    assert said(tmp_path / "run", 1) == []
    of_a_plugin(monkeypatch, Counts())
    (line,) = said(tmp_path / "run", 2, resume=True)
    assert line.startswith("step 15: ")
    assert line.endswith("; see docs/mine.md#looked-four-times")


def test_what_follows_is_not_said_beside_what_explains_it(tmp_path, monkeypatch):
    of_a_plugin(monkeypatch, Counts(), Follows())
    found = said(tmp_path / "run", 2)
    assert len(found) == 1
    of_a_plugin(monkeypatch, Follows())
    assert len(said(tmp_path / "alone", 2)) == 1


class Fitted(Symptom):
    """Notes where it sees a table that was fitted again."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def look(self, seen: Observation) -> Iterator[Finding]:
        self.steps += [seen.step] * len(seen.fresh)
        return iter(())


@pytest.mark.parametrize("ends", [[3], [1, 3], [2, 3]])
def test_a_table_is_fresh_at_the_first_look_after_it_was_fitted(ends, tmp_path, monkeypatch):
    """As the table of an epoch with which a resumed run begins: losses with it are compared anew."""
    for epochs in ends:
        fitted = Fitted()
        of_a_plugin(monkeypatch, fitted)
        clusters = ccl.condition("clusters", k=8)
        fit = {"epochs": epochs, "schedule": {"use": "constant"}, "log_every": 8}
        pipeline = compose(objective="supcon", condition=clusters, fit=fit)
        pipeline.fit(out=tmp_path / "run", resume=True, logger=False, progress=False)
    assert fitted.steps == [16, 24]


class Words(Symptom):
    def look(self, seen: Observation) -> Iterator[Any]:
        yield "it looked odd"


class OfTheDevice(Symptom):
    def look(self, seen: Observation) -> Iterator[Finding]:
        yield Finding("looked-odd", torch.tensor(seen.step), "it looked odd")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("symptom", "reason"),
    [
        (Breaks(), "(KeyError: 'height')"),
        (Words(), "(TypeError: it must give findings, not 'it looked odd'"),
        (OfTheDevice(), "(TypeError: the step of a finding must be of type int, not tensor(1)"),
    ],
)
def test_a_symptom_that_raises_or_gives_no_findings_is_named_and_ends_no_run(
    symptom, reason, tmp_path, monkeypatch
):
    of_a_plugin(monkeypatch, symptom, Counts())
    broken, counted = said(tmp_path / "run", 2)
    name = type(symptom).__name__
    assert f"{name} raised an error, and is no longer checked {reason}" in broken
    assert "looked-four-times" in counted


def test_two_symptoms_of_one_class_have_their_own_memories(tmp_path, monkeypatch):
    first, second = Counts(), Counts()
    first.looks, second.looks = 10, 100
    of_a_plugin(monkeypatch, first, second)
    said(tmp_path / "run", 1)
    looks = first.looks, second.looks
    of_a_plugin(monkeypatch, first := Counts(), second := Counts())
    said(tmp_path / "run", 2, resume=True)
    assert second.looks - first.looks == looks[1] - looks[0]


class Collects(Symptom):
    """Remembers what no checkpoint can hold."""

    def __init__(self) -> None:
        self.looked = {0}


class Forgets(Counts):
    """Cannot read what an earlier version remembered."""

    def load_state_dict(self, state: Any) -> None:
        raise KeyError("looked, once")


def test_a_symptom_whose_memory_cannot_be_kept_or_read_ends_no_run(tmp_path, monkeypatch):
    of_a_plugin(monkeypatch, Collects(), Forgets())
    (line,) = said(tmp_path / "run", 1)
    assert "Collects raised an error, and is no longer checked (TypeError" in line
    assert "Collects/looked of a checkpoint is a builtins.set" in line
    of_a_plugin(monkeypatch, Forgets())
    (line,) = said(tmp_path / "run", 2, resume=True)
    assert "Forgets raised an error, and is no longer checked (KeyError" in line


def test_looking_changes_no_weight(tmp_path, monkeypatch):
    found = []
    for looks in (True, False):
        if not looks:
            monkeypatch.setattr(Diagnosis, "_look", lambda *_: None)
        pipeline = compose(method=moco(), condition="label", objective="supcon", fit={"epochs": 3})
        run = pipeline.fit(out=tmp_path / str(looks), logger=False, progress=False)
        found.append(torch.load(run.folder.weights, weights_only=True))
    for network in ("method", "objective"):
        for name, value in found[0][network].items():
            assert torch.equal(value, found[1][network][name]), name


def test_a_file_that_cannot_be_written_does_not_end_the_run(tmp_path):
    (tmp_path / "run" / "diagnosis.json").mkdir(parents=True)
    RunFolder(tmp_path / "run").note(tmp_path / "run" / "diagnosis.json")
    with pytest.warns(UserWarning, match=r"diagnosis.json cannot be written"):
        compose(fit={"epochs": 1}).fit(out=tmp_path / "run", logger=False, progress=False)


def embedded(size: int = 64) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    return functional.normalize(torch.randn(2, size, 32, generator=draw), dim=-1)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_chance_of_infonce_is_the_log_of_the_number_of_candidates(temperature):
    scale = scale_of(InfoNCE(temperature), in_batch(embedded()))
    assert scale is not None
    torch.testing.assert_close(scale.chance, torch.tensor(64.0).log().item())
    assert scale.progress(scale.chance) == 0
    assert scale.progress(scale.reached) == 1


@pytest.mark.parametrize(
    ("objective", "candidates"),
    [(SupCon(0.2), 127), (ClInfoNCE(0.2), 127), (HCL(0.5, tau_plus=0.1), 127), (AlignUniform(), 1)],
)
def test_every_objective_has_its_own_chance(objective, candidates):
    condition = {"condition": torch.arange(64) % 4} if objective.conditions else {}
    scale = scale_of(objective, in_batch(embedded(), Samples(condition)))
    assert scale is not None
    assert scale.distinguishes
    torch.testing.assert_close(scale.chance, torch.tensor(float(candidates)).log().item())


def scale_of_a_part() -> Any:
    """The scale of this process's part of a batch, of which the second half is of one class."""
    world, size = ranks.world_size(), 64 // ranks.world_size()
    mine = slice(ranks.rank() * size, (ranks.rank() + 1) * size)
    classes = torch.cat([torch.arange(32) % 4, torch.full((32,), 4)])
    samples = Samples({"condition": classes[mine]})
    return scale_of(SupCon(0.2), in_batch(embedded()[:, mine], samples, world > 1))


def test_all_processes_have_the_scale_of_the_whole_batch(two_processes):
    """What a symptom decides by it, as to compute it again, all must decide."""
    first, second = two_processes(scale_of_a_part)
    assert first == second
    torch.testing.assert_close(asdict(first), asdict(scale_of_a_part()), rtol=1e-5, atol=1e-5)


class Refuses(InfoNCE):
    """Takes no embeddings that are equal."""

    def loss(self, pairs: Any) -> Tensor:
        if bool((pairs.anchors == pairs.anchors[:, :1]).all()):
            raise ValueError("equal embeddings")
        return super().loss(pairs)


def test_an_objective_that_refuses_equal_embeddings_has_no_scale():
    assert scale_of(Refuses(), in_batch(embedded())) is None


def test_one_class_leaves_nothing_to_distinguish():
    pairs = in_batch(embedded(), Samples({"condition": torch.zeros(64, dtype=torch.long)}))
    scale = scale_of(SupCon(0.2), pairs)
    assert scale is not None
    assert not scale.distinguishes


def test_the_numbers_of_embeddings_are_those_of_their_definitions():
    x = embedded()
    found = asdict(Embeddings(*embedding_numbers(in_batch(x), raw=False).tolist()))
    eigenvalues = torch.linalg.eigvalsh(torch.cov(x[0].T, correction=0))
    spread = torch.cdist(x[0], x[0]).square().mean() / 2
    rank = eigenvalues.sum() ** 2 / eigenvalues.square().sum()
    torch.testing.assert_close(found["rank"], rank.item(), rtol=1e-4, atol=0)
    torch.testing.assert_close(found["spread"], spread.item(), rtol=1e-4, atol=0)
    nearer = 1 - (x[0] - x[1]).square().sum(1).mean() / (2 * spread)
    torch.testing.assert_close(found["nearer"], nearer.item(), rtol=1e-4, atol=0)
    assert found["width"] == 32
