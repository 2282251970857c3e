"""WeaklySup-InfoNCE: positives of the anchor's auxiliary class."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from ccl_plugins.objectives.infonce import InfoNCE
from ccl_plugins.objectives.supcon import log_share
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False, kw_only=True)
class WeaklySupInfoNCE(InfoNCE):
    r"""InfoNCE with positives of the anchor's auxiliary class: the baseline of WeaklySup-CCLK.

    ``-(1 / |P|) Σ_{p in P} log( e_ip / Σ_j e_ij )``.  Positives: the own sample's other view, and that
    view of the other samples of the anchor's class, of batch and queue; of equal weight, averaged
    outside the log.  Negatives: all samples of that view and the queue, whatever their class.

    If pairs have ``draws``, eq. (3) is computed as printed: the positive is the own key, which in
    batches of partners is the partner's, and the negatives are the drawn keys.

    Equation:
        \ell_i = -\frac{1}{|\mathcal{P}_i|} \sum_{p \in \mathcal{P}_i} \log \frac{e^{s_{ip}}}{\sum_j
            e^{s_{ij}}}
        \mathcal{P}_i = \{ p : z_p = z_i \}

    Shape:
        (b, d), (b, d), condition (b,) of class ids -> ()

    Defaults:
        temperature: Code: 0.1 and 0.2 in scripts of Cl-InfoNCE.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (3).
    """

    value_types = ("categorical",)
    streams_queue = False

    within_view: bool = field(default=False, init=False)
    on: str = "condition"

    def where(self, pairs: Pairs) -> Tensor | None:
        """The other samples of the anchor's class; None: negatives that a sampler chose."""
        return None if pairs.draws is not None else pairs.same_class(self.on)

    def values(self, pairs: Pairs, i: int, j: int, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """(n,) values and weights of one pair of views; ``where`` selects the positives."""
        if where is None:
            return super().values(pairs, i, j, None)
        own, m, compared = pairs.own(), pairs.keys.shape[1], pairs.contrasted(where)
        blocks = [(pairs.sim(i, j), compared[:, :m] | own, where[:, :m] | own)]
        if pairs.queue is not None:
            blocks.append((pairs.sim_queue(i), compared[:, m:], where[:, m:]))
        return log_share(blocks, self.temperature)
