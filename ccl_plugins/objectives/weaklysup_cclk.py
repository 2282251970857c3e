"""WeaklySup-CCLK: positives that share the anchor's auxiliary value."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.numerics.logsumexp import EMPTY, logsumexp, logsumexp_blocks, masked
from ccl_plugins.numerics.streaming import Weigh
from ccl_plugins.objectives.cclk import CCLK, log_or_nan
from ccl_plugins.objectives.cclk_released import released_positives
from ccl_plugins.pairs.pairs import Pairs


class WeaklySupCCLK(CCLK):
    """CCL-K with conditional positives: samples of a like condition attract each other.

    ``-log( c_i / (c_i + Σ_{j≠i} e_ij) )``.  Positives: the samples weighted by the conditional
    operator, the own other view among them.  Negatives: the other samples, of equal weight.  An anchor
    that no sample is like, itself included (a row of zeros under a cosine kernel), does not count.

    Warning:
        ``form="released"`` repels a sample's own views from each other: it leaves the own pair out of
        the positives and puts it among the negatives.  Besides it drops weights below 1e-6 and takes
        other samples of the anchor's own view too, on both sides.  Where no weight survives, it only
        repels.

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
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (7), which is
        ``symmetric=False, negative_weights="keep"``.
    """

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views; weight 0 where nothing is a positive."""
        values, weights = super().terms(pairs)
        some = ~(values.detach() > -EMPTY / 2)  # NaN counts: it is not silently left out
        return torch.where(some, values, 0), weights * some

    def weighed(self, pairs: Pairs) -> Tensor | None:
        """The positives, where a user brought them."""
        return pairs.positive

    def unweighed(self, pairs: Pairs) -> list[Weigh]:
        """The queue's negatives."""
        counted = pairs.in_queue(pairs.negative)
        return [lambda some: counted[:, some]]

    def values(
        self, pairs: Pairs, i: int, j: int, logs: Tensor, queued: tuple[Tensor, ...] | None
    ) -> Tensor:
        """(n,) softplus of the other samples' log-sum against the conditional positives'."""
        products, scale = self.scaled(pairs.sim(i, j))
        negatives = logsumexp(products, pairs.others(pairs.negative), scale)
        if queued is not None:
            negatives = torch.logaddexp(negatives, queued[1])
        return functional.softplus(negatives - self.log_expectation(pairs, i, j, logs, queued))

    def literal(self, pairs: Pairs, i: int, j: int, weights: Tensor) -> Tensor:
        """(n,) the log as printed, undefined where the positives sum to less than 0."""
        if self.form == "released":
            return released_positives(pairs, i, j, weights, self.temperature)
        others = [masked(s / self.temperature, keep) for s, keep in pairs.negatives(i, j, False)]
        positives, shift = self.signed_expectation(pairs, i, j, weights)
        return functional.softplus(logsumexp_blocks(others) - log_or_nan(positives) - shift)
