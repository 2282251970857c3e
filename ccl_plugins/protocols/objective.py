"""The contract of objectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from torch import Tensor

from ccl_plugins.protocols.condition import ValueType

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

    It may also declare traits; see `trait`.
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
