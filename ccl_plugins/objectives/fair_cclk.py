"""Fair-CCLK: negatives that share the anchor's sensitive value."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ccl_plugins.objectives.cclk import CCLK, log_or_nan, other_candidates
from ccl_plugins.objectives.cclk_released import released_negatives
from ccl_plugins.pairs.pairs import Pairs


class FairCCLK(CCLK):
    """CCL-K with conditional negatives: a representation that tells less of a sensitive variable.

    ``-log( e_ii / (e_ii + (b - 1) c_i) )``.  Positive: the own other view.  Negatives: the samples
    weighted by the conditional operator, so that an anchor is told apart only from samples of a like
    condition, and the condition itself is no help in it.

    ``form="released"`` leaves the own pair out of ``c_i``, drops weights below 1e-6 and takes negatives
    of the anchor's own view too.  Where the kernel is so narrow that no weight survives, as with their
    settings on colors in 0..255, that loss is 0 and has no gradient.

    Shape:
        (b, d), (b, d), condition (b,) or (b, c) -> ()

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
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (8), which is
        ``symmetric=False, negative_weights="keep"``.
    """

    def weighed(self, pairs: Pairs) -> Tensor | None:
        """The negatives."""
        return pairs.negative

    def values(
        self, pairs: Pairs, i: int, j: int, logs: Tensor, queued: tuple[Tensor, ...] | None
    ) -> Tensor:
        """(n,) softplus of the negatives' log-sum against the own score."""
        own = pairs.own_sim(i, j) / self.temperature
        expectation = self.log_expectation(pairs, i, j, logs, queued)
        log_negatives = expectation + other_candidates(pairs).log()
        return functional.softplus(log_negatives - own)

    def literal(self, pairs: Pairs, i: int, j: int, weights: Tensor) -> Tensor:
        """(n,) the log as printed, undefined where negatives sum to less than minus the own score."""
        if self.form == "released":
            others = other_candidates(pairs)
            return released_negatives(pairs, i, j, weights, self.temperature, others)
        negatives, shift = self.signed_expectation(pairs, i, j, weights)
        own = pairs.own_sim(i, j) / self.temperature - shift
        return log_or_nan(own.exp() + other_candidates(pairs) * negatives) - own
