"""The contract of methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from torch import Tensor, nn

from ccl_plugins.numerics.gram import Statistic
from ccl_plugins.protocols.condition import LookUp, ValueType
from ccl_plugins.protocols.embedded import Embedded
from ccl_plugins.protocols.traits import absent_by_default, traits_of

if TYPE_CHECKING:
    from ccl_plugins.pairs.pairs import Pairs
    from ccl_plugins.pairs.samples import Samples


class Masking(Protocol):
    """Draws which patches of a view are masked, with the generators of python, numpy and torch.

    It is drawn where samples are loaded, in processes of their own, so it can be pickled.
    """

    @property
    def views(self) -> int:
        """The number of first views whose patches are masked."""

    def __call__(self, height: int, width: int) -> Tensor:
        """(rows, columns) True at the masked patches of a view, whose size is in pixels."""


class Method(Protocol):
    """A lightly-style model: a backbone, its heads, and how their outputs become pairs."""

    @property
    def backbone(self) -> nn.Module:
        """The network from images to features, a `Backbone`."""

    def encode(self, x: Tensor) -> Tensor:
        """Features (n, f) of images (n, channels, height, width), of the backbone or its teacher."""

    def project(self, x: Tensor) -> Tensor:
        """Projections (n, d) of images, for ``embed()`` of a condition."""

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """Features, projections and keys of a batch of views, each (n, channels, height, width).

        Views of other modalities have the form that their networks take.
        """

    def pairs(self, embedded: Embedded, samples: Samples) -> Pairs:
        """The pairs that an objective reads, with the facts about the samples, gathered over processes."""

    def enqueue(self, pairs: Pairs) -> None:
        """Put the batch's keys into the queue, if there is one; called once, after all losses."""

    def after_step(self, step: int, total: int) -> None:
        """Called after each optimizer step (momentum updates)."""


@traits_of("method")
class MethodTraits:
    """The optional members of a method."""

    conditions: ClassVar[Mapping[str, Sequence[ValueType]]] = {}
    """Read when a pipeline is composed. The names of the conditions that the method itself reads, with the
    value types it accepts for each: a class attribute, or a property where they depend on parameters."""
    momentum: float | None = None
    """Read while training. The momentum of the key encoder, below 1; a run warns if it does not
    suit its length or its queue."""

    def check_batch(self, size: int) -> None:
        """Called before a run begins, with the global batch size.

        Raises ValueError for a size that the method cannot take.
        """

    @absent_by_default
    def project_key(self, x: Tensor) -> Tensor:
        """Called for a condition that reads keys, such as `clusters(of="key")`.

        Returns the momentum encoder's keys `(n, d)` of images, without gradient and without other
        processes; row i is of image i.
        """

    @absent_by_default
    def read_conditions(self, look_up: LookUp) -> None:
        """Called before the first batch of each epoch, after tables are refreshed.

        And before the first batch of a run that is resumed in the middle of an epoch, after
        `load_state_dict`. `look_up` is a `LookUp`, from dataset indices `(k,)` to the rows of every fitted
        condition by name; a queue reads its condition values again. A method with this member counts as one
        with a queue.
        """

    @staticmethod
    def has_queue(parameters: Mapping[str, Any]) -> bool:
        """Called when a pipeline is composed, with all parameters of a method with `read_conditions`.

        Returns whether there is a queue, and a momentum encoder for it, with these parameters.
        """
        return True

    def keep_statistics(self, statistics: Mapping[str, Statistic]) -> None:
        """Called once, after the objective's `setup`, with the result of its `statistics()`.

        The queue maintains these Gram matrices, and pairs carry them in `queue.grams`.
        """

    @staticmethod
    def masked_views(parameters: Mapping[str, Any]) -> int:
        """Called when a pipeline is composed, with all parameters of the method.

        Returns the number of first views whose patches it masks. Its backbone must then have
        `patch_shape`, and these views are of one size.
        """
        return 0

    @absent_by_default
    def masking(self, height: int, width: int) -> Tensor:
        """Called when a sample is loaded, for each view of which patches are masked.

        The size of the view is in pixels, generators are seeded. Returns `(rows, columns)`, True at
        masked patches. It is a `Masking`, which can be pickled. The method is then called as
        `embed(views, masks)`, with `Masks`, and gives `patches` in its `Embedded`.
        """

    @absent_by_default
    def embed_modality(self, name: str, x: Any) -> Tensor:
        """Called for evaluators that compare images with texts.

        Returns the projections `(n, d)` of samples of a modality, not normalized. The method then
        has `towers`, the networks of the other modalities by name; `heads`, the head of each
        modality and of `"image"`; and `modalities`, the modality of each view that `embed` takes.
        The pipeline supplies the keyword-only parameter `modalities`.
        """
