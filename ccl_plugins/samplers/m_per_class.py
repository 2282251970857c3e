"""Batches of several classes with equally many samples of each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.arguments import whole
from ccl_plugins.drawing.by_class import Groups
from ccl_plugins.metadata.columns import variable_of
from ccl_plugins.samplers.uniform import Small, Uniform, of_enough


class MPerClass(Uniform):
    """Batches of k classes with m samples each, so that every sample meets others of its class.

    A batch has ``k = batch_size / m`` different classes, drawn at random; all classes are drawn equally
    often, whatever their size. An epoch has ``size // batch_size`` batches. Within a class, samples
    are drawn in random order, and all are drawn before any is drawn again. In a batch, samples of
    one class are next to each other.

    Args:
        m: Number of samples of each class in a batch, a divisor of ``batch_size``.
        columns: Metadata columns of class ids or words.  With several columns, a class is a combination of
            values.  A sample without a value in one of them is not drawn; a warning counts such samples.
        small: What to do with classes that have fewer than m samples: ``"error"``; ``"repeat"``: a sample
            comes several times in its batch; or ``"leave_out"``: their samples are not drawn, and a warning
            counts them.
        split: The training split; supplied by the pipeline.  In a loop of your own it is
            ``ccl_plugins.datasets.Annotated(dataset, {"label": ids})``.

    Raises:
        ValueError: For columns that the data set lacks, or that hold numbers; for an m that does not divide
            the batch; for fewer classes than a batch has; and for small classes under ``"error"``.

    Source:
        Hermans et al., In Defense of the Triplet Loss for Person Re-Identification (2017), section 2: P
        classes and K images of each; as ``MPerClassSampler`` of pytorch-metric-learning, which draws the
        samples of a class anew in each batch.
    """

    EXPECTED_FAILURES: ClassVar[Mapping[str, str]] = {
        "an_epoch_visits_every_sample_once": "classes come equally often, whatever their size"
    }

    def __init__(
        self,
        m: int = 4,
        columns: str | Sequence[str] = "label",
        small: Small = "error",
        *,
        size: int,
        batch_size: int,
        seed: int,
        split: Any,
    ) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed)
        self.m = whole("m", m, 1)
        divisors = [n for n in range(1, batch_size + 1) if not batch_size % n]
        if self.m not in divisors:
            raise ValueError(
                f"m must divide the batch_size of {batch_size} ({', '.join(map(str, divisors))}), not {m}"
            )
        self.classes = batch_size // self.m
        names = [columns] if isinstance(columns, str) else [*columns]
        named = " and ".join(map(repr, names))
        self._rows, values = _classes(split, names, named)
        groups = Groups(values)
        count = of_enough(groups.count.numpy(), self.m, small, "m_per_class", named, "m")
        kept = torch.from_numpy(count).nonzero().flatten()
        if len(kept) < self.classes:
            least = next(n for n in divisors if batch_size <= n * len(kept))
            raise ValueError(
                f"a batch of {batch_size} has {self.classes} classes with m = {m}, but {named} has "
                f"{len(kept)}: take an m of at least {least}, or a batch_size of at most "
                f"{m * len(kept)}"
            )
        self._first, self._count = groups.first[kept], groups.count[kept]
        self._ids = groups.ids

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        """The epoch's batches of sample indices, (batch_size,), from batch ``start`` on."""
        generator = self.generator(epoch)
        # A round of batches takes each class once at most, so that a batch has k different ones.
        rounds = -(-len(self) // (len(self._count) // self.classes))
        drawn = torch.rand(rounds, len(self._count), generator=generator).argsort(1)
        whole_batches = len(self._count) // self.classes * self.classes
        drawn = drawn[:, :whole_batches].reshape(-1, self.classes)[: len(self)]
        # Within each class the samples are in random order, and the next m of them come in turn.
        shuffled = torch.rand(len(self._ids), generator=generator).argsort()
        members = shuffled[self._ids[shuffled].argsort(stable=True)]
        before = _earlier(drawn.flatten()).view_as(drawn)
        places = (before * self.m)[..., None] + torch.arange(self.m)
        places = self._first[drawn][..., None] + places % self._count[drawn][..., None]
        batches = self._rows[members[places]].flatten(1)
        yield from batches[start:]


def _earlier(values: Tensor) -> Tensor:
    """(n,) how often each of the values (n,) occurred before."""
    order = values.argsort(stable=True)
    ordered = values[order]
    begins = torch.cat([ordered.new_ones(1).bool(), ordered[1:] != ordered[:-1]])
    places = torch.arange(len(values))
    earlier = torch.empty_like(places)
    earlier[order] = places - places.where(begins, 0).cummax(0).values
    return earlier


def _classes(split: Any, columns: Sequence[str], named: str) -> tuple[Tensor, Tensor]:
    """The rows (n,) with a value in all columns, and their class ids (n, c)."""
    if not columns:
        raise ValueError(
            "columns must name a metadata column or several, such as ['label', 'plate']"
        )
    variables = [variable_of(split, name) for name in columns]
    for name, variable in zip(columns, variables, strict=True):
        values = variable.values
        if variable.value_type != "categorical" or values.is_floating_point() or values.ndim != 1:
            raise ValueError(
                f"m_per_class needs one class id per sample, but the column {name!r} holds"
                f" {values.dtype} of shape {tuple(values.shape)}"
            )
    missing = torch.stack([variable.missing for variable in variables]).any(0)
    rows = (~missing).nonzero().flatten()
    if not len(rows):
        raise ValueError(f"no sample has a value of {named}")
    if missing.any():
        warnings.warn(
            f"{int(missing.sum())} of {len(missing)} samples lack a value of {named} and are left out of"
            " training by m_per_class",
            stacklevel=3,
        )
    return rows, torch.stack([variable.values[rows].long() for variable in variables], 1)
