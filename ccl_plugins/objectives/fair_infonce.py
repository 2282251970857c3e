"""Fair-InfoNCE: negatives of the anchor's sensitive class."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ccl_plugins.objectives.infonce import InfoNCE
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False, kw_only=True)
class FairInfoNCE(InfoNCE):
    r"""InfoNCE with negatives of the anchor's sensitive class: the baseline of Fair-CCLK.

    ``-log( e_ii / (e_ii + Σ_{j in N} e_ij) )``.  Positive: the own sample's other view.  Negatives: the
    other samples N of the anchor's class: their keys of that view, of the anchor's own view too if
    ``within_view``, and the queue; all of equal weight.  Anchors alone in their class get weight 0.

    If pairs have ``draws``, eq. (4) is computed as printed: the negatives are the drawn keys.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + \sum_{j \in \mathcal{N}_i} e^{s_{ij}}}
        \mathcal{N}_i = \{ j \neq i : z_j = z_i \}

    Shape:
        (b, d), (b, d), condition (b,) of class ids -> ()

    Defaults:
        temperature: Here: that of ``fair_cclk``, with which it is compared.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (4).  A continuous
        sensitive variable is clustered first (their Appendix D).
    """

    value_types = ("categorical",)
    hides = True

    on: str = "condition"

    def where(self, pairs: Pairs) -> Tensor | None:
        """The other samples of the anchor's class; None: negatives that a user or a sampler chose."""
        chosen = pairs.draws is not None or pairs.positive is not None
        return None if chosen else pairs.same_class(self.on)
