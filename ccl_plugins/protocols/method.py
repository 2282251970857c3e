"""The contract of methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from torch import Tensor, nn

from ccl_plugins.protocols.embedded import Embedded

if TYPE_CHECKING:
    from ccl_plugins.pairs.pairs import Pairs
    from ccl_plugins.pairs.samples import Samples


class Masking(Protocol):
    """Draws which patches of a view are masked, with the generators of python, numpy and torch.

    It is drawn where samples are loaded, in processes of their own, so it can be pickled.
    """

    @property
    def views(self) -> int:
        """The number of views, the first ones, of which patches are masked."""

    def __call__(self, height: int, width: int) -> Tensor:
        """(rows, columns) True at the masked patches of a view, whose size is in pixels."""


class Method(Protocol):
    """A lightly-style model: a backbone, its heads, and how their outputs become pairs.

    It may also declare traits; see `trait`.
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

    def pairs(self, embedded: Embedded, samples: Samples) -> Pairs:
        """The pairs an objective sees, with what is known of the samples, gathered over processes."""

    def enqueue(self, pairs: Pairs) -> None:
        """Put the batch's keys into the queue, if there is one; called once, after all losses."""

    def after_step(self, step: int, total: int) -> None:
        """Called after each optimizer step (momentum updates)."""
