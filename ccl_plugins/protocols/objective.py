"""The contract of objectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from torch import Tensor

from ccl_plugins.numerics.gram import Statistic
from ccl_plugins.protocols.condition import Condition, Table, ValueType
from ccl_plugins.protocols.traits import traits_of

if TYPE_CHECKING:
    from ccl_plugins.pairs.pairs import Pairs


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run, an argument of an objective's ``setup``.

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
    """A loss on pairs; in practice a subclass of `ccl_plugins.objectives.ContrastiveObjective`."""

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
        """Whether each process computes the terms of its own anchors, or of all anchors."""

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Values and weights, (rows, n) each, whose weighted mean is the loss."""

    def loss(self, pairs: Pairs) -> Tensor:
        """The scalar to minimize."""


@traits_of("objective")
class ObjectiveTraits:
    """The optional members of an objective."""

    hierarchies: bool = False
    """Read when a pipeline is composed. True if the objective reads several class ids per sample."""
    reads_queue: bool = True
    """Read when a pipeline is composed. False if the objective compares only the samples of a
    batch, such as a loss of another library; a method with a queue then gives a warning."""
    reads_features: bool = False
    """Read in a call on raw embeddings, which then needs `features=(f0, f1)`, a `(b, f)` tensor for each
    view. True if the objective needs `pairs.features`, `(u, n, f)`."""
    reads_patches: bool = False
    """Read when a pipeline is composed, and in a call on raw embeddings, which then needs
    `patches=PatchScores(...)`. True if the objective reads `pairs.samples.patches`, the scores of masked
    patches; a method without `masked_views` is then refused."""
    reads_projections: bool | None = None
    """Read before training. Whether the loss depends on the projections, so that heads learn. By
    default it does, unless the objective has `reads_features`."""
    compiles: bool = True
    """Read before the first step of a run with `compile`. False if the loss cannot be compiled, for example
    because it takes gradients; the networks are then compiled alone."""
    in_parts: bool = False
    """Read before a run with `anchors_at_once`, and by the conformance kit. True if the term of an anchor
    depends on other samples only through the keys, and `terms` keeps no state and draws no random
    numbers: the loss may then be computed for some anchors at a time."""
    stops_gradient: bool = False
    """Read by the conformance kit, and by `ContrastiveObjective.loss`, which then refuses second
    derivatives. True if the gradient deliberately differs from the derivative of the value."""
    adversarial: bool = False
    """Read while training. True if the encoder maximizes a part of the loss, so that the loss may
    rise in a healthy run."""
    hides: bool = False
    """Read when `guided` is built. True if minimizing the loss makes the embeddings forget the
    condition, such as that of a fair objective; as a guide it then needs `keep = false`."""
    measures_dependence: bool = False
    """Read when `guided` is built. True if the loss measures the dependence of vectors on the
    condition: a guide then maximizes it to keep the condition, and reads features unless `at` says
    otherwise."""

    def check_read(self, name: str, condition: Condition) -> None:
        """Called when a pipeline is composed, with each condition that the objective reads.

        It comes before the general check. Raises a ValueError for a condition that it cannot take, in words
        of its own.
        """

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Called once in every run, a resumed one too; creates parameters and state of these sizes.

        The conditions are fitted then, and there is no optimizer yet. `tables` has the `Table` of each
        fitted condition by name, without samples that are left out of training; `sizes` is a
        `Sizes`.
        """

    def statistics(self) -> Mapping[str, Statistic]:
        """Called once, after `setup`. Returns the Gram matrices that a queue should maintain.

        They are `Statistic`, by the name under which they appear in `pairs.queue.grams`.
        """
        return {}

    def progress(self, step: int, total: int) -> None:
        """Called before the loss of each batch; updates scheduled numbers.

        `step` is the number of optimizer steps taken, `total` the number in the run.
        """

    def scalars(self) -> Mapping[str, Tensor]:
        """Called when metrics are logged. Returns each scheduled or learned number by name.

        The values are the current ones, 0-d and without gradient, logged as `objective/<name>`.
        """
        return {}

    def after_step(self) -> None:
        """Called after each optimizer step. Commits state that the step changes."""
