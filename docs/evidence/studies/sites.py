"""Digits from several scanners, most of each class from one of them; writes the tables of ``sites.md``.

Run it as ``python docs/evidence/studies/sites.py --seeds 10``; it needs scanpy, for ComBat. What
``sites.json`` has is not trained again.
"""

from __future__ import annotations

import functools
import math
import statistics
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
    combat,
    mixed,
    on_each_group,
    right,
)
from torch import Tensor
from torch.nn import functional

import ccl_plugins as ccl
from ccl_plugins.datasets import InMemory
from ccl_plugins.datasets.color_digits import read_digits
from ccl_plugins.datasets.grating_digits import wave

KNOWN, AGREEMENT, SIZE = 4, 0.85, 24
"""Sites of training, the new one beside; how many of a class are of its own site."""


class Sites:
    """scikit-learn's digits, as the scanners of four sites show them, and a fifth one.

    Each site has a brightness curve, a field of view, a blur, a color cast, an interference pattern and
    noise of its own; each image its own phase of the pattern.  In training 85 % of a class are of one site.
    Elsewhere each digit is there once from every site, so that class and site are independent.

    Columns: ``label``; ``site``, 0 to 3, the new one 4; ``group``, the class and the site.

    Args:
        seed: Of the scanners, of what is drawn and of the split.
        test: ``"test"``; ``"validation"``, digits that neither training nor test have; ``"new"``, those of
            the test by the new scanner.
        standardized: Whether each channel is brought to one mean and deviation of every site's images.
    """

    def __init__(self, seed: int, test: str = "test", standardized: bool = False) -> None:
        self.seed = seed
        self.test = test
        self.standardized = standardized

    def __call__(self, split: str) -> InMemory:
        """The ``"train"`` or ``"test"`` split."""
        part = split if split == "train" else self.test
        return drawn(self.seed, part, self.standardized)

    def schema(self) -> Mapping[str, Any]:
        """The columns and what they hold."""
        return dict.fromkeys(("label", "site", "group"), "categorical")


@functools.cache
def drawn(seed: int, part: str, standardized: bool = False) -> InMemory:
    """A part of the digits: ``"train"``, ``"validation"``, ``"test"`` or ``"new"``."""
    if standardized:
        raw = drawn(seed, part)
        images = on_each_site(raw.images, raw.metadata["site"])
        return InMemory(images, raw.targets, raw.metadata)
    held_out = part in ("test", "new")
    ink, label, rows = read_digits("test" if held_out else "train", 0.2, seed)
    if not held_out:
        rows = rows[(torch.arange(len(rows)) % 8 == 0) == (part == "validation")]
    places = ("train", "test", "validation", "new")
    generator = torch.Generator().manual_seed(10 * seed + places.index(part))
    label = label[rows]
    if part == "train":
        away = (label % KNOWN + torch.randint(1, KNOWN, label.shape, generator=generator)) % KNOWN
        own = torch.rand(label.shape, generator=generator) < AGREEMENT
        site = torch.where(own, label % KNOWN, away)
    elif part == "new":
        site = torch.full_like(label, KNOWN)
    else:
        site = torch.arange(KNOWN).repeat_interleave(len(rows))
        rows, label = rows.repeat(KNOWN), label.repeat(KNOWN)
    world = torch.Generator().manual_seed(10 * seed + 9)
    scanners = torch.rand(KNOWN + 1, 12, generator=world)
    images = scanned(ink[rows], scanners[site], generator)
    columns = {"label": label, "site": site, "group": KNOWN * label + site}
    return InMemory(images, label, columns)


def scanned(ink: Tensor, scanner: Tensor, generator: torch.Generator) -> Tensor:
    """Images (n, 3, 24, 24) uint8 of digits, each by a scanner.

    Args:
        ink: (n, 8, 8) in [0, 1].
        scanner: (n, 12) in [0, 1]: brightness curve, field of view, blur, three of the color, the angle,
            period and height of the pattern, noise, ground and vignette.
        generator: Of what differs from image to image.
    """
    n = len(ink)
    curve, field, blur, *cast, turn, often, height, noise, ground, dark = scanner.T
    turned = 0.15 * torch.randn(n, generator=generator)
    zoom = 0.8 + 0.3 * field
    cosine, sine, none = zoom * turned.cos(), zoom * turned.sin(), torch.zeros(n)
    way = torch.stack([cosine, -sine, none, sine, cosine, none], 1).view(n, 2, 3)
    grid = functional.affine_grid(way, [n, 1, SIZE, SIZE], align_corners=False)
    x = functional.grid_sample(ink[:, None], grid, align_corners=False)[:, 0]
    x = 0.1 + 0.2 * ground[:, None, None] + 0.6 * x
    x = x ** (1.2 * curve - 0.6).exp()[:, None, None]
    line = (2 * torch.arange(SIZE) + 1) / SIZE - 1
    x = x * (1 - 0.35 * dark[:, None, None] * (line.square() + line.square()[:, None]))
    # A Gaussian blur of up to 1 pixel.
    offset = torch.arange(-3, 4)
    weights = (-0.5 * (offset / (0.2 + 0.8 * blur[:, None])).square()).softmax(1)
    for shape in ((n, 1, 7, 1), (n, 1, 1, 7)):
        pad = (shape[3] // 2,) * 2 + (shape[2] // 2,) * 2
        padded = functional.pad(x[None], pad, mode="replicate")
        x = functional.conv2d(padded, weights.view(shape), groups=n)[0]
    phase = 2 * math.pi * torch.rand(n, generator=generator)
    period = (3 + 5 * often)[:, None, None]
    x = x + 0.08 * height[:, None, None] * wave(math.pi * turn, phase, period, SIZE)
    color = (0.5 * (torch.stack(cast, 1) - 0.5)).exp()
    color = color * (1 + 0.05 * torch.randn(n, 3, generator=generator))
    x = x[:, None] * color[:, :, None, None]
    x = x + (0.01 + 0.05 * noise)[:, None, None, None] * torch.randn(x.shape, generator=generator)
    return (255 * x).round().clamp(0, 255).to(torch.uint8)


def on_each_site(images: Tensor, site: Tensor) -> Tensor:
    """Images (n, 3, h, w) uint8, each channel brought to one mean and deviation of every site's images."""
    made = torch.empty_like(images)
    for each in site.unique():
        pixels = images[site == each].float()
        std, mean = torch.std_mean(pixels, (0, 2, 3), keepdim=True)
        made[site == each] = (
            (100 + 40 * (pixels - mean) / std).round().clamp(0, 255).to(torch.uint8)
        )
    return made


COLORS = {"jitter": 0.5, "gray": 0.2, "blur": 0.5}
"""The augmentations that imitate a scanner: brightness, contrast, color and blur."""
VIEWS = {"size": SIZE, "min_scale": 0.5, "flip": 0.0, "batched": True}
PLAIN = {**VIEWS, "jitter": 0.0, "gray": 0.0, "blur": 0.0}
STRONG = {"transform": {"use": "simclr", **VIEWS, **COLORS}}
FAIR = {"use": "fair_cclk", "kernel": "delta", "temperature": TRIED, "on": "site"}
DIGIT = {"use": "classification", "on": "label"}
SITE = {"site": {"use": "column", "name": "site"}}
LABEL = {"label": {"use": "column", "name": "label"}}
TEMPERATURES = (0.1, 0.3)
GROUP = {"group": {"use": "column", "name": "group"}}
ALIKE = {"use": "weighted", "on": "group"}
KEPT = {"on": "label", "keep": True, "by": "classification"}
BOTH = {"use": "guided", "base": FAIR, "guides": [KEPT]}
AUGMENTED = {"objective": {"use": "infonce", "temperature": TRIED}, **STRONG}
GUIDE = {"on": "site", "keep": False, "by": "classification", "suppress": "reversal"}
REVERSED = {
    "use": "guided",
    "base": {"use": "infonce", "temperature": 0.1},
    "guides": [{**GUIDE, "weight": TRIED}],
}
OURS = "Fair-CCLK, jitter, gray and blur"
FORMS = {
    "untrained": Form(None),
    "InfoNCE": Form({"objective": {"use": "infonce", "temperature": TRIED}}, TEMPERATURES),
    "InfoNCE, jitter, gray and blur": Form(AUGMENTED, like="InfoNCE"),
    "InfoNCE, jitter, gray and blur; features standardized on each site": Form(
        {**AUGMENTED, "cure": "standardized"}, like="InfoNCE"
    ),
    "InfoNCE, jitter, gray and blur; features by ComBat": Form(
        {**AUGMENTED, "cure": "combat"}, like="InfoNCE"
    ),
    "InfoNCE, jitter, gray and blur; images standardized on each site": Form(
        {**AUGMENTED, "data": {"standardized": True}}, like="InfoNCE"
    ),
    "InfoNCE, jitter, gray and blur; site by reversal": Form(
        {"objective": REVERSED, "conditions": SITE, **STRONG}, (0.1, 0.3, 1.0)
    ),
    "Fair-CCLK on the site": Form({"objective": FAIR, "conditions": SITE}, TEMPERATURES),
    OURS: Form({"objective": FAIR, "conditions": SITE, **STRONG}, like="Fair-CCLK on the site"),
    "Fair-CCLK, jitter, gray and blur; images standardized on each site": Form(
        {"objective": FAIR, "conditions": SITE, **STRONG, "data": {"standardized": True}},
        like="Fair-CCLK on the site",
    ),
    "Fair-CCLK, sites shuffled": Form(
        {"objective": FAIR, "conditions": {"site": {"use": "shuffled", "of": SITE["site"]}}},
        like="Fair-CCLK on the site",
    ),
    "labels (ERM)": Form({"objective": DIGIT, "conditions": LABEL}),
    "labels, groups drawn alike": Form(
        {"objective": DIGIT, "conditions": {**LABEL, **GROUP}, "sampler": ALIKE}
    ),
    "labels beside Fair-CCLK, groups drawn alike": Form(
        {"objective": BOTH, "conditions": {**LABEL, **SITE, **GROUP}, "sampler": ALIKE},
        like="Fair-CCLK on the site",
    ),
}
COMPARED = {
    "Fair-CCLK on the site": (
        "untrained",
        "InfoNCE",
        "InfoNCE, jitter, gray and blur",
        "Fair-CCLK, sites shuffled",
    ),
    OURS: (
        "InfoNCE, jitter, gray and blur",
        "InfoNCE, jitter, gray and blur; features standardized on each site",
        "InfoNCE, jitter, gray and blur; features by ComBat",
        "InfoNCE, jitter, gray and blur; images standardized on each site",
        "InfoNCE, jitter, gray and blur; site by reversal",
    ),
    "Fair-CCLK, jitter, gray and blur; images standardized on each site": (
        "InfoNCE, jitter, gray and blur; images standardized on each site",
    ),
    "labels beside Fair-CCLK, groups drawn alike": ("labels (ERM)", "labels, groups drawn alike"),
}
COLUMNS = {
    "known": "known sites",
    "worst": "worst group",
    "new": "new site",
    "left": "a site left out of the probe",
    "known_even": "known sites, reweighted",
    "new_even": "new site, reweighted",
    "leak": "site, linear",
    "leak_mlp": "site, MLP",
}


def pipeline(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The arguments of a pipeline."""
    parts = {
        "dataset": Sites(seed, **settings.get("data", {})),
        "backbone": ccl.local("backbone", Small),
        "method": ccl.method("simclr", hidden=128, dim=128, batch_norm=False),
        "transform": ccl.transform("simclr", **PLAIN),
    }
    return parts | {key: each for key, each in settings.items() if key not in ("data", "cure")}


def measured(read: Read, seed: int, settings: Mapping[str, Any]) -> dict[str, float]:
    """What probes read, and how the known sites are mixed."""
    names, data = ("train", "test", "validation", "new"), settings.get("data", {})
    x = {name: read(drawn(seed, name, **data)) for name in names}
    of = {name: drawn(seed, name).metadata for name in names}
    x = cured(x, {name: of[name]["site"] for name in names}, settings.get("cure"))
    found = {}
    for end, groups in (("", None), ("_even", of["train"]["group"])):
        probe = classifier(x["train"], of["train"]["label"], groups)
        for name, key in (("test", "known"), ("new", "new")):
            hits = right(probe, x[name], of[name]["label"])
            found[f"{key}{end}"] = float(hits.mean())
            if name == "test" and groups is None:
                cells = of[name]["group"].unique()
                found["worst"] = min(float(hits[of[name]["group"] == g].mean()) for g in cells)
    left = []
    for site in range(KNOWN):
        fits, asked = of["train"]["site"] != site, of["test"]["site"] == site
        probe = classifier(x["train"][fits], of["train"]["label"][fits])
        left.append(float(right(probe, x["test"][asked], of["test"]["label"][asked]).mean()))
    found["left"] = statistics.fmean(left)
    # The site is read where class and site are independent.
    for name, hidden in (("leak", False), ("leak_mlp", True)):
        probe = classifier(x["validation"], of["validation"]["site"], hidden=hidden)
        found[name] = float(right(probe, x["test"], of["test"]["site"]).mean())
    return found | mixed(x["test"], of["test"]["site"], of["test"]["label"])


def cured(
    x: Mapping[str, Tensor], site: Mapping[str, Tensor], cure: str | None
) -> dict[str, Tensor]:
    """Features of each part, standardized on each of its sites, or by ComBat of all parts together."""
    if cure == "standardized":
        return {name: on_each_group(each, site[name]) for name, each in x.items()}
    if cure == "combat":
        made = combat(torch.cat([*x.values()]), torch.cat([*site.values()]))
        return dict(zip(x, made.split([len(each) for each in x.values()]), strict=True))
    return {**x}


def validated(read: Read, seed: int, settings: Mapping[str, Any]) -> float:
    """The accuracy on digits that are for choosing, at the known sites."""
    train, held = drawn(seed, "train"), drawn(seed, "validation")
    probe = classifier(read(train), train.metadata["label"])
    return float(right(probe, read(held), held.metadata["label"]).mean())


STUDY = Study(
    "sites",
    FORMS,
    COLUMNS,
    COMPARED,
    pipeline,
    measured,
    validated,
    steps=100,
    apart=True,
    endpoint="known",
    first=5,
    described=MIXED,
)

if __name__ == "__main__":
    STUDY.main(__doc__)
