"""The inputs that components are checked with: images, metadata, a data set, a backbone, random numbers.

All are small, the same in every call, and on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import ccl_registry as engine
from ccl_plugins.numerics.generators import seed_cpu, undisturbed
from ccl_plugins.protocols import ValueType, trait

SAMPLES = 24
"""Samples in the split that conditions are fitted on."""

CLASSES = 3
SHAPE = (3, 32, 32)
"""Shape of one image; a class attribute ``EXAMPLE_SHAPE`` of views or a backbone replaces it."""

WORDS = ("cat", "dog", "emu")

SIZE, BATCH_SIZE = 60, 8
"""Samples and batch size for samplers; ``EXAMPLE_SIZE`` and ``EXAMPLE_BATCH`` of a class replace them."""


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Seed Python's, numpy's and torch's generators inside, and restore them afterwards."""
    with undisturbed():
        seed_cpu(seed)
        yield


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def images(n: int, shape: Sequence[int] = SHAPE, seed: int = 0) -> Tensor:
    """(n, *shape) uint8."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, *shape), generator=generator, dtype=torch.uint8)


def network_inputs(target: Any, n: int, seed: int = 0) -> Tensor:
    """(n, *EXAMPLE_SHAPE) normal numbers for a backbone, or token ids below its EXAMPLE_VOCABULARY."""
    shape = getattr(target, "EXAMPLE_SHAPE", SHAPE)
    if (vocabulary := getattr(target, "EXAMPLE_VOCABULARY", None)) is None:
        return normal(n, *shape, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocabulary, (n, *shape), generator=generator)


class Split:
    """A split with images and metadata columns of every value type.

    Args:
        rows: The samples to take, in this order; None: all.
        size: The number of samples of which ``rows`` are taken.
    """

    def __init__(self, rows: Tensor | None = None, size: int = SAMPLES) -> None:
        number, height = torch.arange(size), normal(size, seed=2)
        # In no regular order, so that shifted or sorted rows differ from these.
        label = height.argsort().argsort() % CLASSES
        columns = {
            "label": label,
            "word": label,
            "attributes": torch.stack([number % k == 0 for k in (2, 3, 4, 5)], 1).long(),
            "color": normal(size, 3, seed=1).sigmoid(),
            "height": height,
        }
        self.rows = number if rows is None else rows
        self.images = images(size)[self.rows]
        self.metadata = {name: column[self.rows] for name, column in columns.items()}
        self.vocabulary = {"word": list(WORDS)}
        self.texts = {"caption": [f"{WORDS[label[row]]} number {row}" for row in self.rows]}
        self.targets = self.metadata["label"]
        centers, noise = functional.one_hot(label, 8), normal(size, 8, seed=3)
        self.projections = functional.normalize(4 * centers + 0.3 * noise, dim=1)[self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.targets[index])

    def embed(self) -> Tensor:
        """(N, 8) unit-norm projections; those of equal classes are near each other."""
        return self.projections


class ExampleDataset:
    """A data set whose splits are `Split`, the test split with the images upside down."""

    def __call__(self, split: str) -> Split:
        """The split, whatever its name."""
        samples = Split()
        if split == "test":
            samples.images = samples.images.flip(-2)
        return samples

    def schema(self) -> Mapping[str, ValueType]:
        """The columns."""
        return {
            "label": "categorical",
            "word": "categorical",
            "attributes": "multi_label",
            "color": "continuous",
            "height": "continuous",
        }

    def texts(self) -> Sequence[str]:
        """The columns of texts."""
        return ("caption",)


class SmallBackbone(nn.Module):
    """A network of one layer, without batch statistics."""

    num_features = 12
    activation = staticmethod(torch.relu)

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * 16, self.num_features)
        self.norm = nn.LayerNorm(self.num_features)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, height, width) -> (n, 12)."""
        pooled = functional.adaptive_avg_pool2d(x, 4).flatten(1)
        return self.activation(self.norm(self.layer(pooled)))


class SignedBackbone(SmallBackbone):
    """The same network with negative features too, as a transformer gives."""

    activation = staticmethod(torch.tanh)


class PatchBackbone(nn.Module):
    """A network on patches of 8x8 pixels, for methods that mask patches; each sees the mean of all."""

    num_features = 12
    patch_shape = (8, 8, num_features)

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, self.num_features, 8, stride=8)
        self.norm = nn.LayerNorm(self.num_features)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, token: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """(n, channels, height, width) -> (n, 12); with a token also patches (n, rows, columns, 12)."""
        patches = self.embed(x).permute(0, 2, 3, 1)
        if mask is not None and token is not None:
            patches = torch.where(mask[..., None], token, patches)
        mean = patches.mean((1, 2))
        features = self.norm(mean)
        return features if token is None else (features, self.norm(patches + mean[:, None, None]))


def condition_values(value_types: Sequence[str], n: int, number: int = 0) -> Tensor:
    """Values for n samples, continuous or else categorical if accepted; each ``number`` has its own."""
    if "continuous" in value_types:
        return normal(n, 3, seed=4 + number).sigmoid()
    if "categorical" in value_types:
        return torch.arange(n) // CLASSES**number % CLASSES
    return torch.stack([torch.arange(n) % (k + number) == 0 for k in (2, 3, 4)], 1)


def example_rows(given: Any, n: int) -> Tensor:
    """Rows of an ``EXAMPLE_CONDITION`` (tensor or lists), in turn up to n; of 3 axes the first is views."""
    rows = torch.as_tensor(given)
    sample = 1 if rows.ndim == 3 else 0
    return rows.index_select(sample, torch.arange(n) % rows.shape[sample])


def conditions(reader: Any, n: int) -> dict[str, Tensor]:
    """The conditions that an objective or a kernel names: vectors in float64 if it accepts them.

    A class attribute ``EXAMPLE_CONDITION`` replaces the values: a mapping by name, or values for all names.
    """
    given = getattr(reader, "EXAMPLE_CONDITION", {})
    if not isinstance(given, Mapping):
        given = dict.fromkeys(reader.conditions, given)
    values = {}
    for i, (name, types) in enumerate(reader.conditions.items()):
        example = given.get(name)
        z = condition_values(types, n, i) if example is None else example_rows(example, n)
        values[name] = z.double() if z.is_floating_point() else z
    return values


def sizes(target: Any) -> tuple[int, int]:
    """The numbers of samples in the data set and in a batch, for a sampler."""
    return getattr(target, "EXAMPLE_SIZE", SIZE), getattr(target, "EXAMPLE_BATCH", BATCH_SIZE)


def supplied_for(
    choice: engine.Choice, condition_rows: Any = None, of_sizes: tuple[int, int] | None = None
) -> dict[str, Any]:
    """What a pipeline supplies to a component and to the components inside it.

    Args:
        choice: The component.
        condition_rows: The condition values for a sampler, in place of its class's ``EXAMPLE_CONDITION``.
        of_sizes: The numbers of samples in the data set and in a batch, for a sampler; None: its `sizes`.
    """
    if choice.kind == "method":
        masks = trait(choice.spec.load(), "masked_views")(choice.params)
        return {"backbone": PatchBackbone() if masks else SignedBackbone()}
    if choice.kind == "sampler":
        target = choice.spec.load()
        size, batch_size = of_sizes or sizes(target)
        accepts = trait(target, "value_types")
        value_types = accepts(choice.params) if accepts else ("categorical",)
        discrete = [t for t in value_types if t != "continuous"]
        condition = condition_values(discrete or value_types, size)
        if condition_rows is None:
            condition_rows = getattr(target, "EXAMPLE_CONDITION", None)
        if condition_rows is not None:
            condition = example_rows(condition_rows, size)
        condition = condition.float() if condition.dtype == torch.bool else condition
        supplied = {"size": size, "batch_size": batch_size, "seed": 0, "condition": condition}
        return {**supplied, "split": Split(size=size), "dataset": ExampleDataset()}
    return {"dataset": ExampleDataset()}
