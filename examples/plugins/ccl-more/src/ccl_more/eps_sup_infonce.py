"""Epsilon-SupInfoNCE: positives that are nearer than every negative by a margin."""

from __future__ import annotations

import torch
from ccl_plugins.arguments import non_negative
from ccl_plugins.numerics import logsumexp, masked
from ccl_plugins.objectives import Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from torch import Tensor

from ccl_more.candidates import Candidates
from ccl_more.supervised import Supervised, mean_over


class EpsSupInfoNCE(Supervised):
    """Supervised InfoNCE with a margin, in which each positive stands alone against the negatives.

    ``-(1 / |P|) Σ_{p in P} log( e_p / (e_p exp(-ε) + Σ_{a in N} e_a) )``.  Positives: the own other
    views, and all views of the anchor's class.  Negatives: the other classes.  An anchor without
    positives does not count.

    Left open: the paper sums over positives, and here they are averaged, as in the authors' code; as
    there, ε is subtracted after dividing by the temperature.

    Args:
        temperature: τ, above 0.
        epsilon: The margin ε, 0 or more.
        on: The name of the condition that is read, class ids.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Barbano et al., Unbiased Supervised Contrastive Learning (2023), ε-SupInfoNCE.
    """

    epsilon = ScalarAttribute(non_negative)

    def __init__(
        self,
        temperature: Scalar = 0.1,
        epsilon: Scalar = 0.25,
        *,
        on: str = "condition",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, gather_distributed=gather_distributed)
        self.epsilon = epsilon

    def row(self, pairs: Pairs, beside: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        alike = pairs.alike(self.on)
        positives, negatives = beside.with_own(alike), pairs.contrasted(alike) & ~alike
        logits = beside.sims() / self.temperature
        against = logsumexp(masked(logits, beside.columns(negatives)))[:, None]
        values = torch.logaddexp(logits - self.epsilon, against) - logits
        return mean_over(positives, values), positives.any(1)
