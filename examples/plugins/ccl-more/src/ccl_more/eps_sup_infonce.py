"""Epsilon-SupInfoNCE: every positive is closer than every negative by a margin."""

from __future__ import annotations

import torch
from ccl_plugins.arguments import non_negative
from ccl_plugins.numerics import logsumexp, masked
from ccl_plugins.objectives import Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from torch import Tensor

from ccl_more.supervised import Candidates, Supervised, mean_over


class EpsSupInfoNCE(Supervised):
    """Supervised InfoNCE with a margin between each positive and all negatives (epsilon-SupInfoNCE).

    ``-(1 / |P|) Σ_{p in P} log( e_p / (e_p exp(-ε) + Σ_{a in N} e_a) )``.  Positives P: the
    anchor's other views, and all views of the other samples of its class.  Negatives N: all views of
    the other classes.  Anchors without positives get weight 0.

    As in the authors' code, and not in the paper: positives are averaged and not summed, and ε is
    subtracted after division by the temperature.

    Args:
        temperature: τ, above 0.
        epsilon: The margin ε, 0 or more.
        on: The name of the condition, class ids.
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

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        same_class = pairs.alike(self.on)
        positives = candidates.with_own(same_class)
        negatives = candidates.columns(pairs.contrasted(same_class) & ~same_class)
        logits = candidates.sims() / self.temperature
        total = logsumexp(masked(logits, negatives))[:, None]
        values = torch.logaddexp(logits - self.epsilon, total) - logits
        return mean_over(positives, values), positives.any(1)
