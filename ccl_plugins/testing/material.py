"""What components are examined with: images, their metadata, a data set, a backbone, random numbers.

Everything is small, the same in every call, and on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins._engine import engine
from ccl_plugins.protocols import Frozen, ValueType
from ccl_plugins.training.randomness import seed_cpu, undisturbed

SAMPLES = 24
"""Samples of the split that conditions are fitted on."""

CLASSES = 3
SHAPE = (3, 32, 32)
"""Of one image; a class attribute ``EXAMPLE_SHAPE`` of views or a backbone takes its place."""

WORDS = ("cat", "dog", "emu")


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Python's, numpy's and torch's generators at a seed; as they were afterwards."""
    with undisturbed():
        seed_cpu(seed)
        yield


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def images(n: int, shape: Sequence[int] = SHAPE, seed: int = 0) -> Tensor:
    """(n, *shape) uint8."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, *shape), generator=generator, dtype=torch.uint8)


class Split:
    """Samples with images and a column of every value type.

    Args:
        rows: Which of the 24 samples, in which order.
    """

    def __init__(self, rows: Tensor) -> None:
        place, height = torch.arange(SAMPLES), random(SAMPLES, seed=2)
        # In no regular order: what is shifted or sorted must not look the same.
        label = height.argsort().argsort() % CLASSES
        attributes = torch.stack([place % k == 0 for k in (2, 3, 4, 5)], 1)
        columns = {
            "label": label,
            "word": label,
            "attributes": attributes.long(),
            "color": random(SAMPLES, 3, seed=1).sigmoid(),
            "height": height,
        }
        self.rows = rows
        self.images = images(SAMPLES)[rows]
        self.metadata = {name: column[rows] for name, column in columns.items()}
        self.vocabulary = {"word": list(WORDS)}
        self.targets = self.metadata["label"]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.targets[index])

    def embed(self) -> Tensor:
        """(N, 8) unit-norm projections, near each other where classes are equal."""
        centers = 4 * functional.one_hot(self.targets, 8)
        return functional.normalize(centers + 0.3 * random(SAMPLES, 8, seed=3)[self.rows], dim=1)


def split(reverse: bool = False) -> Split:
    """The 24 samples, or the same from last to first."""
    rows = torch.arange(SAMPLES)
    return Split(rows.flip(0) if reverse else rows)


class Samples:
    """The data set of these samples."""

    def __call__(self, name: str) -> Split:
        """The split, which is the same for training and for testing."""
        return split()

    def schema(self) -> Mapping[str, ValueType]:
        """The columns."""
        return {
            "label": "categorical",
            "word": "categorical",
            "attributes": "multi_label",
            "color": "continuous",
            "height": "continuous",
        }


class SmallBackbone(nn.Module):
    """A network of one layer, without batch statistics."""

    num_features = 12

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * 16, self.num_features)
        self.norm = nn.LayerNorm(self.num_features)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, height, width) -> (n, 12)."""
        pooled = functional.adaptive_avg_pool2d(x, 4).flatten(1)
        return self.norm(self.layer(pooled)).relu()


def values_of(value_types: Sequence[str], n: int, place: int = 0) -> Tensor:
    """Values for n samples of the first value type in this order: continuous, class ids, 0/1 columns.

    Args:
        value_types: Those that are accepted.
        n: How many samples.
        place: Of the condition among several, each of which has other values.
    """
    if "continuous" in value_types:
        return random(n, 3, seed=4 + place).sigmoid()
    if "categorical" in value_types:
        return torch.arange(n) // CLASSES**place % CLASSES
    return torch.stack([torch.arange(n) % (k + place) == 0 for k in (2, 3, 4)], 1)


def frozen(n: int, seed: int) -> Frozen:
    """Features that tell something of class and color."""
    label = torch.arange(n) % CLASSES
    color = random(n, 3, seed=seed).sigmoid()
    features = torch.cat([functional.one_hot(label, CLASSES), color], 1)
    features = torch.cat([features, torch.zeros(n, 4)], 1) + 0.3 * random(n, 10, seed=seed + 1)
    return Frozen(features, {"label": label, "digit": label, "color": color, "height": color[:, 0]})


SIZE, BATCH_SIZE = 60, 8
"""Samples and batch size of samplers."""


def supplied_for(choice: engine.Choice) -> dict[str, Any]:
    """What a pipeline would supply to this component and to those it is made of."""
    if choice.kind == "method":
        return {"backbone": SmallBackbone()}
    if choice.kind == "sampler":
        told = getattr(choice.spec.load(), "value_types", None)
        value_types = ("categorical",) if told is None else told(choice.params)
        condition = values_of([m for m in value_types if m != "continuous"] or value_types, SIZE)
        condition = condition.float() if condition.dtype == torch.bool else condition
        return {"size": SIZE, "batch_size": BATCH_SIZE, "seed": 0, "condition": condition}
    return {"dataset": Samples()}
