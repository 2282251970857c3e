"""Drawn heads that change with age, most of each diagnosis at one age; writes the tables of ``ages.md``.

Run it as ``python docs/evidence/studies/ages.py``. What ``ages.json`` has is not trained again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import torch
from study import TRIED, Form, Read, Small, Study, classifier, explained, right
from torch import Tensor

import ccl_plugins as ccl
from ccl_plugins.datasets import InMemory

DIAGNOSES, SIZE, MISSING = 4, 24, 0.2
"""Classes; height and width; the share of training ages that are missing, where some are."""
COUNTS = {"train": 1200, "even": 800, "validation": 400, "test": 1200}
"""Images of each part."""


class Heads:
    """A drawn section of a head: skull, cortex, ventricles, and a lesion, whose form is the diagnosis.

    With age, from 20 to 90, ventricles grow, the cortex gets thin and contrast is lost; each head has a
    size, a turn and a shape of its own.  In training the mean age rises with the diagnosis, by 10 years a
    class, with a deviation of 12.  Elsewhere age and diagnosis are independent.

    Columns: ``label``, the diagnosis: no lesion, a round one, a long one, two small ones; ``age``, in
    years, NaN where it is missing.

    Args:
        seed: Of all that is drawn.
        test: The part that the test split is: ``"test"``, ``"validation"`` or ``"even"``, to fit probes of
            the age to.
        missing: What is done with a fifth of the training ages: None, they are known; ``"nan"``, they are
            missing; ``"mean"``, they are the mean of the others.
    """

    def __init__(self, seed: int, test: str = "test", missing: str | None = None) -> None:
        self.seed = seed
        self.test = test
        self.missing = missing

    def __call__(self, split: str) -> InMemory:
        """The ``"train"`` or ``"test"`` split."""
        part = drawn(self.seed, split if split == "train" else self.test)
        if split != "train" or self.missing is None:
            return part
        draw = torch.Generator().manual_seed(10 * self.seed + 9)
        age = part.metadata["age"].clone()
        lost = torch.rand(len(age), generator=draw) < MISSING
        age[lost] = math.nan if self.missing == "nan" else age[~lost].mean()
        return InMemory(part.images, part.targets, {**part.metadata, "age": age})

    def schema(self) -> Mapping[str, Any]:
        """The columns and what they hold."""
        return {"label": "categorical", "age": "continuous"}


@functools.cache
def drawn(seed: int, part: str) -> InMemory:
    """The images of a part."""
    draw = torch.Generator().manual_seed(10 * seed + [*COUNTS].index(part))
    n = COUNTS[part]
    label = torch.randint(DIAGNOSES, (n,), generator=draw)
    age = 20 + 70 * torch.rand(n, generator=draw)
    if part == "train":
        age = 40 + 10 * label + 12 * torch.randn(n, generator=draw)
        age = age.clamp(20, 90)
    return InMemory(heads(label, age, draw), label, {"label": label, "age": age})


def heads(label: Tensor, age: Tensor, draw: torch.Generator) -> Tensor:
    """Images (n, 1, 24, 24) uint8.

    Args:
        label: (n,) diagnoses.
        age: (n,) years, from 20 to 90.
        draw: Of what differs from head to head.
    """
    n = len(label)

    def between(low: float, high: float) -> Tensor:
        return (low + (high - low) * torch.rand(n, generator=draw))[:, None, None]

    old = ((age - 20) / 70)[:, None, None]
    line = (2 * torch.arange(SIZE) + 1) / SIZE - 1
    turn = between(-0.3, 0.3)
    across = turn.cos() * line + turn.sin() * line[:, None]
    down = turn.cos() * line[:, None] - turn.sin() * line

    def ellipse(x: Tensor | float, y: Tensor | float, wide: Tensor, high: Tensor) -> Tensor:
        distance = (((across - x) / wide).square() + ((down - y) / high).square()).sqrt()
        return ((1 - distance) * torch.minimum(wide, high) * SIZE / 2 + 0.5).clamp(0, 1)

    wide, high = between(0.7, 0.85), between(0.8, 0.95)
    brain = ellipse(0, 0, wide, high)
    thin = 0.8 + 0.12 * old + between(-0.02, 0.02)
    white = ellipse(0, 0, thin * wide, thin * high)
    contrast = 0.25 - 0.1 * old
    x = 0.3 * brain + contrast * white
    large = (0.12 + 0.08 * old) * between(0.85, 1.15)
    for side in (-1, 1):
        x = x - (0.25 + 0.1 * old) * ellipse(side * 0.18, -0.1, 0.6 * large, 1.5 * large)
    place = between(-0.35, 0.35), between(0.15, 0.5)
    size = between(0.18, 0.24)
    one = ellipse(*place, size, size)
    long = ellipse(*place, 2.2 * size, 0.5 * size)
    two = ellipse(place[0] - 0.25, place[1], 0.7 * size, 0.7 * size)
    two = two + ellipse(place[0] + 0.25, place[1], 0.7 * size, 0.7 * size)
    lesions = torch.stack([torch.zeros_like(one), one, long, two])
    x = x + 0.45 * lesions[label, torch.arange(n)]
    x = x + 0.04 * torch.randn(x.shape, generator=draw)
    return (255 * x[:, None]).round().clamp(0, 255).to(torch.uint8)


VIEWS = {"size": SIZE, "min_scale": 0.5, "jitter": 0.0, "gray": 0.0, "blur": 0.0, "batched": True}
VIEWS |= {"mean": [0.4], "std": [0.25]}
AGE = {"use": "column", "name": "age", "standardize": True}
TEMPERATURES = (0.1, 0.3)
SCALE = 0.1
OURS = "Fair-CCLK, scale 0.1"


def fair(scale: float = SCALE, data: Mapping[str, Any] | None = None, **age: Any) -> dict[str, Any]:
    """Fair-CCLK on the standardized age, with a scale of its kernel."""
    kernel = {"use": "rbf", "scale": scale}
    objective = {"use": "fair_cclk", "kernel": kernel, "temperature": TRIED, "on": "age"}
    return {"objective": objective, "conditions": {"age": {**AGE, **age}}, "data": data or {}}


FORMS = {
    "untrained": Form(None),
    "InfoNCE": Form({"objective": {"use": "infonce", "temperature": TRIED}}, TEMPERATURES),
    "Fair-CCLK, scale 0.01": Form(fair(0.01), like=OURS),
    OURS: Form(fair(), TEMPERATURES),
    "Fair-CCLK, scale 1": Form(fair(1.0), like=OURS),
    "scale 0.1, ages shuffled": Form(
        {**fair(), "conditions": {"age": {"use": "shuffled", "of": AGE}}}, like=OURS
    ),
    "scale 0.1, a fifth missing, `ignore`": Form(
        fair(data={"missing": "nan"}, missing="ignore"), like=OURS
    ),
    "scale 0.1, a fifth filled by the mean": Form(fair(data={"missing": "mean"}), like=OURS),
    "labels": Form(
        {
            "objective": {"use": "classification", "on": "label"},
            "conditions": {"label": {"use": "column", "name": "label"}},
        }
    ),
}
COMPARED = {
    OURS: [title for title in FORMS if title not in (OURS, "labels")],
}
COLUMNS = {
    "accuracy": "diagnosis",
    "worst": "worst group",
    "out": "diagnosis, age regressed out",
    "leak": "age, linear R²",
    "leak_mlp": "age, MLP R²",
    "leak_out": "age, MLP R², regressed out",
}


def pipeline(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The arguments of a pipeline."""
    parts = {
        "dataset": Heads(seed, **settings.get("data", {})),
        "backbone": ccl.local("backbone", Small, in_channels=1),
        "method": ccl.method("simclr", hidden=128, dim=128, batch_norm=False),
        "transform": ccl.transform("simclr", **VIEWS),
    }
    return parts | {key: each for key, each in settings.items() if key != "data"}


def regressed_out(x: Mapping[str, Tensor], of: Mapping[str, Any]) -> dict[str, Tensor]:
    """Features (n, f) of each part less what a line and a parabola of the age tell in training."""
    ages = {name: (columns["age"] - 55) / 20 for name, columns in of.items()}
    terms = {name: torch.stack([z**0, z, z**2], 1) for name, z in ages.items()}
    weights = torch.linalg.lstsq(terms["train"], x["train"]).solution
    return {name: each - terms[name] @ weights for name, each in x.items()}


def measured(read: Read, seed: int, settings: Mapping[str, Any]) -> dict[str, float]:
    """What probes read."""
    parts = {name: drawn(seed, name) for name in ("train", "test", "even")}
    of = {name: part.metadata for name, part in parts.items()}
    raw = {name: read(part) for name, part in parts.items()}
    out = regressed_out(raw, of)
    found = {}
    for name, x in (("accuracy", raw), ("out", out)):
        probe = classifier(x["train"], of["train"]["label"])
        hits = right(probe, x["test"], of["test"]["label"])
        found[name] = float(hits.mean())
        if name == "accuracy":
            # A diagnosis in a third of the ages.
            group = 3 * of["test"]["label"] + ((of["test"]["age"] - 20) * 3 / 70).long().clamp(0, 2)
            found["worst"] = min(float(hits[group == g].mean()) for g in group.unique())
    # The age is read where age and diagnosis are independent.
    for name, x, hidden in (("leak", raw, False), ("leak_mlp", raw, True), ("leak_out", out, True)):
        ages = of["even"]["age"], of["test"]["age"]
        found[name] = explained(x["even"], ages[0], x["test"], ages[1], hidden)
    return found


def validated(read: Read, seed: int, settings: Mapping[str, Any]) -> float:
    """The accuracy on heads that are for choosing."""
    train, held = (drawn(seed, name) for name in ("train", "validation"))
    probe = classifier(read(train), train.metadata["label"])
    return float(right(probe, read(held), held.metadata["label"]).mean())


STUDY = Study("ages", FORMS, COLUMNS, COMPARED, pipeline, measured, validated, steps=100)

if __name__ == "__main__":
    STUDY.main(__doc__)
