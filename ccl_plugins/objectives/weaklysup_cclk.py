"""WeaklySup-CCLK: positives weighted by the similarity of their condition."""

from __future__ import annotations

import torch
from torch import Tensor

from ccl_plugins.numerics.logsumexp import EMPTY, logsumexp, softplus
from ccl_plugins.numerics.streaming import Weigh
from ccl_plugins.objectives.cclk import CCLK
from ccl_plugins.objectives.cclk_forms import Forms, weaklysup_as_printed, weaklysup_as_released
from ccl_plugins.pairs.pairs import Pairs


class WeaklySupCCLK(CCLK):
    r"""Positives weighted by similar condition, to learn from an auxiliary variable (WeaklySup-CCLK).

    ``-log( c_i / (c_i + Σ_{j≠i} e_ij) )``.  Positives: the samples weighted by the conditional
    operator, the own other view among them.  Negatives: the other samples, of equal weight.  Anchors
    with zero similarity to every sample, themselves included (a row of zeros under a cosine kernel),
    get weight 0.

    Equation:
        \ell_i = -\log \frac{c_i}{c_i + \sum_{j \neq i} e^{s_{ij}}}
        c_i = \sum_j W_{ji} e^{s_{ij}}, \quad W = (K + \lambda I)^{-1} K, \quad K_{ij} = k(z_i, z_j)

    Warning:
        ``form="released"`` repels a sample's own views from each other: it leaves the own key out of
        the positives and takes it as a negative.  It also drops weights below 1e-6, and takes other
        samples of the anchor's own view as positives and negatives.  If no weight remains, all samples
        are repelled.

    Shape:
        (b, d), (b, d), condition (b,) or (b, c) -> ()

    Defaults:
        temperature: Code: 0.5. Here: that of the other conditional objectives.
        ridge: Code: 0.01.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (7), which is
        ``symmetric=False, negative_weights="keep"``.
    """

    forms = Forms(weaklysup_as_printed, weaklysup_as_released)

    def eligible(self, pairs: Pairs) -> Tensor | None:
        """The positives that a user gave."""
        return pairs.positive

    def further_weights(self, pairs: Pairs) -> list[Weigh]:
        """The negatives of the queue."""
        counted = pairs.in_queue(pairs.negative)
        return [lambda block: counted[:, block]]

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views; weight 0 for anchors without positives."""
        values, weights = super().terms(pairs)
        defined = ~(values.detach() > -EMPTY / 2)  # NaN keeps its weight: it must not go unnoticed
        return torch.where(defined, values, 0), weights * defined

    def values(
        self, pairs: Pairs, i: int, j: int, logs: Tensor, queued: tuple[Tensor, ...] | None
    ) -> Tensor:
        """(n,) ``-log( c_i / (c_i + Σ_{j≠i} e_ij) )``."""
        products, scale = self.scaled(pairs.sim(i, j))
        log_negatives = logsumexp(products, pairs.others(pairs.negative), scale)
        if queued is not None:
            log_negatives = torch.logaddexp(log_negatives, queued[1])
        log_c = self.log_expectation(pairs, i, j, logs, queued)
        return softplus(log_negatives - log_c)  # log(1 + Σ_{j≠i} e_ij / c_i)
