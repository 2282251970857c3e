"""What each kind of component must satisfy: signatures, shapes and laws.

A component is an ordinary class, and need not inherit from anything here.  A constructor parameter
hinted with one of these protocols takes a component of that kind.

Letters: ``n`` anchors, ``m`` keys, ``d`` embedding, ``f`` features, ``c`` condition, ``u`` and ``v`` views
of anchors and keys, ``q`` queue, ``N`` samples of a data set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from torch import Tensor
from torch.nn import functional

from ccl_plugins.numerics.logsumexp import at_least_float32

if TYPE_CHECKING:
    from ccl_plugins.pairs.pairs import Pairs


@dataclass(frozen=True)
class Embedded:
    """A batch as a method sees it.

    Args:
        features: (u, n, f) backbone features of u views.
        projections: (u, n, d) what the objective's anchors are made of.
        keys: (v, n, d) momentum keys, or None where the projections are the keys.
    """

    features: Tensor
    projections: Tensor
    keys: Tensor | None = None

    def normalized(self) -> Embedded:
        """Projections and keys on the unit sphere, in at least float32."""
        return replace(
            self,
            projections=_unit(self.projections),
            keys=None if self.keys is None else _unit(self.keys),
        )


def _unit(x: Tensor) -> Tensor:
    return functional.normalize(at_least_float32(x), dim=-1)


@dataclass(frozen=True)
class Table:
    """A condition's values for a whole data set.

    Args:
        values: (N,) or (N, c), row i belonging to sample i.
        extras: further tensors of any shape (centroids, say), given to objectives by name.
    """

    values: Tensor
    extras: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Frozen:
    """Frozen features of one split.

    Args:
        features: (N, f) float32, on the CPU.
        metadata: The split's columns, (N,) or (N, c) each.
    """

    features: Tensor
    metadata: Mapping[str, Tensor]


ValueType = Literal["categorical", "multi_label", "continuous"]
"""What the values of a condition are: class ids (long), 0/1 columns (float), or real vectors (float)."""

Refresh = Literal["never", "epoch", "batch"]
"""When a condition is computed: once, before every epoch, or in every step from the embedded batch."""


class Objective(Protocol):
    """A loss on pairs; in practice a subclass of `ccl_plugins.objectives.ContrastiveObjective`.

    It may have ``setup(tables)``, called once, before the optimizer exists; ``progress(step, total)``,
    before each step; ``after_step()``, after each optimizer step; and ``statistics()`` (see
    `ccl_plugins.numerics`).  ``stops_gradient = True`` says that its gradient is, on purpose, not that of
    its value.
    """

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """The conditions that it reads, and the value types it accepts for each."""
        ...

    @property
    def within_view(self) -> bool:
        """Whether keys of an anchor's own view are compared with it."""
        ...

    @property
    def min_views(self) -> int:
        """The fewest views it can compare."""
        ...

    @property
    def embedding(self) -> Literal["sphere", "raw"]:
        """Whether embeddings come L2-normalized."""
        ...

    @property
    def distributed(self) -> Literal["mean", "replicated"]:
        """Whether each process has its own anchors' terms, or all have all."""
        ...

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Values and weights, (rows, n) each, whose weighted mean is the loss."""
        ...

    def loss(self, pairs: Pairs) -> Tensor:
        """The scalar to minimize."""
        ...


class Kernel(Protocol):
    """A similarity on the conditioning variable.

    A kernel may have more, which makes CCL-K's operator cheaper and changes no value:
    ``features(a) -> (n, r)``, vectors whose inner products are the kernel's, with ``rank(a) -> r``,
    known before they are computed; ``radial(square)``, its values by squared distance, where these are
    all it depends on; and ``one_hot = True`` where class ids count as one-hot vectors, of
    which every kernel has two values, one for equal ids and one for others.
    """

    @property
    def positive_definite(self) -> bool:
        """Whether no eigenvalue of k(z, z) is below 0."""
        ...

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, c), (m, c) -> (n, m); (n,), (m,) for class ids and scalars."""
        ...


class Condition(Protocol):
    """A conditioning variable.

    *static* and *refreshed* ones have ``fit``, *online* ones ``__call__``.  Both are pure, and the
    constructor reads nothing.  A condition may have ``hierarchy = True`` (several class ids a sample, which
    objectives with ``hierarchies = True`` read), ``within_batch = True`` (values mean nothing in another
    batch) and ``missing`` (see `ccl_plugins.metadata.missing`).
    """

    @property
    def refresh(self) -> Refresh:
        """When it is computed."""
        ...

    @property
    def value_type(self) -> ValueType:
        """What the values are."""
        ...


class FittedCondition(Condition, Protocol):
    """A condition that is a table with one row per sample."""

    def fit(
        self, split: Any, embed: Callable[[], Tensor], previous: Table | None
    ) -> Tensor | Table:
        """One row per sample of ``split`` (the training split).

        Args:
            split: A torch Dataset with ``metadata``.
            embed: Gives the (N, d) unit-norm projections of the un-augmented training set.
            previous: The table of the epoch before, for a warm start; None at first.
        """
        ...


class OnlineCondition(Condition, Protocol):
    """A condition computed from the embedded batch."""

    def __call__(self, embedded: Embedded) -> Tensor:
        """(n,), (n, c) or, where it differs per view, (u, n, c); without gradient."""
        ...


class Sampler(Protocol):
    """The order of samples: a pure function of its settings, the seed and the epoch.

    The pipeline supplies ``size``, ``batch_size``, ``seed`` and, where asked for, ``condition`` (a row
    per sample) by keyword.  A parameter ``on`` names it; ``value_types(parameters)`` says what it may hold.
    """

    def __len__(self) -> int:
        """Batches per epoch, whatever values a condition has."""
        ...

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        """Global batches of sample indices, (B,) or, for partners, (B, 2), from batch ``start`` on."""
        ...


class Views(Protocol):
    """The augmentations."""

    @property
    def count(self) -> int:
        """The number of views."""
        ...

    def __call__(self, image: Any) -> list[Tensor]:
        """``count`` views of one image, each (channels, height, width)."""
        ...

    def plain(self, image: Any) -> Tensor:
        """The image, or a batch, without augmentation, as features are computed from it."""
        ...


class Method(Protocol):
    """A lightly-style model: a backbone, its heads, and how pairs are made of their outputs.

    One with a queue may have ``check_batch(size)``, called before a run, ``read_conditions(look_up)``, at
    each epoch's start, from indices to rows by name, and ``keep_statistics`` (see `ccl_plugins.numerics`).
    """

    def encode(self, x: Tensor) -> Tensor:
        """Backbone features (n, f) of images (n, channels, height, width)."""
        ...

    def project(self, x: Tensor) -> Tensor:
        """Projections (n, d) of images, as ``embed()`` of a condition needs them."""
        ...

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """Features, projections and keys of a batch of views, each (n, channels, height, width)."""
        ...

    def pairs(
        self, embedded: Embedded, condition: Mapping[str, Tensor], index: Tensor | None
    ) -> Pairs:
        """The pairs an objective sees, gathered over processes."""
        ...

    def enqueue(self, pairs: Pairs) -> None:
        """Put the batch's keys into the queue, if there is one; called once, after all losses."""
        ...

    def after_step(self, step: int, total: int) -> None:
        """Called after each optimizer step (momentum updates)."""
        ...


class Backbone(Protocol):
    """An ``nn.Module`` from images to features."""

    @property
    def num_features(self) -> int:
        """The length f of a feature vector."""
        ...

    def __call__(self, x: Tensor) -> Tensor:
        """(n, channels, height, width) -> (n, num_features)."""
        ...


class Dataset(Protocol):
    """A data set by name; calling it gives a split."""

    def __call__(self, split: str) -> Any:
        """A torch Dataset of ``(image, target)`` with ``metadata``: a row per sample, always ``label``.

        Splits are ``"train"`` and ``"test"``.  Columns of words come as class ids, the same in both; their
        ``vocabulary`` has the words, by column.
        """
        ...

    def schema(self) -> Mapping[str, ValueType]:
        """The metadata columns and what they hold, without reading an image."""
        ...


class Evaluator(Protocol):
    """A measurement on frozen features.

    ``column`` names the column that it reads, and ``value_types`` the value types that this may have.
    An evaluator whose column the data set lacks is refused before training.
    """

    def __call__(self, train: Frozen, test: Frozen) -> dict[str, float]:
        """Metrics by name, as ``"linear/top1"``."""
        ...
