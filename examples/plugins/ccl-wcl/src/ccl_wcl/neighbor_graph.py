"""Weak labels of a batch: the connected components of its nearest-neighbor graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ccl_plugins.numerics import gather
from ccl_plugins.protocols import Embedded, Refresh, ValueType
from lightly.utils import dist
from torch import Tensor
from torch.nn.functional import normalize

from ccl_wcl.graph import weak_labels

if TYPE_CHECKING:
    from ccl_plugins.protocols import BatchCondition


class NeighborGraph:
    """Classes of the batch from its nearest-neighbor graph, for weakly supervised objectives.

    In the graph, each image has an edge to the image with the largest cosine, among the batches of all
    processes.  A class is a connected component.  Its id has no meaning in other batches, so that methods
    with a queue are refused.

    Shape:
        a batch of u views -> (n,) class ids; with ``views="each"`` (u, n, 1)

    Args:
        of: The embeddings: ``"projection"``; ``"backbone"``, the features before the head; or ``"key"``,
            the momentum keys.
        views: ``"joint"``: one graph, of the mean cosine over views; ``"each"``: one graph per view, for
            objectives that read a class per view, such as ``wcl``.

    Raises:
        ValueError: For another value; in a call, for ``"key"`` with a method without momentum keys.

    Source:
        Zheng et al., Weakly Supervised Contrastive Learning (2021).
    """

    refresh: Refresh = "batch"
    value_type: ValueType = "categorical"
    within_batch = True

    def __init__(
        self,
        of: Literal["projection", "backbone", "key"] = "projection",
        views: Literal["joint", "each"] = "joint",
    ) -> None:
        if of not in ("projection", "backbone", "key"):
            raise ValueError(f"of must be 'projection', 'backbone' or 'key', not {of!r}")
        if views not in ("joint", "each"):
            raise ValueError(f"views must be 'joint' or 'each', not {views!r}")
        self.of = of
        self.views = views

    def __call__(self, embedded: Embedded) -> Tensor:
        """Class ids of this process's images."""
        parts = {
            "projection": embedded.projections,
            "backbone": embedded.features,
            "key": embedded.keys,
        }
        x = parts[self.of]
        if x is None:
            raise ValueError(
                "neighbor_graph(of='key') needs a method with a momentum encoder, as moco_v2;"
                " of='projection' works with every method"
            )
        n = x.shape[1]
        mine = slice(dist.rank() * n, (dist.rank() + 1) * n)
        x = normalize(gather(x.detach(), 1), dim=-1)
        if self.views == "each":
            return weak_labels(x)[:, mine, None]
        return weak_labels(x.transpose(0, 1).flatten(1))[mine]


if TYPE_CHECKING:
    _: BatchCondition = NeighborGraph()  # type checkers report here what is missing
