"""UCL, in which every other sample is a negative, and its family: H-UCL, SCL, H-SCL, HCL, debiased.

With ``g = s/τ``, all of them compute ``log(1 + o E_q[e^g] / e^(g⁺))``.  They differ in the samples that
are negatives, in the weights of the distribution q, and in the positives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import reduce
from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import below_one, non_negative, positive, word
from ccl_plugins.numerics.logsumexp import log_tilted_mean, logsumexp_blocks, masked, softplus
from ccl_plugins.numerics.numbers import Number, is_zero, log, plus
from ccl_plugins.objectives.base import ContrastiveObjective, stack_rows
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs

Blocks = Sequence[tuple[Tensor, Tensor]]
"""Inner products (n, ·) of anchors and keys, and masks that are True at pairs that count."""


@dataclass(eq=False, repr=False)
class UCL(ContrastiveObjective):
    r"""NT-Xent with the mean over negatives times a chosen factor ``o`` (UCL).

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view.  Negatives: the
    other samples of both views and of the queue, all of equal weight in the mean ``E_q``.  With
    ``o="negatives"`` it is NT-Xent itself.

    More than two views are compared two by two.

    Equation:
        \ell_i = \log \left( 1 + o \operatorname{mean}_{j \in \mathcal{N}_i} e^{s_{ij}} / e^{s_{ii}}
            \right)

    Shape:
        (b, d), (b, d) -> ()

    Args:
        o: The factor of the mean over negatives: ``"batch"``, the number of samples in the batch;
            ``"negatives"``, the number of the other samples' keys, of any class; or a number above 0.

    Args of subclasses:
        beta: β, 0 or more: negatives are weighted by ``e^(βg)``; 0: equal weights.
        threshold: Above 0: negatives with ``e^g`` below the threshold are left out, and anchors
            without other negatives get weight 0. None: no negative is left out.
        weight_gradient: Whether the gradient flows through the weights too.

    Defaults:
        temperature: Code: 0.5.

    Source:
        Jiang et al., Supervised Contrastive Learning with Hard Negative Samples (2022), eq. (29) with
        q of eq. (4); eqs. (9), (10) are ``o=1``; their code computes ``o="negatives"``.
    """

    in_parts = True

    temperature: Scalar = ScalarAttribute(positive, default=0.5, learnable=True)
    _: KW_ONLY
    o: Scalar | Literal["batch", "negatives"] = ScalarAttribute(
        positive, default="batch", words=("batch", "negatives")
    )
    within_view: bool = True
    beta: Scalar = field(default=0.0, init=False)
    threshold: Scalar | None = field(default=None, init=False)
    weight_gradient: bool = field(default=True, init=False)

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views; weight 0 for anchors without negatives."""
        same_class, count = self.same_class(pairs), _Counts()
        other_class = None if same_class is None else pairs.counted() & ~same_class
        places = list(pairs.cross())
        negatives, others = zip(
            *(self.negatives(pairs, i, j, other_class) for i, j in places), strict=True
        )
        # From here on a tensor has a row for each pair of views.
        number = torch.stack([count(blocks) for blocks in negatives])
        own = torch.stack([pairs.own_sim(i, j) for i, j in places])
        c = own.detach()
        zero = (own - c) / self.temperature  # g⁺ - c/τ, with gradient
        means = [self.log_mean(*row) for row in zip(negatives, number, c, strict=True)]
        log_mean = self.debiased(torch.stack(means), c, zero)  # log E_q[e^(g - c/τ)]
        # log(o E_q[e^g] / e^(g⁺))
        log_ratio = log_mean - zero + self.log_o(pairs, others, count)
        return self.averaged(pairs, places, log_ratio, number.clamp_max(1), same_class)

    def averaged(
        self,
        pairs: Pairs,
        places: Sequence[tuple[int, int]],
        log_ratio: Tensor,
        counts: Tensor,
        same_class: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """(rows, n) values and weights; ``counts`` is 1 for anchors with a negative, else 0."""
        return softplus(log_ratio), counts  # log(1 + o E_q[e^g] / e^(g⁺))

    def same_class(self, pairs: Pairs) -> Tensor | None:
        """(n, m + q) True at the other samples of the anchor's class; None: classes are not read."""
        return None

    def negatives(
        self, pairs: Pairs, i: int, j: int, where: Tensor | None
    ) -> tuple[Blocks, Blocks]:
        """The negatives of anchor view ``i``, with own keys in view ``j``, and all other samples' keys."""
        others = pairs.negatives(i, j, self.within_view)
        negatives = others if where is None else pairs.negatives(i, j, self.within_view, where)
        if self.threshold is not None:
            bound = self.temperature * log(self.threshold)
            negatives = [(sims, keep & (sims.detach() >= bound)) for sims, keep in negatives]
        return negatives, others

    def log_mean(self, negatives: Blocks, number: Tensor, c: Tensor) -> Tensor:
        """(n,) ``log E_q[e^(g-c/τ)]`` with ``q ∝ e^(βg)``, as ``LSE((1+β)g) - LSE(βg) - c/τ``.

        The own products c are subtracted before the division by τ. If the mean is near the own
        key's value, its logarithm is then small, and so is the rounding error.

        Args:
            negatives: Inner products and masks.
            number: (n,) how many negatives count; for 0, the result is finite and meaningless.
            c: (n,) the own products, without gradient.
        """
        temperature, beta = self.temperature, self.beta
        even = is_zero(beta)  # then one log-sum-exp is enough
        learned = any(isinstance(x, Tensor) and x.requires_grad for x in (temperature, beta))
        # Compiled, the operations below are one loop as well.
        if not even and not learned and not torch.compiler.is_compiling():
            return log_tilted_mean(negatives, temperature, beta, c, self.weight_gradient)
        negatives = [(sims - c[:, None], keep) for sims, keep in negatives]
        upper, lower = [], []
        for sims, keep in negatives:
            tilt = sims if self.weight_gradient else sims.detach()
            tilted = sims if even else plus(sims, beta, tilt)
            upper.append(masked(tilted / temperature, keep))
            if not even:
                lower.append(masked(tilt * (beta / temperature), keep))
        log_norm = number.clamp_min(1).log() if even else logsumexp_blocks(lower)
        return logsumexp_blocks(upper) - log_norm

    def debiased(self, log_mean: Tensor, c: Tensor, zero: Tensor) -> Tensor:
        """(rows, n) logarithms of the means, corrected for false negatives; UCL corrects nothing."""
        return log_mean

    def log_o(self, pairs: Pairs, others: Sequence[Blocks], count: _Counts) -> Number:
        """The log of ``o``, a number, (n,) or (rows, n)."""
        if not isinstance(self.o, str):
            return log(self.o)
        if self.o == "batch":
            samples = pairs.sample_count
            if isinstance(samples, int):
                return math.log(samples)
            return samples.clamp_min(1).to(pairs.anchors.dtype).log()
        return torch.stack([count(blocks) for blocks in others]).clamp_min(1).log()


@dataclass(eq=False, repr=False, kw_only=True)
class HUCL(UCL):
    r"""NT-Xent with hard negatives by importance weights (H-UCL).

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view.  Negatives: the
    other samples of both views and of the queue, weighted by ``e^(βg)`` in the mean ``E_q``.  With
    ``beta=0`` it is UCL.

    More than two views are compared two by two.

    Equation:
        \ell_i = \log \left( 1 + o \, \mathbb{E}_{q_i} [ e^{s_{ij}} ] / e^{s_{ii}} \right)
        q_i(j) = \operatorname{softmax}_{j \in \mathcal{N}_i} ( \beta s_{ij} )

    Shape:
        (b, d), (b, d) -> ()

    Defaults:
        temperature: Code: 0.5.
        beta: Paper: 0.1 to 5. Code: 1.

    Source:
        Jiang et al., Supervised Contrastive Learning with Hard Negative Samples (2022), eqs. (28),
        (29); eqs. (5), (9), (11) are ``beta=0, o=1`` with a threshold; their code computes
        ``o="negatives"``.
    """

    beta: Scalar = ScalarAttribute(non_negative, default=1.0)
    threshold: Scalar | None = ScalarAttribute(positive, default=None)
    weight_gradient: bool = True


@dataclass(eq=False, repr=False, kw_only=True)
class SCL(UCL):
    r"""Supervised contrast in which only samples of other classes are negatives (SCL).

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view, or, each in a
    separate term, all keys of the anchor's class.  Negatives: the samples of other classes of both
    views and of the queue, all of equal weight in the mean ``E_q``.  In contrast to SupCon, no term has
    the other positives in its denominator.  Anchors without negatives get weight 0.

    More than two views are compared two by two.

    Equation:
        \ell_i = \log \left( 1 + o \operatorname{mean}_{j \in \mathcal{N}_i} e^{s_{ij}} / e^{s_{ii}}
            \right)
        \mathcal{N}_i = \{ j : z_j \neq z_i \}

    Shape:
        (b, d), (b, d), condition (b,) -> ()

    Args:
        positives: ``"one"``: the own other view; ``"all"``: every key of the anchor's class.
        average: With ``positives="all"``: ``"pairs"``, every pair has equal weight, so that anchors of
            larger classes weigh more; ``"anchors"``, every anchor has equal weight.
        within_view: Whether keys of the anchor's own view are compared with it too.

    Defaults:
        temperature: Code: 0.5.

    Source:
        Jiang et al., Supervised Contrastive Learning with Hard Negative Samples (2022), eq. (29) with
        q of eq. (8); eqs. (9), (12) are ``o=1``; their code computes ``o="negatives"``, and trains
        with ``positives="all"``.
    """

    value_types = ("categorical",)

    positives: Literal["one", "all"] = word("one", "all")
    average: Literal["pairs", "anchors"] = word("pairs", "anchors")
    on: str = "condition"

    def same_class(self, pairs: Pairs) -> Tensor:
        """(n, m + q) True at the other samples of the anchor's class, which are not negatives."""
        return pairs.same_class(self.on)

    def averaged(
        self,
        pairs: Pairs,
        places: Sequence[tuple[int, int]],
        log_ratio: Tensor,
        counts: Tensor,
        same_class: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The mean over the own key and, with ``positives="all"``, the other keys of the anchor's class."""
        own = super().averaged(pairs, places, log_ratio, counts, same_class)
        if self.positives == "one" or same_class is None:
            return own
        rows = []
        for (i, j), value, log_row, number in zip(
            places, own[0], log_ratio, torch.ones_like(counts), strict=True
        ):
            log_negatives = log_row + pairs.own_sim(i, j) / self.temperature  # log(o E_q[e^g])
            for sims, keep in self._more_positives(pairs, i, j, same_class):
                values = softplus(log_negatives[:, None] - sims / self.temperature)
                value = value + (values * keep).sum(1)
                number = number + keep.sum(1)
            rows.append((value / number, number))
        values, number = stack_rows(rows)
        return values, counts * number if self.average == "pairs" else counts

    def _more_positives(self, pairs: Pairs, i: int, j: int, same_class: Tensor) -> Blocks:
        """The other samples' keys of the anchor's class, in blocks like those of `Pairs.negatives`."""
        m = pairs.keys.shape[1]
        blocks = [(pairs.sim(i, j), same_class[:, :m])]
        if self.within_view and (k := pairs.within(i)) is not None:
            blocks.append((pairs.sim(i, k), same_class[:, :m]))
        if pairs.queue is not None:
            blocks.append((pairs.sim_queue(i), same_class[:, m:]))
        return blocks


@dataclass(eq=False, repr=False, kw_only=True)
class HSCL(HUCL, SCL):
    r"""Supervised contrast with hard negatives of other classes, by importance weights (H-SCL).

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view, or, each in a
    separate term, all keys of the anchor's class.  Negatives: the samples of other classes of both
    views and of the queue, weighted by ``e^(βg)`` in the mean ``E_q``.  With ``beta=0`` it is SCL.
    Anchors without negatives get weight 0.

    More than two views are compared two by two.

    Equation:
        \ell_i = \log \left( 1 + o \, \mathbb{E}_{q_i} [ e^{s_{ij}} ] / e^{s_{ii}} \right)
        q_i(j) = \operatorname{softmax}_{j \in \mathcal{N}_i} ( \beta s_{ij} ), \quad \mathcal{N}_i
            = \{ j : z_j \neq z_i \}

    Shape:
        (b, d), (b, d), condition (b,) -> ()

    Defaults:
        temperature: Code: 0.5.
        beta: Paper: 0.1 to 5. Code: 1.

    Source:
        Jiang et al., Supervised Contrastive Learning with Hard Negative Samples (2022), eqs. (27),
        (29); eqs. (9), (14), (15) are ``beta=0, o=1`` with a threshold.  Their training code computes
        ``o="negatives", positives="all"``, their code for figure 4 ``o="negatives",
        weight_gradient=False``.
    """


@dataclass(eq=False, repr=False, kw_only=True)
class HCL(UCL):
    r"""Hard negatives by importance weights, debiased for false negatives (HCL).

    ``log(1 + N E / e^(g⁺))`` with ``g = s/τ`` and
    ``E = max((E_q[e^g] - τ⁺ e^(g⁺)) / (1 - τ⁺), e^(-1/τ))``.  Positive: the own other view.  Negatives:
    the other samples of both views and of the queue, N keys in all, weighted by ``e^(βg)`` in the
    mean ``E_q``, minus the share τ⁺ of false negatives. With ``tau_plus=0`` it is H-UCL with
    ``o="negatives"``.

    More than two views are compared two by two.

    Equation:
        \ell_i = \log \left( 1 + N E_i / e^{s_{ii}} \right)
        E_i = \max \left( \frac{\mathbb{E}_{q_i} [ e^{s_{ij}} ] - \tau^+ e^{s_{ii}}}{1 - \tau^+},
            e^{-1 / \tau} \right)
        q_i(j) = \operatorname{softmax}_{j \in \mathcal{N}_i} ( \beta s_{ij} )

    Shape:
        (b, d), (b, d) -> ()

    Args:
        tau_plus: τ⁺, from 0 to below 1: the probability that another sample is a false negative, that
            is, of the anchor's class.

    Defaults:
        temperature: Paper: 0.5. Code: 0.5.
        beta: Paper: 1. Code: 1.
        tau_plus: Paper: 0.1. Code: 0.1.

    Source:
        Robinson et al., Contrastive Learning with Hard Negative Samples (2021), the debiased
        objective; the lower bound ``e^(-1/τ)`` is from their code.
    """

    o: Literal["negatives"] = field(default="negatives", init=False)
    beta: Scalar = ScalarAttribute(non_negative, default=1.0)
    tau_plus: Scalar = ScalarAttribute(below_one, default=0.1)
    weight_gradient: bool = True

    def debiased(self, log_mean: Tensor, c: Tensor, zero: Tensor) -> Tensor:
        """``log E - c/τ``: the debiased mean, at least the smallest mean of ``e^g``."""
        return debias(log_mean, zero, self.tau_plus, floor=(-1 - c) / self.temperature)


@dataclass(eq=False, repr=False, kw_only=True)
class Debiased(HCL):
    r"""Debiased contrastive loss: negatives of equal weight, corrected for false negatives.

    ``log(1 + N E / e^(g⁺))`` with ``g = s/τ`` and
    ``E = max((mean e^g - τ⁺ e^(g⁺)) / (1 - τ⁺), e^(-1/τ))``.  Positive: the own other view.  Negatives:
    the other samples of both views and of the queue, N keys in all, of equal weight in the mean,
    minus the share τ⁺ of false negatives. It is HCL with ``beta=0``, and NT-Xent with
    ``tau_plus=0``.

    More than two views are compared two by two.

    Equation:
        \ell_i = \log \left( 1 + N E_i / e^{s_{ii}} \right)
        E_i = \max \left( \frac{\operatorname{mean}_{j \in \mathcal{N}_i} e^{s_{ij}} - \tau^+
            e^{s_{ii}}}{1 - \tau^+}, e^{-1 / \tau} \right)

    Shape:
        (b, d), (b, d) -> ()

    Defaults:
        temperature: Paper: 0.5. Code: 0.5.
        tau_plus: Paper: 0.1. Code: 0.1.

    Source:
        Chuang et al., Debiased Contrastive Learning (2020): the debiased loss with
        one positive for the estimate, M = 1, and their lower bound ``e^(-1/τ)``.
    """

    beta: Scalar = field(default=0.0, init=False)
    weight_gradient: bool = field(default=True, init=False)


def debias(log_mean: Tensor, own: Tensor, tau_plus: Number, floor: Number) -> Tensor:
    """``log max((e^log_mean - τ⁺ e^own) / (1 - τ⁺), e^floor)``; no gradient at the floor."""
    if is_zero(tau_plus):
        return log_mean
    share = own + log(tau_plus) - log_mean
    # Where the log of 1 - e^share is undefined, its gradient would be NaN: compute it at -1 there.
    rest = (-torch.expm1(share.masked_fill(share >= 0, -1))).log()
    debiased = log_mean + rest - log(1 - tau_plus)
    return torch.where((share < 0) & (debiased > floor), debiased, floor)


class _Counts:
    """Counts the entries of blocks; views share masks, and each mask is summed once."""

    def __init__(self) -> None:
        self._known: list[tuple[Tensor, Tensor]] = []

    def __call__(self, blocks: Blocks) -> Tensor:
        """(n,) the number of entries that count, in the dtype of the inner products."""
        sims = blocks[0][0]
        number = reduce(torch.add, (self._of(keep) for _, keep in blocks))
        return number.to(sims.dtype).expand(len(sims))

    def _of(self, keep: Tensor) -> Tensor:
        for mask, number in self._known:
            if mask is keep:
                return number
        self._known.append((keep, keep.sum(1)))
        return self._known[-1][1]
