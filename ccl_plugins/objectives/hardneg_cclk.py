"""HardNeg-CCLK: negatives weighted by the similarity of their embedding."""

from __future__ import annotations

from ccl_plugins.objectives.fair_cclk import FairCCLK


class HardNegCCLK(FairCCLK):
    r"""Negatives weighted by similar embedding: hard negatives by a kernel (HardNeg-CCLK).

    ``-log( e_ii / (e_ii + (b - 1) c_i) )``.  Positive: the own other view.  Negatives: the samples
    weighted by the conditional operator, most of all those near the anchor.  It is Fair-CCLK's
    equation with z = g(x), the anchor's embedding: give it the condition ``embedding``.

    ``form="released"`` differs as in `FairCCLK`.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + (b - 1) c_i}
        c_i = \sum_j W_{ji} e^{s_{ij}}, \quad W = (K + \lambda I)^{-1} K, \quad K_{ij} = k(x_i, x_j)

    Shape:
        (b, d), (b, d), condition (b, c) or one (b, c) per view -> ()

    Defaults:
        temperature: Code: 0.5. Here: that of the other conditional objectives, so that a change of
            objective changes nothing else.
        ridge: Code: 0.01; 100 with a scale of 500 (README).

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (9), which is
        ``symmetric=False, negative_weights="keep"``.
    """
