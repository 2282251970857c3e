"""SupCon: all samples of the anchor's class are positives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import positive
from ccl_plugins.numerics.logsumexp import (
    EMPTY,
    in_order_of,
    least_exponent,
    logsumexp_blocks,
    masked,
    softplus,
)
from ccl_plugins.numerics.numbers import Number
from ccl_plugins.numerics.second_derivatives import differentiable_once
from ccl_plugins.objectives.base import ContrastiveObjective, stack_rows
from ccl_plugins.objectives.parameters import word
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False)
class SupCon(ContrastiveObjective):
    r"""Supervised contrastive loss: every sample of the anchor's class is a positive (SupCon).

    ``-(1 / |P|) Σ_{p in P} log( e_p / Σ_a e_a )``.  Positives: the own other views, and all views of
    the other samples of the anchor's class, of batch and queue; of equal weight, averaged outside the
    log (L_out).  Negatives: all other keys.  The denominator has positives and negatives, or the
    negatives and p alone (SINCERE), so that positives do not repel each other.  Anchors without
    positives get weight 0.

    Equation:
        \ell_i = -\frac{1}{|\mathcal{P}_i|} \sum_{p \in \mathcal{P}_i} \log
            \frac{e^{s_{ip}}}{\sum_{a \in \mathcal{A}_i} e^{s_{ia}}}
        \mathcal{P}_i = \{ p \in \mathcal{A}_i : z_p = z_i \}

    Shape:
        (b, d), (b, d), condition (b,) of class ids -> ()

    Args:
        denominator: The keys a of the denominator: ``"all"``; or ``"negatives"``, those of other classes
            and the positive p (SINCERE).

    Defaults:
        temperature: Paper: 0.1. Code: 0.07.

    Source:
        Khosla et al., Supervised Contrastive Learning (2020), eq. (2), without the factor τ / 0.07 of
        their code; Feeney and Hughes, SINCERE: Supervised Information Noise-Contrastive Estimation
        REvisited (2023), for ``denominator="negatives"``, where their code's multi-view form is the same.
    """

    value_types = ("categorical",)
    within_view = True
    in_parts = True

    temperature: Scalar = ScalarAttribute(positive, default=0.1, learnable=True)
    _: KW_ONLY
    denominator: Literal["all", "negatives"] = word("all", "negatives")
    on: str = "condition"

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor, over all views at once."""
        self.refuse_draws(pairs)
        alike = pairs.alike(self.on)
        compared = pairs.contrasted(alike)
        own, m = pairs.own(), pairs.keys.shape[1]
        chosen = self.choose(pairs, alike)
        others = compared[:, :m], chosen[:, :m]
        with_own = others[0] | own, others[1] | own
        rows = []
        for i, number in enumerate(pairs.anchor_views):
            blocks = []
            for j, key_number in enumerate(pairs.key_views):
                masks = others if key_number == number else with_own
                blocks.append((pairs.sim(i, j), *masks))
            if pairs.queue is not None:
                blocks.append((pairs.sim_queue(i), compared[:, m:], chosen[:, m:]))
            rows.append(self.share(blocks))
        return stack_rows(rows)

    @property
    def margin(self) -> Number:
        """What is subtracted from a positive's logit in ``denominator="negatives"``; for subclasses."""
        return 0.0

    def choose(self, pairs: Pairs, alike: Tensor) -> Tensor:
        """The positives among the other samples of the anchor's class (n, m + q): all of them."""
        return alike

    def share(self, blocks: Sequence[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Values and weights (n,) of the anchors of one view.

        Args:
            blocks: Inner products (n, ·), and two masks, True at those that count and at the positives.
        """
        if self.denominator == "negatives":
            return own_share(blocks, self.temperature, self.margin)
        return log_share(blocks, self.temperature)


def log_share(
    blocks: Sequence[tuple[Tensor, Tensor, Tensor]], temperature: Number
) -> tuple[Tensor, Tensor]:
    """(n,) minus the mean log-probability of the positives, and weights: 1 for anchors with positives.

    Blocks are inner products (n, ·), and two masks, True at those that count and at the positives.
    """
    scale = 1.0
    if isinstance(temperature, Tensor):
        blocks = [(sims / temperature, keep, chosen) for sims, keep, chosen in blocks]
    else:
        scale = 1 / temperature
    sims, keep, chosen = zip(*blocks, strict=True)
    has_positives = torch.stack([mask.any(1) for mask in chosen]).any(0)
    values = differentiable_once(_LogShare.apply(scale, len(sims), *sims, *keep, *chosen))  # type: ignore[no-untyped-call]  # torch's
    return torch.where(has_positives, values, 0), has_positives.to(values.dtype)


def own_share(
    blocks: Sequence[tuple[Tensor, Tensor, Tensor]], temperature: Number, margin: Number = 0.0
) -> tuple[Tensor, Tensor]:
    """As ``log_share``, where each positive is compared with itself and the negatives alone.

    Args:
        blocks: As in ``log_share``.
        temperature: τ.
        margin: Subtracted from the positive's logit in the denominator, after division by τ.
    """
    parts = [(sims / temperature, keep, chosen) for sims, keep, chosen in blocks]
    total = logsumexp_blocks([masked(logits, keep & ~chosen) for logits, keep, chosen in parts])
    number = torch.stack([chosen.sum(1) for _, _, chosen in parts]).sum(0)
    sums = []
    for logits, _, chosen in parts:
        mine = in_order_of(logits, chosen)
        gaps = (total[:, None] + margin - logits).masked_fill(~mine, 0)
        sums.append((softplus(gaps) * mine).sum(1))
    mean = torch.stack(sums).sum(0) / number.clamp_min(1)
    has_positives = (number > 0).to(mean.dtype)
    return mean - margin * has_positives, has_positives


class _LogShare(torch.autograd.Function):
    """Log-sum-exp minus the mean of the positives; its gradient takes one matrix per block."""

    @staticmethod
    def forward(ctx: Any, scale: float, k: int, *blocks: Tensor) -> Tensor:
        parts = list(zip(blocks[:k], blocks[k : 2 * k], blocks[2 * k :], strict=True))
        number = torch.stack([chosen.sum(1) for _, _, chosen in parts]).sum(0).clamp_min(1)
        share = 1 / number.to(blocks[0].dtype)
        mean, shares, tops = torch.zeros_like(share), [], []
        for sims, keep, chosen in parts:
            logits = sims * scale
            mean = mean + (logits * in_order_of(sims, chosen)).sum(1) * share
            logits.masked_fill_(in_order_of(sims, ~keep), EMPTY)
            tops.append(logits.amax(1))
            floor = least_exponent(sims.dtype)
            shares.append(logits.sub_(tops[-1][:, None]).clamp_min_(floor).exp_())
        top = torch.stack(tops).amax(0)
        shrink = [(each - top).exp() for each in tops]
        sums = [each.sum(1) * less for each, less in zip(shares, shrink, strict=True)]
        total = torch.stack(sums).sum(0)
        for each, less, (sims, _, chosen) in zip(shares, shrink, parts, strict=True):
            each.mul_((less * scale / total)[:, None])
            each.sub_(in_order_of(sims, chosen) * (share * scale)[:, None])
        ctx.save_for_backward(*shares)
        return total.log() + top - mean

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.saved_tensors
        others = [None] * (2 * len(gradients))
        return None, None, *[each * grad[:, None] for each in gradients], *others
