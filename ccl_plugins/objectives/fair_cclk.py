"""Fair-CCLK: negatives weighted by the similarity of their condition."""

from __future__ import annotations

from torch import Tensor

from ccl_plugins.numerics.logsumexp import softplus
from ccl_plugins.objectives.cclk import CCLK
from ccl_plugins.objectives.cclk_forms import (
    Forms,
    fair_as_printed,
    fair_as_released,
    other_samples,
)
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
    forms = Forms(fair_as_printed, fair_as_released)

    def eligible(self, pairs: Pairs) -> Tensor | None:
        """The negatives that a user gave."""
        return pairs.negative

    def values(
        self, pairs: Pairs, i: int, j: int, logs: Tensor, queued: tuple[Tensor, ...] | None
    ) -> Tensor:
        """(n,) ``-log( e_ii / (e_ii + (b - 1) c_i) )``."""
        own = pairs.own_sim(i, j) / self.temperature
        log_c = self.log_expectation(pairs, i, j, logs, queued)
        log_others = other_samples(pairs).log()
        return softplus(log_c + log_others - own)  # log(1 + (b - 1) c_i / e_ii)
