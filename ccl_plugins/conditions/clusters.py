"""K-means clusters as conditioning variable: of the model's embeddings, or of another condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from ccl_plugins.arguments import DEEPEST, WIDEST, checked, one_of, whole, wholes, word
from ccl_plugins.conditions.kmeans import Backend, cluster_spread, kmeans
from ccl_plugins.metadata.variable import Variable
from ccl_plugins.protocols import (
    Condition,
    Embedder,
    Missing,
    ReadsEmbeddings,
    Refresh,
    Table,
    ValueType,
    trait,
)

FITS = "fits"
"""The extra that counts the fits, for the next fit; the condition itself has no state."""


@dataclass(eq=False, repr=False)
class Clusters:
    """The k-means cluster of each sample.

    The model's own embeddings, or keys, are clustered again before every epoch, starting from the
    last centroids; another condition is clustered once. With several k, every sample has one class
    id for each.

    Shape:
        N samples -> (N,) class ids; for several k (N, number of k)

    Extras:
        For every k, after the warm-up: ``centroids_<k>``: (k, d); ``sizes_<k>``: (k,) samples in each
        cluster; ``distances_<k>``: (k,) their mean distance to the centroid.  ``fits``: how often clusters
        have been fitted.

    Args:
        k: The number of clusters, 2 to 2^20; or several such numbers, one column each in this order, so
            that an ascending list goes from coarse to fine.  Each k is clustered by itself: a fine cluster
            need not lie inside a coarse one.
        of: ``"embedding"``: the model's projections of un-augmented images, on the unit sphere;
            ``"key"``: the momentum encoder's, if the method has one; or a condition of numbers,
            such as ``clip``, ``attributes`` or a continuous ``column``.
        warmup: Epochs before the first clustering, in which every sample is a class of its own.
        warm_start: Start from the centroids of the epoch before, instead of from ``restarts`` random ones.
        iterations: The most Lloyd steps.
        restarts: Random starts; the best is kept.
        seed: Seed of the random starts.
        backend: ``"auto"``: faiss if it is installed, else scikit-learn.
        samples: The most samples from which centroids are found, drawn with ``seed``. Every sample
            then gets its nearest cluster; embeddings do this on all processes. None: all samples; a
            few hundred for each cluster suffice.
        every: Epochs from one clustering of the embeddings to the next.
        gpu: Whether faiss computes on GPUs; ``"auto"``: if faiss sees GPUs.

    Raises:
        ValueError: For a number out of range, a condition of class ids, or one that changes in every step;
            on use, for more clusters than samples.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), algorithm 1, where
        every epoch starts from random centroids, with 5 restarts of 20 steps.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"k": 3}
    value_type: ClassVar[ValueType] = "categorical"

    k: int | Sequence[int]
    of: Condition | Literal["embedding", "key"] = "embedding"
    warmup: int = checked(whole, least=0, default=0)
    warm_start: bool = True
    iterations: int = checked(whole, least=1, default=20)
    restarts: int = checked(whole, least=1, most=DEEPEST, default=5)
    seed: int = checked(whole, least=0, default=0)
    backend: Backend = word(*get_args(Backend))
    samples: int | None = None
    every: int = checked(whole, least=1, default=1)
    gpu: bool | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        self.numbers = wholes("k", self.k if isinstance(self.k, Sequence) else [self.k], 2, WIDEST)
        if not self.numbers or len({*self.numbers}) < len(self.numbers):
            raise ValueError(f"k must be one number, or several different ones, not {self.k!r}")
        if isinstance(self.of, str):
            one_of("of", self.of, ("embedding", "key"))
        else:
            _check_clusterable(self.of, self.warmup)
        if self.samples is not None:
            self.samples = whole("samples", self.samples, max(self.numbers))
        if self.gpu != "auto" and not isinstance(self.gpu, bool):
            raise ValueError(f'gpu must be true, false or "auto", not {self.gpu!r}')

    @property
    def refresh(self) -> Refresh:
        """``"epoch"`` for embeddings, else the refresh of the other condition."""
        return "epoch" if isinstance(self.of, str) else self.of.refresh

    @property
    def reads_embeddings(self) -> ReadsEmbeddings:
        """Whether the condition, or the one that it clusters, reads the model's embeddings or keys."""
        if isinstance(self.of, str):
            return "key" if self.of == "key" else True
        declared: ReadsEmbeddings = trait(self.of, "reads_embeddings")
        return declared

    @property
    def hierarchy(self) -> bool:
        """Whether samples have several class ids."""
        return isinstance(self.k, Sequence)

    @property
    def missing(self) -> Missing:
        """The ``missing`` of the other condition."""
        policy: Missing = trait(self.of, "missing")
        return policy

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Table:
        """The clusters before the next epoch."""
        fits = int(previous.extras[FITS]) if previous is not None else 0
        extras = {FITS: torch.tensor(fits + 1)}
        if fits < self.warmup:
            return self._table([torch.arange(len(split))] * len(self.numbers), extras)
        if previous is not None and (fits - self.warmup) % self.every:
            return Table(previous.values, {**previous.extras, **extras})
        points = embed() if isinstance(self.of, str) else self._other(split, embed)
        valid = ~Variable(points, "continuous").missing
        columns = []
        given = points if valid.all() else points[valid]
        assign = getattr(embed, "nearest", None) if isinstance(self.of, str) else None
        for k in self.numbers:
            name = f"centroids_{k}"
            last = previous.extras.get(name) if previous is not None and self.warm_start else None
            ids, extras[name] = kmeans(
                given,
                k,
                last,
                iterations=self.iterations,
                restarts=self.restarts,
                seed=self.seed,
                backend=self.backend,
                samples=self.samples,
                gpu=self.gpu,
                assign=assign,
            )
            extras[f"sizes_{k}"], extras[f"distances_{k}"] = cluster_spread(
                given, ids, extras[name]
            )
            columns.append(torch.full((len(points),), -1).masked_scatter(valid, ids))
        return self._table(columns, extras)

    def _table(self, columns: list[Tensor], extras: dict[str, Tensor]) -> Table:
        return Table(torch.stack(columns, 1) if self.hierarchy else columns[0], extras)

    def _other(self, split: Any, embed: Embedder) -> Tensor:
        """(N, c) the values of the other condition, NaN in the rows that lack one."""
        other: Any = self.of
        fitted = other.fit(split, embed, None)
        values = (fitted.values if isinstance(fitted, Table) else fitted).float()
        missing = Variable(values, other.value_type).missing
        return values.reshape(len(values), -1).masked_fill(missing[:, None], torch.nan)


def _check_clusterable(of: Condition, warmup: int) -> None:
    name = type(of).__name__
    if of.refresh == "batch":
        raise ValueError(
            f"{name} is computed in every step and cannot be clustered: of='embedding' clusters the model's"
            " embeddings before every epoch"
        )
    if isinstance(of.value_type, Mapping):
        raise ValueError(
            f"{name} gives the variables {', '.join(of.value_type)}, but clusters are made of one: "
            "give it a condition of one variable"
        )
    if of.value_type == "categorical":
        raise ValueError(f"{name} has class ids, which are clusters already: use it as it is")
    if warmup and of.refresh == "never":
        raise ValueError(
            f"clusters of {name} are found once, before the first epoch: warmup must be 0, not"
            f" {warmup!r}"
        )
