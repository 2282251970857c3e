"""Fair-InfoNCE: negatives of the anchor's own sensitive class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.infonce import InfoNCE
from ccl_plugins.objectives.scalars import Scalar
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import ValueType


class FairInfoNCE(InfoNCE):
    """InfoNCE whose negatives share the anchor's sensitive value, the baseline of Fair-CCLK.

    Positive: the own sample's other view.  Negatives: that view of the other samples of the anchor's
    class, of its own view too where ``within_view``, and those of the queue; all of equal weight.  An
    anchor alone in its class does not count.

    Where pairs have ``draws``, eq. (4) is computed as printed: the negatives are the drawn keys.

    Shape:
        (b, d), (b, d), condition (b,) of class ids -> ()

    Args:
        temperature: τ, above 0.
        within_view: Whether the anchor's own view gives negatives too.
        symmetric: Every view as anchor once; else only the earlier of two.
        on: The name of the condition that is read.
        exclude: Likely false negatives, ``(kernel, threshold)``, as in `ContrastiveObjective`.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (4).  A continuous
        sensitive variable is clustered first (their Appendix D).
    """

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        within_view: bool = False,
        symmetric: bool = True,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(
            temperature,
            within_view=within_view,
            symmetric=symmetric,
            exclude=exclude,
            gather_distributed=gather_distributed,
        )
        self.on = on

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """One categorical condition."""
        return self.and_excluded({self.on: ("categorical",)})

    def where(self, pairs: Pairs) -> Tensor | None:
        """The other samples of the anchor's class; a user's own negatives and draws as they are."""
        if pairs.draws is not None or pairs.positive is not None:
            return None
        return pairs.alike(self.on)
