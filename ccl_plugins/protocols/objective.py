"""The contract of objectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from torch import Tensor

from ccl_plugins.numerics.gram import Statistic
from ccl_plugins.protocols.condition import Condition, Table, ValueType

if TYPE_CHECKING:
    from ccl_plugins.pairs.pairs import Pairs


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run, as an objective's ``setup`` gets them.

    Args:
        samples: N, samples in the training split; dataset indices are from 0 to N - 1.
        embedding: d, the width of projections and keys.
        features: f, the width of backbone features.
        steps: Optimizer steps of the whole run.
    """

    samples: int
    embedding: int
    features: int
    steps: int


class Objective(Protocol):
    """A loss on pairs; in practice a subclass of `ccl_plugins.objectives.ContrastiveObjective`.

    It may also satisfy `SupportsSetup`, `SupportsProgress`, `SupportsAfterStep`, `SupportsScalars`,
    `SupportsStatistics`, `SupportsHierarchies`, `SupportsReadsQueue`,
    `SupportsReadsFeatures`, `SupportsCheckRead`, `SupportsCompiles` and `StopsGradient`.
    """

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """The conditions that it reads, and the value types it accepts for each."""

    @property
    def within_view(self) -> bool:
        """Whether keys of an anchor's own view are compared with it."""

    @property
    def min_views(self) -> int:
        """The fewest views it can compare."""

    @property
    def embedding(self) -> Literal["sphere", "raw"]:
        """Whether embeddings come L2-normalized."""

    @property
    def distributed(self) -> Literal["mean", "replicated"]:
        """Whether each process has its own anchors' terms, or all have all."""

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Values and weights, (rows, n) each, whose weighted mean is the loss."""

    def loss(self, pairs: Pairs) -> Tensor:
        """The scalar to minimize."""


@runtime_checkable
class SupportsSetup(Protocol):
    """An objective with parameters or state whose sizes depend on the run."""

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Create them; called once in every run, a resumed one too, before the optimizer exists.

        Args:
            tables: The table of each fitted condition by name, less the samples left out of training;
                empty if there is none.
            sizes: The sizes of the run.
        """


@runtime_checkable
class SupportsProgress(Protocol):
    """An objective with numbers that change over training."""

    def progress(self, step: int, total: int) -> None:
        """Set them for optimizer step ``step`` (from 0) of ``total``; called before each step."""


@runtime_checkable
class SupportsAfterStep(Protocol):
    """An objective with state that each optimizer step changes."""

    def after_step(self) -> None:
        """Change it; called after each optimizer step."""


@runtime_checkable
class SupportsScalars(Protocol):
    """An objective with scheduled or learned numbers to log."""

    def scalars(self) -> Mapping[str, Tensor]:
        """Their present values by name, without gradient."""


@runtime_checkable
class SupportsStatistics(Protocol):
    """An objective that is faster when a queue keeps Gram statistics for it."""

    def statistics(self) -> Mapping[str, Statistic]:
        """The statistics by the name under which they reach ``Pairs.extras``."""


@runtime_checkable
class SupportsHierarchies(Protocol):
    """An objective that says whether it reads several class ids per sample."""

    @property
    def hierarchies(self) -> bool:
        """Whether it does."""


@runtime_checkable
class SupportsReadsQueue(Protocol):
    """An objective that says whether it compares anchors with a queue."""

    @property
    def reads_queue(self) -> bool:
        """Whether it does; a method with a queue beside one that does not is a warning."""


@runtime_checkable
class SupportsReadsFeatures(Protocol):
    """An objective that says whether it needs backbone features."""

    @property
    def reads_features(self) -> bool:
        """Whether it does; a call on raw embeddings then needs ``features=``."""


@runtime_checkable
class SupportsCheckRead(Protocol):
    """An objective that is particular about the conditions that it reads."""

    def check_read(self, name: str, condition: Condition) -> None:
        """Refuse a condition of a pipeline, before the general check; called when it is composed.

        Args:
            name: One of the objective's ``conditions``.
            condition: The pipeline's condition of that name.

        Raises:
            ValueError: Saying which one would be right.
        """


@runtime_checkable
class SupportsCompiles(Protocol):
    """An objective that says whether its loss can be compiled."""

    @property
    def compiles(self) -> bool:
        """Whether it can; a run with ``compile`` then compiles the networks alone."""


@runtime_checkable
class StopsGradient(Protocol):
    """An objective whose gradient is, on purpose, not the derivative of its value."""

    @property
    def stops_gradient(self) -> bool:
        """Whether this is so."""
