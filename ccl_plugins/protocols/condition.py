"""The contract of conditions: what a conditioning variable is, and what its table holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from torch import Tensor

from ccl_plugins.protocols.embedded import Embedded
from ccl_plugins.protocols.traits import traits_of

ValueType = Literal["categorical", "multi_label", "continuous"]
"""The type of a condition's values: class ids (long), 0/1 columns (float), or real vectors (float)."""

VALUE_TYPES: tuple[ValueType, ...] = get_args(ValueType)
"""All value types."""

Refresh = Literal["never", "epoch", "batch"]
"""When a condition is computed: once, before every epoch, or in every step from the embedded batch."""

ReadsEmbeddings = bool | Literal["key", "features"]
"""Whether a condition's ``fit`` calls ``embed()``, and whether this returns projections (True), the
momentum encoder's keys or the backbone's features."""

Missing = Literal["error", "own", "ignore", "drop"]
"""The treatment of samples without a value of a condition. ``"error"``: an error names them.
``"own"``: each becomes a class of its own, positive only with its own views. ``"ignore"``:
objectives that read the condition leave them out, as anchors and as keys; others keep them.
``"drop"``: they are left out of training."""


@dataclass(frozen=True)
class Table:
    """A condition's values for a whole data set.

    Args:
        values: (N,) or (N, c), row i belonging to sample i.
        extras: further tensors of any shape, such as centroids, given to objectives by name.
    """

    values: Tensor
    extras: Mapping[str, Tensor] = field(default_factory=dict)


class Embedder(Protocol):
    """The unit-norm projections of the un-augmented training set, of N samples in d dimensions.

    For a condition with ``reads_embeddings = "key"``, the momentum encoder's keys; with
    ``"features"``, the backbone's features, not normalized. Large ones are stored in a file: a call
    reads all into memory, while `blocks` and `nearest` do not.
    """

    def __call__(self) -> Tensor:
        """All embeddings (N, d)."""

    def blocks(self) -> Iterator[Tensor]:
        """All embeddings, in successive blocks of rows (n, d)."""

    def nearest(self, centroids: Tensor) -> Tensor:
        """(N,) long, the nearest of the points (k, d) to each embedding; every process computes a part."""


class Condition(Protocol):
    """A conditioning variable.

    With ``refresh`` ``"never"`` or ``"epoch"`` it is a `FittedCondition`, with ``"batch"`` a
    `BatchCondition`; a condition of several variables is a `SeveralVariables`. All are pure
    functions, and constructors read no files.
    """

    @property
    def refresh(self) -> Refresh:
        """When the condition is computed."""

    @property
    def value_type(self) -> ValueType:
        """The type of the values."""


class FittedCondition(Condition, Protocol):
    """A condition that is a table with one row per sample."""

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Tensor | Table:
        """One row per sample of ``split`` (the training split).

        Args:
            split: A torch Dataset with ``metadata``.
            embed: Returns the embeddings, for a condition with ``reads_embeddings``.
            previous: The table of the epoch before, for a warm start; None at first.
        """


class SeveralVariables(Protocol):
    """A condition that gives several variables in one pass, each read as ``"<condition>/<variable>"``.

    A trait such as ``missing`` is one value for all, or a mapping of names to values.
    With ``refresh = "batch"``, ``__call__(embedded)`` returns the mapping.
    """

    @property
    def refresh(self) -> Refresh:
        """When the variables are computed."""

    @property
    def value_type(self) -> Mapping[str, ValueType]:
        """The value type of each variable, by name."""

    def fit(
        self, split: Any, embed: Embedder, previous: Mapping[str, Table] | None
    ) -> Mapping[str, Tensor | Table]:
        """The tables of `FittedCondition.fit`, by the names in ``value_type``."""


class BatchCondition(Condition, Protocol):
    """A condition computed from the embedded batch."""

    def __call__(self, embedded: Embedded) -> Tensor:
        """(n,), (n, c) or, where it differs per view, (u, n, c); without gradient."""


class LookUp(Protocol):
    """A function from dataset indices to the rows of conditions."""

    def __call__(self, index: Tensor) -> Mapping[str, Tensor]:
        """The rows (k,) or (k, c) of every fitted condition by name, on the device of ``index``.

        Conditions that are computed in every step have no table, and are not among them.

        Args:
            index: (k,) long, from 0 to N - 1, in any order and with repeats.
        """


@traits_of("condition")
class ConditionTraits:
    """The optional members of a condition; with several variables, also mappings by their names."""

    column: str | None = None
    """Read when measurements are shown. The metadata column whose values the condition gives, so that a
    measurement of this column counts as one of the condition."""
    reads_embeddings: ReadsEmbeddings = False
    """Read before `fit` is called. True if `fit` calls `embed()`; all processes then compute the embeddings
    together. `"key"` if `embed()` is to return the momentum encoder's keys: the method must then have
    `project_key`. `"features"` if it is to return those of the backbone."""
    missing: Missing = "error"
    """Read when the table is fitted. The treatment of samples without a value (NaN, or -1 for class
    ids and 0/1 columns): `"error"` refuses them; `"own"` gives each a class of its own; `"ignore"`
    leaves them out of the objectives that read the condition, as anchors and as keys, and keeps
    them in all others; `"drop"` leaves them out of training."""
    hierarchy: bool = False
    """Read when a pipeline is composed. True if each sample has several class ids, `(N, L)`, as with
    `wordnet(levels=[...])` and `clusters(k=[...])`. Only objectives with `hierarchies = True` accept it.
    Without the member, the mismatch is found when the loss first reads the table."""
    within_batch: bool = False
    """Read before a run begins. True if values of different batches cannot be compared, for example
    component numbers of a graph on the batch. A method with a queue is then refused."""
