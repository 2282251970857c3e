"""Fair-CCLK: negatives weighted by the similarity of their condition."""

from __future__ import annotations

import torch
from torch import Tensor

from ccl_plugins.numerics.logsumexp import softplus
from ccl_plugins.objectives.cclk import CCLK, LOG_RANGE, log_or_nan
from ccl_plugins.pairs.pairs import Pairs


class FairCCLK(CCLK):
    r"""Negatives weighted by similar condition, to hide a sensitive variable (Fair-CCLK).

    ``-log( e_ii / (e_ii + (b - 1) c_i) )``.  Positive: the own other view.  Negatives: the samples
    weighted by the conditional operator.  So an anchor is told apart only from samples of similar
    condition, for which the condition itself is of no use.

    ``form="released"`` leaves the own key out of ``c_i``, drops weights below 1e-6 and takes negatives
    of the anchor's own view too.  If the kernel is so narrow that no weight remains, as with the
    authors' settings on colors in 0..255, that loss is 0 and has no gradient.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + (b - 1) c_i}
        c_i = \sum_j W_{ji} e^{s_{ij}}, \quad W = (K + \lambda I)^{-1} K, \quad K_{ij} = k(z_i, z_j)

    Shape:
        (b, d), (b, d), condition (b,) or (b, c) -> ()

    Defaults:
        temperature: Code: 0.5; 0.1 (README).
        ridge: Code: 0.01.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (8), which is
        ``symmetric=False, negative_weights="keep"``.
    """

    hides = True

    def eligible(self, pairs: Pairs) -> Tensor | None:
        """The negatives that a user gave."""
        return pairs.negative

    def values(
        self, pairs: Pairs, i: int, j: int, logs: Tensor, queued: tuple[Tensor, ...] | None
    ) -> Tensor:
        """(n,) softplus of the negatives' log-sum minus the own score."""
        own = pairs.own_sim(i, j) / self.temperature
        expectation = self.log_expectation(pairs, i, j, logs, queued)
        return softplus(expectation + other_samples(pairs).log() - own)

    def literal(self, pairs: Pairs, i: int, j: int, weights: Tensor) -> Tensor:
        """(n,) the log as printed, undefined where the sum in it is not above 0."""
        negatives, shift = self.signed_expectation(pairs, i, j, weights)
        own = pairs.own_sim(i, j) / self.temperature - shift
        return log_or_nan(own.exp() + other_samples(pairs) * negatives) - own

    def released(self, pairs: Pairs, i: int, j: int, weights: Tensor) -> Tensor:
        """(n,) the log with a clamped sum."""
        own = pairs.own_sim(i, j) / self.temperature
        expectation = self.released_expectation(pairs, i, j, weights)
        log_negatives = expectation + other_samples(pairs).log()
        return torch.logaddexp(own, log_negatives).clamp(*LOG_RANGE) - own


def other_samples(pairs: Pairs) -> Tensor:
    """0-d, the number b - 1 of samples beside the anchor over which the operator was solved."""
    others = pairs.anchors.new_zeros(()) + (pairs.sample_count - 1)
    if pairs.queue is not None:
        others = others + pairs.queue.valid.sum()
    return others.clamp_min(0)  # no sample at all has a value of the condition
