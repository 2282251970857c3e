"""HardNeg-CCLK: negatives that look like the anchor."""

from __future__ import annotations

from ccl_plugins.objectives.fair_cclk import FairCCLK


class HardNegCCLK(FairCCLK):
    """CCL-K with hard negatives: Fair-CCLK's equation, conditioned on the embedding itself.

    ``-log( e_ii / (e_ii + (b - 1) c_i) )`` with z = g(x), the anchor's own embedding: give it the
    condition ``embedding``.  Positive: the own other view.  Negatives: the samples weighted by the
    conditional operator, those near the anchor counting most.
    ``form="released"`` differs as in `FairCCLK`.

    Shape:
        (b, d), (b, d), condition (b, c) or one (b, c) per view -> ()

    Args:
        kernel: A positive definite similarity of condition values.
        temperature: τ, above 0.
        ridge: λ of the conditional operator, 0 or more.
        symmetric: Every view as anchor once; else only the earlier of two.
        negative_weights: ``"clip"``: weights below 0 count as 0, so that the loss is always defined;
            ``"keep"``: the literal equation, an error where it takes the log of a negative number.
        form: ``"paper"`` or ``"released"``.
        landmarks: How many samples stand for all where the operator is solved approximately (see
            `ccl_plugins.numerics.conditional_operator`), for a large queue; None: exactly.
        on: The name of the condition that is read.
        exclude: Likely false negatives, ``(kernel, threshold)``, as in `ContrastiveObjective`.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (9), which is
        ``symmetric=False, negative_weights="keep"``.
    """
