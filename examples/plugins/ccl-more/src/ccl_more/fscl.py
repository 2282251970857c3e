"""FSCL: supervised contrastive learning without a sensitive attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ccl_plugins.numerics import logsumexp, masked
from ccl_plugins.objectives import Exclude, Scalar
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import ValueType
from torch import Tensor

from ccl_more.supervised import Candidates, Supervised, mean_over


class FSCL(Supervised):
    """Fair supervised contrastive loss (FSCL), with negatives from the anchor's sensitive group.

    ``-(1 / |P|) Σ_{p in P} log( e_p / Σ_{a in N} e_a )``.  Positives P: the anchor's other views, and
    all views of the other samples of its class, of any group.  Negatives N: all views of the samples of
    other classes with the anchor's sensitive attribute.  Anchors without positives or without negatives
    get weight 0.

    With ``group_normalization`` (FSCL+), the sum over P is divided by the number P_g of positives of the
    anchor's own group, and the weight of the anchor is ``1 / (P_g + 1)``, so that all groups of a class
    count alike.  This is taken from the authors' code; its constant factor is chosen so that the weights
    sum to 1.

    Args:
        group_normalization: Whether groups count alike (FSCL+).
        on: The name of the condition with the target class.
        sensitive: The name of the condition with the sensitive attribute.

    Source:
        Park et al., Fair Contrastive Learning for Facial Attribute Classification (2022).
    """

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        group_normalization: bool = False,
        on: str = "label",
        sensitive: str = "sensitive",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, exclude=exclude, gather_distributed=gather_distributed)
        self.group_normalization = group_normalization
        self.sensitive = sensitive

    def reads(self) -> Mapping[str, Sequence[ValueType]]:
        """The class and the sensitive attribute."""
        return {self.on: ("categorical",), self.sensitive: ("categorical",)}

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        label, group = pairs.everyone(self.on), pairs.everyone(self.sensitive)
        same_group, alike = group[pairs.rows, None] == group, pairs.alike(self.on)
        other = (label[pairs.rows, None] != label) & same_group
        positives = candidates.with_own(alike)
        negatives = candidates.columns(pairs.counted(pairs.negative) & other)
        counted = positives.any(1) & negatives.any(1)
        logits = candidates.sims() / self.temperature
        value = logsumexp(masked(logits, negatives)) - mean_over(positives, logits)
        if self.group_normalization:
            mine = candidates.with_own(alike & same_group).sum(1).to(value.dtype)
            counted = counted & (mine > 0)
            value = value * positives.sum(1) / mine.clamp_min(1)
            return value.where(counted, 0), counted / (mine + 1)
        return value.where(counted, 0), counted
