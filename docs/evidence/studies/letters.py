"""Letters in real typefaces, by ``letters-protocol.md``; writes the tables of ``letters.md``.

Run it as ``FONTS=folder python docs/evidence/studies/letters.py``, on a folder of fonts; without one it
takes those of the system.  What ``letters.json`` has is not trained again.  It needs scanpy and harmonypy.
"""

from __future__ import annotations

import functools
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from study import (
    TRIED,
    Form,
    Read,
    Row,
    Study,
    annotated,
    combat,
    convolutions,
    on_each_group,
    word,
)
from torch import Tensor, nn
from torch.nn import functional

import ccl_plugins as ccl
from ccl_plugins.datasets import Fonts, InMemory
from ccl_plugins.datasets.annotated import annotations_of
from ccl_plugins.experiments.results import interval_of
from ccl_plugins.transforms import SimCLRTransform
from ccl_plugins.transforms.batched import uniforms

FOLDER = os.environ.get("FONTS", "system")
SIZE, NEIGHBORS = 32, 20
EDGES = (400, 501)
"""Between light, regular and bold fonts, the classes of weight."""
HELD = (300.0, 800.0)
"""Weights of which a table trains no font."""
SHEAR, STRETCH = 0.3, 0.25
"""How far the imitating augmentation leans a letter, and by how much it makes it wider or narrower."""


class Letters:
    """The fonts of a seed: three fifths of families train, one is for choosing, one for testing.

    Columns: those of `fonts`, and ``heavy``, the class of weight.

    Args:
        seed: Of the families.
        tied: Whether 85 % of a letter's images in training are of one class of weight.
        apart: Whether fonts of `HELD` weights do not train; only their letters look for neighbors then,
            among those of all families that do not train.
    """

    def __init__(self, seed: int, tied: bool = False, apart: bool = False) -> None:
        self.given = (seed, tied, apart)

    def __call__(self, split: str) -> InMemory:
        """The ``"train"`` or ``"test"`` split."""
        return parts(*self.given)[split]

    def schema(self) -> Mapping[str, Any]:
        """The columns and what they hold."""
        return {**Fonts(FOLDER).schema(), "heavy": "categorical"}


@functools.lru_cache(maxsize=1)
def parts(seed: int, tied: bool = False, apart: bool = False) -> dict[str, InMemory]:
    """``"train"``, ``"validation"`` and ``"test"``, as `Letters` has them."""
    fonts = Fonts(FOLDER, size=SIZE, test_fraction=0.4, seed=seed)
    held = fonts("test")
    families = held.metadata["family"].unique()
    order = torch.randperm(len(families), generator=torch.Generator().manual_seed(seed))
    tested = torch.isin(held.metadata["family"], families[order[: len(order) // 2]])
    train = fonts("train")
    trains = torch.ones(len(train), dtype=torch.bool)
    if tied:
        trains = tied_in(train.metadata["label"], classes(train), seed)
    if apart:
        trains &= ~torch.isin(train.metadata["weight"], torch.tensor(HELD))
        tested = torch.ones_like(tested)  # nothing is chosen here
    return {"train": of(train, trains), "validation": of(held, ~tested), "test": of(held, tested)}


def classes(split: InMemory) -> Tensor:
    """(N,) the class of weight of each letter."""
    return torch.bucketize(split.metadata["weight"], torch.tensor(EDGES), right=True)


def tied_in(label: Tensor, heavy: Tensor, seed: int) -> Tensor:
    """(N,) True at letters that are kept, so that 85 % of each are of a class of weight of its own."""
    generator = torch.Generator().manual_seed(seed)
    own = torch.randint(len(EDGES) + 1, (int(label.max()) + 1,), generator=generator)
    mine = heavy == own[label]
    others = mine.new_zeros(len(label))
    for letter in label.unique():
        count = int(0.15 / 0.85 * (mine & (label == letter)).sum())
        rows = (~mine & (label == letter)).nonzero().flatten()
        others[rows[torch.randperm(len(rows), generator=generator)[:count]]] = True
    return mine | others


def of(split: InMemory, chosen: Tensor) -> InMemory:
    """Some of the letters, with their class of weight."""
    rows = chosen.nonzero().flatten()
    metadata, words, texts, group = annotations_of(split, rows.tolist())
    made = InMemory(split.images[rows], split.targets[rows], metadata, words, texts, group)
    made.metadata["heavy"] = classes(made)
    return made


class Imitated(SimCLRTransform):
    """Crops of letters that are leaned, made wider or narrower, and thicker or thinner at random."""

    def __init__(self, size: int = SIZE, min_scale: float = 0.6) -> None:
        super().__init__(**{**VIEWS, "size": size, "min_scale": min_scale})
        self.batch_transforms = [
            functools.partial(self._imitated, view) for view in self.batch_transforms
        ]

    def _imitated(self, view: Any, images: Tensor, seeds: Tensor) -> Tensor:
        lean, wide, thick = uniforms(~seeds, 3).unbind(1)
        x = 1 - images.float() / 255
        matrix = torch.zeros(len(x), 2, 3, device=x.device)
        matrix[:, 0, 0] = (STRETCH * (2 * wide - 1)).exp()
        matrix[:, 0, 1], matrix[:, 1, 1] = SHEAR * (2 * lean - 1), 1
        grid = functional.affine_grid(matrix, list(x.shape), align_corners=False)
        x = functional.grid_sample(x, grid, align_corners=False)
        more, less = functional.max_pool2d(x, 3, 1, 1), -functional.max_pool2d(-x, 3, 1, 1)
        share = (2 * thick - 1)[:, None, None, None]
        x = torch.lerp(x, torch.where(share > 0, more, less), share.abs())
        return view((255 * (1 - x)).round().clamp(0, 255).to(torch.uint8), seeds)


@ccl.local("backbone")
class OfLetters(nn.Module):
    """Three convolutions of stride 2 and a linear layer."""

    num_features = 128

    def __init__(self) -> None:
        super().__init__()
        layers = convolutions(1, 24, 48, 96)
        linear = nn.Linear(96 * 16, self.num_features)
        self.layers = nn.Sequential(*layers, nn.Flatten(), linear, nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, 128) of images (n, 1, 32, 32)."""
        return self.layers(x)


VIEWS = {"size": SIZE, "min_scale": 0.6, "flip": 0.0, "jitter": 0.0, "gray": 0.0, "blur": 0.0}
VIEWS |= {"mean": [0.9], "std": [0.25], "batched": True}
WHOLE = {"sampler": {"use": "m_per_class", "m": 62, "columns": "font"}}
IMITATING = {"transform": {"use": "imitated"}}
INFONCE = {"objective": {"use": "infonce", "temperature": TRIED}}
FONT = {"font": {"use": "column", "name": "font"}}
STYLE = {"style": {"use": "column", "name": "style", "standardize": True}}
FAIR = {"use": "fair_cclk", "temperature": TRIED}
ON_FONT = {"objective": {**FAIR, "kernel": "delta", "on": "font"}, "conditions": FONT, **WHOLE}
RBF = {"use": "rbf", "scale": 0.05}
ON_STYLE = {"objective": {**FAIR, "kernel": RBF, "on": "style"}, "conditions": STYLE}
OF_WEIGHT = {
    "objective": {"use": "fair_infonce", "temperature": TRIED, "on": "heavy"},
    "conditions": {"heavy": {"use": "column", "name": "heavy"}},
}
SUPCON = {
    "objective": {"use": "supcon", "temperature": TRIED, "on": "label"},
    "conditions": {"label": {"use": "column", "name": "label"}},
}


def guided(**guide: Any) -> dict[str, Any]:
    """InfoNCE beside a guide that suppresses the numbers."""
    guides = [{"on": "style", "keep": False, "weight": TRIED, **guide}]
    base = {"use": "infonce", "temperature": 0.1}
    objective = {"use": "guided", "base": base, "guides": guides}
    return {"objective": objective, "conditions": STYLE, **IMITATING}


def principal(split: InMemory) -> Tensor:
    """(N, 64) the first principal components of a part's pixels."""
    x = split.images.flatten(1).float() / 255
    x = x - x.mean(0)
    return x @ torch.linalg.eigh(x.T @ x).eigenvectors[:, -64:]


TEMPERATURES = (0.03, 0.05, 0.1, 0.2, 0.5)
WEIGHTS = (0.1, 0.3, 1.0)
OURS = "Fair-CCLK on the font, whole fonts, imitating"
FORMS = {
    "untrained": Form(None),
    "pixels, 64 principal components": Form(None, read=principal),
    "InfoNCE": Form(INFONCE, TEMPERATURES),
    "InfoNCE, whole fonts": Form({**INFONCE, **WHOLE}, TEMPERATURES),
    "InfoNCE, imitating": Form({**INFONCE, **IMITATING}, TEMPERATURES),
    "InfoNCE, whole fonts, imitating": Form({**INFONCE, **WHOLE, **IMITATING}, TEMPERATURES),
    "Fair-CCLK on the font, whole fonts": Form(ON_FONT, TEMPERATURES),
    OURS: Form({**ON_FONT, **IMITATING}, TEMPERATURES),
    "the same, fonts shuffled": Form(
        {**ON_FONT, **IMITATING, "conditions": {"font": {"use": "shuffled", "of": FONT["font"]}}},
        like=OURS,
    ),
    "Fair-CCLK on the numbers, imitating": Form({**ON_STYLE, **IMITATING}, TEMPERATURES),
    "Fair-CCLK on the numbers, whole fonts, imitating": Form(
        {**ON_STYLE, **WHOLE, **IMITATING}, TEMPERATURES
    ),
    "Fair-InfoNCE on the class of weight, imitating": Form(
        {**OF_WEIGHT, **IMITATING}, TEMPERATURES
    ),
    "numbers by reversal, imitating": Form(
        guided(by="regression", suppress="reversal"), (0.01, 0.03, *WEIGHTS)
    ),
    "numbers by least squares, imitating": Form(
        guided(by="regression", suppress="least_squares"), WEIGHTS
    ),
    "numbers by HSIC, imitating": Form(guided(by="hsic"), (*WEIGHTS, 3.0)),
    "SupCon on the letter, imitating": Form({**SUPCON, **IMITATING}, TEMPERATURES),
}
PEERS = ("InfoNCE, imitating", "InfoNCE, whole fonts, imitating")
"""Of which the better one for choosing is compared."""
MARGIN = 0.01
COMPARED = {OURS: tuple(title for title in FORMS if title != OURS)}
FURTHER = (
    "InfoNCE, imitating",
    OURS,
    "Fair-CCLK on the numbers, whole fonts, imitating",
    "Fair-InfoNCE on the class of weight, imitating",
    "numbers by HSIC, imitating",
)
"""Rows of the two further tables, with the numbers of the first."""


def further(title: str, m: int, **data: bool) -> Form:
    """A row as the first table has it, on other data, with up to ``m`` letters of a font in a batch."""
    settings = {**(FORMS[title].settings or {}), "data": data}
    if "sampler" in settings:
        settings["sampler"] = {**settings["sampler"], "m": m, "small": "leave_out"}
    return Form(settings, like=title, seeds=5)


FORMS |= {
    **{f"tied: {title}": further(title, 8, tied=True) for title in FURTHER},
    **{f"held-out weights: {title}": further(title, 62, apart=True) for title in FURTHER},
}
COLUMNS = {
    "letter": "letter, 20 neighbors of other families",
    "of_fonts": "features standardized for each font",
    "line": "numbers regressed out, a line",
    "splines": "numbers regressed out, splines",
    "combat": "ComBat on the class of weight",
    "harmony": "Harmony on it",
}


def pipeline(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The arguments of a pipeline."""
    ccl.local("transform", Imitated)  # known as "imitated"
    settings = {**settings}
    return {
        "dataset": Letters(seed, **settings.pop("data", {})),
        "backbone": ccl.local("backbone", OfLetters),
        "method": ccl.method("simclr", hidden=128, dim=128, batch_norm=False),
        "transform": ccl.transform("simclr", **VIEWS),
        **settings,
    }


def neighbors(x: Tensor, split: InMemory, asked: Tensor) -> Tensor:
    """(n,) the share of a letter's 20 nearest neighbors of other families that are the same letter.

    Args:
        x: (N, f) features.
        split: Of them.
        asked: (N,) True at the n letters that look for neighbors.
    """
    label, family = split.metadata["label"], split.metadata["family"]
    x, found = functional.normalize(x, dim=1), []
    for rows in asked.nonzero().flatten().split(1024):
        near = x[rows] @ x.T
        near.masked_fill_(family[rows, None] == family, -torch.inf)
        places = near.topk(NEIGHBORS).indices
        found.append((label[places] == label[rows, None]).double().mean(1))
    return torch.cat(found)


def regressed_out(x: Mapping[str, Tensor], style: Mapping[str, Tensor], knots: int) -> Tensor:
    """The test part's features less what a regression, fitted in training, has of the numbers.

    Args:
        x: (N, f) features by part.
        style: (N, 4) numbers by part.
        knots: Of cubic splines of each number; 0: a line.
    """
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer, StandardScaler

    curves = (SplineTransformer(knots, extrapolation="constant"),) if knots else ()
    made = make_pipeline(StandardScaler(), *curves, Ridge(1.0))
    made.fit(style["train"].numpy(), x["train"].numpy())
    return x["test"] - torch.from_numpy(made.predict(style["test"].numpy())).float()


def harmony(x: Tensor, batch: Tensor) -> Tensor:
    """Features (n, f) with batches mixed by Harmony."""
    import harmonypy

    made = harmonypy.run_harmony(x.numpy(), annotated(x, batch).obs, "batch", verbose=False)
    return torch.from_numpy(made.Z_corr).float()


def measured(read: Read, seed: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What neighbors say of the test part, and of each family: its letters, and the mean over them."""
    of_seed = parts(seed, **settings.get("data", {}))
    part = {name: of_seed[name] for name in ("train", "test")}
    x = {name: read(each) for name, each in part.items()}
    style = {name: each.metadata["style"] for name, each in part.items()}
    features = {
        "letter": x["test"],
        "of_fonts": on_each_group(x["test"], part["test"].metadata["font"]),
        "line": regressed_out(x, style, 0),
        "splines": regressed_out(x, style, 5),
        "combat": combat(x["test"], part["test"].metadata["heavy"]),
        "harmony": harmony(x["test"], part["test"].metadata["heavy"]),
    }
    asked = torch.ones(len(x["test"]), dtype=torch.bool)
    if settings.get("data", {}).get("apart"):
        asked = torch.isin(part["test"].metadata["weight"], torch.tensor(HELD))
    right = {name: neighbors(each, part["test"], asked) for name, each in features.items()}
    ids, place = part["test"].metadata["family"][asked].unique(return_inverse=True)
    words = part["test"].vocabulary["family"]
    sums = torch.zeros(len(ids)).double().index_add_(0, place, right["letter"]).tolist()
    counts = place.bincount().tolist()
    families = {
        words[i]: [count, round(total / count, 5)]
        for i, count, total in zip(ids, counts, sums, strict=True)
    }
    return {**{name: float(each.mean()) for name, each in right.items()}, "families": families}


def validated(read: Read, seed: int, settings: Mapping[str, Any]) -> float:
    """What neighbors say of the part for choosing."""
    split = parts(seed)["validation"]
    return float(neighbors(read(split), split, torch.ones(len(split), dtype=torch.bool)).mean())


def verdict(rows: Sequence[Row]) -> list[str]:
    """What the protocol decides of the one comparison, in a sentence."""
    runs = {title: STUDY.final(rows, title) for title in (OURS, *PEERS)}
    try:
        peer = max(PEERS, key=functools.partial(best, rows))
    except ValueError:
        return []  # not all values were tried yet
    seeds = sorted(runs[OURS].keys() & runs[peer].keys())
    if len(seeds) < 2:
        return []
    pairs = [[runs[title][seed]["test"] for title in (OURS, peer)] for seed in seeds]
    mean, half = interval_of([ours["letter"] - other["letter"] for ours, other in pairs])
    low, high = of_families(pairs)
    said = word(min(mean - half, low), max(mean + half, high), MARGIN)
    return [
        f"**{said}**: {OURS}, less {peer}: {100 * mean:+.1f} points; 95 % interval over"
        f" {len(seeds)} seeds {100 * (mean - half):+.1f} to {100 * (mean + half):+.1f}, over families"
        f" {100 * low:+.1f} to {100 * high:+.1f}.",
        "",
    ]


def best(rows: Sequence[Row], title: str) -> float:
    """The validation of a row's best value, with the seed that chooses; ValueError: none was tried."""
    return max(
        row["validation"]
        for row in rows
        if row["form"] == title and row["seed"] in STUDY.choosing and "validation" in row
    )


def of_families(pairs: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[float, float]:
    """The 95 % interval of ours less the other's, from families that are drawn again.

    A family has the mean difference of the seeds that test it, and counts by its letters.

    Args:
        pairs: For each seed what was measured of ours and of the other.
    """
    found: dict[str, list[float]] = {}
    letters: dict[str, int] = {}
    for ours, other in pairs:
        for family, (count, mean) in ours["families"].items():
            found.setdefault(family, []).append(mean - other["families"][family][1])
            letters[family] = count
    weight = torch.tensor([float(letters[family]) for family in found])
    total = weight * torch.tensor([statistics.fmean(each) for each in found.values()])
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(len(found), (10_000, len(found)), generator=generator)
    means = total[drawn].sum(1) / weight[drawn].sum(1)
    low, high = means.quantile(torch.tensor([0.025, 0.975])).tolist()
    return low, high


STUDY = Study(
    "letters",
    FORMS,
    COLUMNS,
    COMPARED,
    pipeline,
    measured,
    validated,
    steps=200,
    batch_size=496,
    choosing=(10,),
    apart=True,
    digits=3,
    verdict=verdict,
    endpoint="letter",
    cures=[(OURS, PEERS[1], [*COLUMNS][1:])],
)

if __name__ == "__main__":
    STUDY.main(__doc__)
