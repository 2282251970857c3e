"""The contract of methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from torch import Tensor, nn

from ccl_plugins.numerics.gram import Statistic
from ccl_plugins.protocols.condition import LookUp, ValueType
from ccl_plugins.protocols.embedded import Embedded

if TYPE_CHECKING:
    from ccl_plugins.pairs.pairs import Pairs


class Method(Protocol):
    """A lightly-style model: a backbone, its heads, and how their outputs become pairs.

    It may also satisfy `SupportsConditions`, `SupportsBatchCheck`, `SupportsKeys` and, with a network for
    each modality, `SupportsTowers`; and, as a method with a queue does, `SupportsReadConditions` and
    `SupportsKeepStatistics`.
    """

    @property
    def backbone(self) -> nn.Module:
        """The network from images to features, a `Backbone`."""

    def encode(self, x: Tensor) -> Tensor:
        """Backbone features (n, f) of images (n, channels, height, width)."""

    def project(self, x: Tensor) -> Tensor:
        """Projections (n, d) of images, as ``embed()`` of a condition needs them."""

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """Features, projections and keys of a batch of views, each (n, channels, height, width).

        Views of other modalities are as their networks take them.
        """

    def pairs(
        self, embedded: Embedded, condition: Mapping[str, Tensor], index: Tensor | None
    ) -> Pairs:
        """The pairs an objective sees, gathered over processes."""

    def enqueue(self, pairs: Pairs) -> None:
        """Put the batch's keys into the queue, if there is one; called once, after all losses."""

    def after_step(self, step: int, total: int) -> None:
        """Called after each optimizer step (momentum updates)."""


@runtime_checkable
class SupportsTowers(Protocol):
    """A method with a tower for each modality, whose projections share a space."""

    @property
    def modalities(self) -> Sequence[str]:
        """For each view that ``embed`` takes the name of its modality."""

    @property
    def towers(self) -> Any:
        """The networks of the modalities beside the image, by name."""

    @property
    def heads(self) -> Any:
        """From features to projections, by the modality's name; ``"image"`` for the backbone's."""

    def embed_modality(self, name: str, x: Tensor) -> Tensor:
        """Projections (n, d) of samples (n, ...) of a modality, not normalized."""


@runtime_checkable
class SupportsConditions(Protocol):
    """A method or a kernel that reads conditions by name, as a method that chooses keys by them does."""

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """The conditions that it reads, and the value types it accepts for each.

        A class attribute, or a property where it depends on parameters.
        """


@runtime_checkable
class SupportsBatchCheck(Protocol):
    """A method that does not take every batch size."""

    def check_batch(self, size: int) -> None:
        """Refuse a global batch of ``size`` samples; called before a run begins.

        Raises:
            ValueError: Saying which sizes would do.
        """


@runtime_checkable
class SupportsKeys(Protocol):
    """A method with a momentum encoder."""

    def project_key(self, x: Tensor) -> Tensor:
        """Keys (n, d) of images, without gradient, by this process alone; row i is of image i."""


@runtime_checkable
class SupportsReadConditions(Protocol):
    """A method that keeps condition values of earlier batches, as a queue does."""

    def read_conditions(self, look_up: LookUp) -> None:
        """Read them again from the tables.

        Called before the first batch of every epoch, when tables were refreshed; and before the first
        batch of a run that is resumed in the middle of an epoch, after ``load_state_dict``.  Values
        that are in the state dict are then as the tables have them.

        Args:
            look_up: From dataset indices to the rows of the tables.
        """


@runtime_checkable
class SupportsKeepStatistics(Protocol):
    """A method whose queue keeps Gram statistics."""

    def keep_statistics(self, statistics: Mapping[str, Statistic]) -> None:
        """Keep those; called once, after the objective's ``setup``."""
