"""FSCL: supervised contrastive learning without a sensitive attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ccl_plugins.numerics import logsumexp, masked
from ccl_plugins.objectives import Scalar
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

    The group-wise normalization of FSCL+ is left out.

    Args:
        temperature: τ, above 0.
        on: The name of the condition with the target class.
        sensitive: The name of the condition with the sensitive attribute.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Park et al., Fair Contrastive Learning for Facial Attribute Classification (2022).
    """

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        on: str = "label",
        sensitive: str = "sensitive",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, gather_distributed=gather_distributed)
        self.sensitive = sensitive

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """The class and the sensitive attribute."""
        return {self.on: ("categorical",), self.sensitive: ("categorical",)}

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        label, group = (pairs.everyone(name) for name in self.conditions)
        other = (label[pairs.rows, None] != label) & (group[pairs.rows, None] == group)
        positives = candidates.with_own(pairs.alike(self.on))
        negatives = candidates.columns(pairs.counted(other))
        counted = positives.any(1) & negatives.any(1)
        logits = candidates.sims() / self.temperature
        value = logsumexp(masked(logits, negatives)) - mean_over(positives, logits)
        return value.where(counted, 0), counted
