"""Drawn cells on plates that do not carry the same treatments; writes the tables of ``plates.md``.

Run it as ``python docs/evidence/studies/plates.py``. What ``plates.json`` has is not trained again.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from study import (
    MIXED,
    TRIED,
    Form,
    Read,
    Small,
    Study,
    classifier,
    mixed,
    on_each_group,
    right,
)
from torch import Tensor
from torch.nn import functional

import ccl_plugins as ccl
from ccl_plugins.datasets import InMemory
from ccl_plugins.datasets.plates import CELL_RANGES, STAINS, cells
from ccl_plugins.transforms import SimCLRTransform
from ccl_plugins.transforms.batched import uniforms

TREATMENTS, WELLS, AGREEMENT, SIZE = 8, 240, 0.85, 24
"""Beside the control, which is class 0; images of a plate; how many treated wells follow the layout."""
PLATES = {"train": range(8), "even": range(8), "validation": range(8, 10), "test": range(10, 14)}
"""The plates of each part."""
GAIN, GROUND = 0.5, 0.08
"""How wide the gains of plates are, as logarithms, and how bright their backgrounds."""


class Screen:
    """Cells under five stains, a quarter of each plate's untreated, on plates with batch effects.

    A treatment changes how cells look: size, length, nucleus, membrane, grains, fibers and number.  A plate
    has a gain and a background of each channel, and a focus.  In training the first half of the plates
    carries mostly the first half of the treatments, the second half the others.  Elsewhere all treatments
    are on all plates.

    Columns: ``label``, 0 for controls, 1 to 8 for treatments; ``plate``.

    Args:
        seed: Of what plates and treatments do, and of all wells.
        test: The part that the test split is: ``"test"``, plates that training does not have;
            ``"validation"``, two others; ``"even"``, other wells of the training's plates.
        standardized: Whether each channel is less the mean of the plate's controls, over their deviation.
    """

    def __init__(self, seed: int, test: str = "test", standardized: bool = False) -> None:
        self.seed = seed
        self.test = test
        self.standardized = standardized

    def __call__(self, split: str) -> InMemory:
        """The ``"train"`` or ``"test"`` split."""
        return drawn(self.seed, split if split == "train" else self.test, self.standardized)

    def schema(self) -> Mapping[str, Any]:
        """The columns and what they hold."""
        return dict.fromkeys(("label", "plate"), "categorical")


@functools.cache
def drawn(seed: int, part: str, standardized: bool) -> InMemory:
    """The wells of a part."""
    world = torch.Generator().manual_seed(10 * seed)
    usual = 0.3 + 0.4 * torch.rand(len(CELL_RANGES), generator=world)
    effects = 0.35 * torch.randn(1 + TREATMENTS, len(CELL_RANGES), generator=world)
    effects[0] = 0
    effect = torch.rand(14, 2 * STAINS + 1, generator=world)

    draw = torch.Generator().manual_seed(10 * seed + 1 + [*PLATES].index(part))
    plate = torch.tensor(PLATES[part]).repeat_interleave(WELLS)
    treatment = torch.randint(TREATMENTS, plate.shape, generator=draw)
    if part == "train":
        half = TREATMENTS // 2
        on_layout = torch.rand(plate.shape, generator=draw) < AGREEMENT
        second = (plate >= len(PLATES["train"]) // 2) == on_layout
        treatment = treatment % half + half * second
    control = torch.arange(len(plate)) % 4 == 0
    label = torch.where(control, 0, 1 + treatment)
    unit = usual + effects[label] + 0.08 * torch.randn(len(label), len(CELL_RANGES), generator=draw)
    images = stained(cells(unit.clamp(0, 1), SIZE, draw), effect[plate], draw)
    if standardized:
        images = by_controls(images, plate, control)
    images = (255 * images).round().clamp(0, 255).to(torch.uint8)
    return InMemory(images, label, {"label": label, "plate": plate})


def stained(images: Tensor, effect: Tensor, draw: torch.Generator) -> Tensor:
    """Images (n, 5, h, w) with the gain, the background and the focus of their plates.

    Args:
        images: (n, 5, h, w) in [0, 1].
        effect: (n, 11) in [0, 1]: gains, backgrounds, focus.
        draw: Of the noise.
    """
    n, size = len(images), images.shape[-1]
    gain = (GAIN * (effect[:, :STAINS] - 0.5)).exp()[..., None, None]
    slope = 0.5 + torch.arange(size) / size  # the light is uneven
    ground = GROUND * effect[:, STAINS : 2 * STAINS, None, None] * slope
    offset = torch.arange(-2, 3)
    weights = (-0.5 * (offset / (0.2 + 0.5 * effect[:, -1:])).square()).softmax(1)
    weights = weights.repeat_interleave(STAINS, 0)
    x = images.view(1, n * STAINS, size, size)
    for shape in ((n * STAINS, 1, 5, 1), (n * STAINS, 1, 1, 5)):
        pad = (shape[3] // 2,) * 2 + (shape[2] // 2,) * 2
        padded = functional.pad(x, pad, mode="replicate")
        x = functional.conv2d(padded, weights.view(shape), groups=n * STAINS)
    x = 0.5 * gain * x.view_as(images) + ground
    return x + 0.03 * torch.randn(x.shape, generator=draw)


def by_controls(x: Tensor, plate: Tensor, control: Tensor) -> Tensor:
    """Images (n, 5, h, w), each channel brought to one mean and deviation of every plate's controls."""
    made = torch.empty_like(x)
    for each in plate.unique():
        rows = plate == each
        pixels = x[rows & control]
        mean, std = pixels.mean((0, 2, 3)), pixels.std((0, 2, 3))
        made[rows] = 0.3 + 0.2 * (x[rows] - mean[:, None, None]) / std[:, None, None]
    return made


class Stained(SimCLRTransform):
    """Crops and flips of five channels, each with a gain and a background drawn anew."""

    def __init__(self, size: int = SIZE, min_scale: float = 0.4) -> None:
        plain = {"jitter": 0.0, "gray": 0.0, "blur": 0.0, "batched": True}
        super().__init__(
            size, min_scale=min_scale, mean=[0.3] * STAINS, std=[0.2] * STAINS, **plain
        )
        self.batch_transforms = [
            functools.partial(self._stained, view) for view in self.batch_transforms
        ]

    def _stained(self, view: Any, images: Tensor, seeds: Tensor) -> Tensor:
        u = uniforms(~seeds, 2 * STAINS)[..., None, None]
        gain, ground = (GAIN * (u[:, :STAINS] - 0.5)).exp(), GROUND * (u[:, STAINS:] - 0.5)
        return gain * view(images, seeds) + (0.3 * (gain - 1) + ground) / 0.2


VIEWS = {"size": SIZE, "min_scale": 0.4, "jitter": 0.0, "gray": 0.0, "blur": 0.0, "batched": True}
VIEWS |= {"mean": [0.3] * STAINS, "std": [0.2] * STAINS}
INFONCE = {"objective": {"use": "infonce", "temperature": TRIED}}
FAIR = {"use": "fair_cclk", "kernel": "delta", "temperature": TRIED, "on": "plate"}
PLATE = {"plate": {"use": "column", "name": "plate"}}
LABEL = {"label": {"use": "column", "name": "label"}}
LABELS = {"objective": {"use": "classification", "on": "label"}, "conditions": LABEL}
KEPT = {"on": "label", "keep": True, "by": "classification"}
BOTH = {"objective": {"use": "guided", "base": FAIR, "guides": [KEPT]}}
STANDARDIZED = {"data": {"standardized": True}}
TEMPERATURES = (0.1, 0.3)
OURS = "Fair-CCLK on the plate"
FORMS = {
    "untrained": Form(None),
    "InfoNCE": Form(INFONCE, TEMPERATURES),
    "InfoNCE, gain and background drawn": Form(
        {**INFONCE, "transform": {"use": "stained"}}, like="InfoNCE"
    ),
    "InfoNCE, images standardized": Form({**INFONCE, **STANDARDIZED}, like="InfoNCE"),
    OURS: Form({"objective": FAIR, "conditions": PLATE}, TEMPERATURES),
    "Fair-CCLK, plates shuffled": Form(
        {"objective": FAIR, "conditions": {"plate": {"use": "shuffled", "of": PLATE["plate"]}}},
        like=OURS,
    ),
    "labels, images standardized": Form({**LABELS, **STANDARDIZED}),
    "labels beside Fair-CCLK on the plate": Form(
        {**BOTH, "conditions": {**PLATE, **LABEL}}, like=OURS
    ),
}
COMPARED = {
    OURS: (
        "untrained",
        "InfoNCE",
        "InfoNCE, gain and background drawn",
        "InfoNCE, images standardized",
        "Fair-CCLK, plates shuffled",
    ),
    "labels beside Fair-CCLK on the plate": ("labels, images standardized",),
}
COLUMNS = {
    "raw": "unseen plates",
    "worst": "worst of them",
    "standardized": "standardized on each",
    "controls": "by its controls",
    "leak": "plate, linear",
    "leak_mlp": "plate, MLP",
    "leak_controls": "plate, MLP, by controls",
}


def pipeline(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The arguments of a pipeline."""
    ccl.local("transform", Stained)  # known as "stained"
    parts = {
        "dataset": Screen(seed, **settings.get("data", {})),
        "backbone": ccl.local("backbone", Small, in_channels=STAINS),
        "method": ccl.method("simclr", hidden=128, dim=128, batch_norm=False),
        "transform": ccl.transform("simclr", **VIEWS),
    }
    return parts | {key: each for key, each in settings.items() if key != "data"}


def measured(read: Read, seed: int, settings: Mapping[str, Any]) -> dict[str, float]:
    """What probes read, and how the treated wells of unseen plates are mixed, raw and by controls."""
    parts = {name: drawn(seed, name, "data" in settings) for name in ("train", "test", "even")}
    of = {name: part.metadata for name, part in parts.items()}
    raw = {name: read(part) for name, part in parts.items()}
    by = {
        "standardized": {part: on_each_group(x, of[part]["plate"]) for part, x in raw.items()},
        "controls": {
            part: on_each_group(x, of[part]["plate"], of[part]["label"] == 0)
            for part, x in raw.items()
        },
    }
    found = {}
    for name, x in {"raw": raw, **by}.items():
        probe = classifier(x["train"], of["train"]["label"])
        treated = of["test"]["label"] > 0
        hits = right(probe, x["test"][treated], of["test"]["label"][treated])
        found[name] = float(hits.mean())
        if name == "raw":
            found["worst"] = float(hits.view(len(PLATES["test"]), -1).mean(1).min())
        if name != "standardized":
            plate, label = (of["test"][key][treated] for key in ("plate", "label"))
            found |= {
                f"{key}_{name}": n for key, n in mixed(x["test"][treated], plate, label).items()
            }
    # The plate is read where all treatments are on all plates.
    plate, half = of["even"]["plate"], torch.arange(len(raw["even"])) % 2 == 0
    for name, x, hidden in (
        ("leak", raw, False),
        ("leak_mlp", raw, True),
        ("leak_controls", by["controls"], True),
    ):
        probe = classifier(x["even"][half], plate[half], hidden=hidden)
        found[name] = float(right(probe, x["even"][~half], plate[~half]).mean())
    return found


def validated(read: Read, seed: int, settings: Mapping[str, Any]) -> float:
    """The accuracy on the plates that are for choosing."""
    train, held = (drawn(seed, name, "data" in settings) for name in ("train", "validation"))
    probe, treated = classifier(read(train), train.metadata["label"]), held.metadata["label"] > 0
    return float(right(probe, read(held)[treated], held.metadata["label"][treated]).mean())


MIXING = {f"{name}_raw": title for name, title in MIXED.items()}
MIXING |= {f"{name}_controls": f"{MIXED[name]}, by controls" for name in ("ilisi", "kbet", "map")}
STUDY = Study(
    "plates",
    FORMS,
    COLUMNS,
    COMPARED,
    pipeline,
    measured,
    validated,
    steps=100,
    described=MIXING,
)

if __name__ == "__main__":
    STUDY.main(__doc__)
