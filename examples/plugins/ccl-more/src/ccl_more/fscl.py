"""FSCL: supervised contrast that learns nothing of a sensitive attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ccl_plugins.numerics import logsumexp, masked
from ccl_plugins.objectives import Scalar
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import ValueType
from torch import Tensor

from ccl_more.candidates import Candidates
from ccl_more.supervised import Supervised, mean_over


class FSCL(Supervised):
    """Fair supervised contrastive loss: negatives are of another class and of the same group.

    ``-(1 / |P|) Σ_{p in P} log( e_p / Σ_{a in N} e_a )``.  Positives: the own other views, and all
    views of the anchor's class, whatever their group.  Negatives: the samples of another class that
    share the anchor's sensitive attribute.  An anchor that lacks either does not count.

    Left open: the group-wise normalization of FSCL+ is not in it.

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
        """The class and the group."""
        return {self.on: ("categorical",), self.sensitive: ("categorical",)}

    def row(self, pairs: Pairs, beside: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        label, group = (pairs.everyone(name) for name in self.conditions)
        other = (label[pairs.rows, None] != label) & (group[pairs.rows, None] == group)
        positives, negatives = beside.with_own(pairs.alike(self.on)), pairs.counted(other)
        logits, found = beside.sims() / self.temperature, positives.any(1) & negatives.any(1)
        against = logsumexp(masked(logits, beside.columns(negatives)))
        return (against - mean_over(positives, logits)).where(found, 0), found
