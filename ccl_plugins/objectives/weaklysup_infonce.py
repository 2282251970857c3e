"""WeaklySup-InfoNCE: the positive is any sample of the anchor's class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.infonce import InfoNCE
from ccl_plugins.objectives.scalars import Scalar
from ccl_plugins.objectives.supcon import log_share
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import ValueType


class WeaklySupInfoNCE(InfoNCE):
    """InfoNCE whose positive shares the anchor's auxiliary value, the baseline of WeaklySup-CCLK.

    ``-(1 / |P|) Σ_{p in P} log( e_ip / Σ_j e_ij )``.  Positives: the own sample's other view, and that
    view of the other samples of the anchor's class, of batch and queue; of equal weight, averaged
    outside the log.  Negatives: all samples of that view and the queue, whatever their class.

    Where pairs have ``draws``, eq. (3) is computed as printed: the positive is the own key, a
    partner's in batches of partners, and the negatives are the drawn keys.

    Shape:
        (b, d), (b, d), condition (b,) of class ids -> ()

    Args:
        temperature: τ, above 0.
        symmetric: Every view as anchor once; else only the earlier of two.
        on: The name of the condition that is read.
        exclude: Likely false negatives, ``(kernel, threshold)``, as in `ContrastiveObjective`.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (3).
    """

    streams = False  # `values` goes through the queue

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        symmetric: bool = True,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(
            temperature, symmetric=symmetric, exclude=exclude, gather_distributed=gather_distributed
        )
        self.on = on

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """One categorical condition."""
        return self.and_excluded({self.on: ("categorical",)})

    def where(self, pairs: Pairs) -> Tensor | None:
        """The other samples of the anchor's class."""
        return None if pairs.draws is not None else pairs.alike(self.on)

    def values(self, pairs: Pairs, i: int, j: int, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """(n,) values and weights of one pair of views; ``where`` holds for the positives."""
        if where is None:
            return super().values(pairs, i, j, None)
        own, m, shown = pairs.own(), pairs.keys.shape[1], pairs.contrasted(where)
        blocks = [(pairs.sim(i, j), shown[:, :m] | own, where[:, :m] | own)]
        if pairs.queue is not None:
            blocks.append((pairs.sim_queue(i), shown[:, m:], where[:, m:]))
        return log_share(blocks, self.temperature)
