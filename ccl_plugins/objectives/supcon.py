"""SupCon and Cl-InfoNCE: all samples of the anchor's class, or cluster, are positives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import reduce
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from ccl_plugins.arguments import positive, word
from ccl_plugins.numerics.logsumexp import (
    EMPTY,
    in_order_of,
    least_exponent,
    logsumexp_blocks,
    masked,
    numbers,
    softplus,
)
from ccl_plugins.numerics.numbers import Number
from ccl_plugins.numerics.second_derivatives import differentiable_once
from ccl_plugins.objectives.base import ContrastiveObjective, stack_rows
from ccl_plugins.objectives.scalars import Learned, Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs

Block: TypeAlias = tuple[Tensor, Tensor | None, Tensor]
"""Inner products (n, ·) of anchors and keys, a mask of the compared keys (None: all), and one of
the positives."""


@dataclass(eq=False, repr=False)
class SupCon(ContrastiveObjective):
    r"""Supervised contrastive loss: every sample of the anchor's class is a positive (SupCon).

    ``-(1 / |P|) Σ_{p in P} log( e_p / Σ_a e_a )``.  Positives: the own other views, and all views of
    the other samples of the anchor's class, of batch and queue; of equal weight, averaged outside the
    log (L_out), or inside (L_in): ``-log( (1 / |P|) Σ_{p in P} e_p / Σ_a e_a )``.  Negatives: all other
    keys. The denominator has positives and negatives, or only the negatives and p (SINCERE), so
    that positives do not repel each other. Anchors without positives get weight 0.

    Equation:
        \text{outside:} \quad \ell_i = -\frac{1}{|\mathcal{P}_i|} \sum_{p \in \mathcal{P}_i} \log
            \frac{e^{s_{ip}}}{\sum_{a \in \mathcal{A}_i} e^{s_{ia}}}
        \text{inside:} \quad \ell_i = -\log \frac{1}{|\mathcal{P}_i|} \sum_{p \in \mathcal{P}_i}
            \frac{e^{s_{ip}}}{\sum_{a \in \mathcal{A}_i} e^{s_{ia}}}
        \mathcal{P}_i = \{ p \in \mathcal{A}_i : z_p = z_i \}

    Shape:
        (b, d), (b, d), condition (b,) of class ids -> ()

    Args:
        denominator: The keys a of the denominator: ``"all"``; or ``"negatives"``, those of other classes
            and the positive p (SINCERE).
        summation: Where positives are summed: ``"outside"`` the log (L_out); or ``"inside"`` (L_in),
            where the gradient weighs each positive by its share of all positives.
        contrast_mode: The views that give anchors: ``"all"``; or ``"one"``, the first.  Keys are of all
            views either way.

    Defaults:
        temperature: Paper: 0.1. Code: 0.07.

    Source:
        Khosla et al., Supervised Contrastive Learning (2020), eq. (2), and eq. (3) for
        ``summation="inside"``, without the factor τ / 0.07 of their code, which has ``contrast_mode``;
        solo-learn's supervised SimCLR is eq. (3) without ``1 / |P|``, which changes no gradient.  Feeney
        and Hughes, SINCERE: Supervised Information Noise-Contrastive Estimation REvisited (2023), for
        ``denominator="negatives"``, where their code's multi-view form is the same.
    """

    value_types = ("categorical",)
    within_view = True
    in_parts = True

    temperature: Scalar = ScalarAttribute(positive, default=0.1, learnable=True)
    _: KW_ONLY
    denominator: Literal["all", "negatives"] = word("all", "negatives")
    summation: Literal["outside", "inside"] = word("outside", "inside")
    contrast_mode: Literal["all", "one"] = word("all", "one")
    on: str = "condition"

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor, over all views at once."""
        self.refuse_draws(pairs)
        same_class = pairs.same_class(self.on)
        compared, positives = pairs.contrasted(same_class), self.choose(pairs, same_class)
        own, m = pairs.own(), pairs.keys.shape[1]
        masks = compared[:, :m], positives[:, :m]
        with_own = None if pairs.without_masks else masks[0] | own, masks[1] | own
        inside, first, rows = self.summation == "inside", min(pairs.anchor_views), []
        for i, view in enumerate(pairs.anchor_views):
            if self.contrast_mode == "one" and view != first:
                continue
            blocks = [
                (pairs.sim(i, j), *(masks if key_view == view else with_own))
                for j, key_view in enumerate(pairs.key_views)
            ]
            if pairs.queue is not None:
                blocks.append((pairs.sim_queue(i), compared[:, m:], positives[:, m:]))
            if self.denominator == "negatives":
                rows.append(own_share(blocks, self.temperature, self.margin, inside))
            elif inside:
                rows.append(joint_share(blocks, self.temperature))
            else:
                rows.append(log_share(blocks, self.temperature))
        return stack_rows(rows)

    @property
    def margin(self) -> Number:
        """A margin subtracted from a positive's logit with ``denominator="negatives"``; for subclasses."""
        return 0.0

    def choose(self, pairs: Pairs, same_class: Tensor) -> Tensor:
        """The positives among the other samples of the anchor's class (n, m + q): all of them."""
        return same_class


def log_share(blocks: Sequence[Block], temperature: Number) -> tuple[Tensor, Tensor]:
    """(n,) minus the mean log-probability of the positives, and weights: 1 for anchors with positives.

    With all blocks side by side as ``products, compared, positives``, the function computes::

        logits = products / temperature
        log_sum = masked(logits, compared).logsumexp(1, keepdim=True)
        log_shares = (logits - log_sum) * positives
        values = -log_shares.sum(1) / positives.sum(1)

    These lines need four matrices for each block, and two more for the gradient; the code below
    needs one.
    """
    scale = 1.0
    if isinstance(temperature, Tensor):
        blocks = divided(blocks, temperature)
    else:
        scale = 1 / temperature
    products, compared, positives = zip(*blocks, strict=True)
    values, weights = _LogShare.apply(scale, len(products), *products, *compared, *positives)  # type: ignore[no-untyped-call]  # torch's
    return differentiable_once(values), weights


def joint_share(blocks: Sequence[Block], temperature: Number) -> tuple[Tensor, Tensor]:
    """(n,) minus the log of the positives' mean probability, and weights; see ``log_share``."""
    parts = divided(blocks, temperature)
    log_positives = logsumexp_blocks([masked(logits, mask) for logits, _, mask in parts])
    number = count(parts)
    # -log( Σ_p e_p / Σ_a e_a ) = log(1 + Σ_n e_n / Σ_p e_p), of the negatives n
    values = softplus(log_sum_of_negatives(parts) - log_positives) + log_count(
        number, log_positives
    )
    return torch.where(number > 0, values, 0), (number > 0).to(values.dtype)


def own_share(
    blocks: Sequence[Block], temperature: Number, margin: Number = 0.0, inside: bool = False
) -> tuple[Tensor, Tensor]:
    """``log_share``, where each positive is compared only with itself and the negatives.

    Args:
        blocks: The blocks of ``log_share``.
        temperature: τ.
        margin: Subtracted from the positive's logit in the denominator, after division by τ.
        inside: Whether the positives' probabilities are averaged, inside the log.
    """
    parts = divided(blocks, temperature)
    log_negatives, number = log_sum_of_negatives(parts), count(parts)
    sums = []
    for logits, _, mask in parts:
        positives = in_order_of(logits, mask)
        gaps = (log_negatives[:, None] + margin - logits).masked_fill(~positives, 0)
        # -log( e_p / (e_p + Σ_a e_a) ) = log(1 + Σ_a e_a / e_p)
        values = softplus(gaps)
        sums.append(masked(-values, positives) if inside else (values * positives).sum(1))
    has_positives = number > 0
    if inside:
        mean = log_count(number, log_negatives) - logsumexp_blocks(sums)
        mean = torch.where(has_positives, mean, 0)
    else:
        mean = torch.stack(sums).sum(0) / number.clamp_min(1)
    weights = has_positives.to(mean.dtype)
    return mean - margin * weights, weights


def log_sum_of_negatives(parts: Sequence[Block]) -> Tensor:
    """(n,) log-sum-exp of the compared logits that are not positives."""
    return logsumexp_blocks(
        [
            masked(logits, ~positives if compared is None else compared & ~positives)
            for logits, compared, positives in parts
        ]
    )


def count(parts: Sequence[Block]) -> Tensor:
    """(n,) the numbers of positives."""
    return reduce(torch.add, [positives.sum(1) for _, _, positives in parts])


def log_count(number: Tensor, like: Tensor) -> Tensor:
    """(n,) logarithms of numbers of positives, 0 for none, of the type of ``like``."""
    return number.clamp_min(1).to(like.dtype).log()


def divided(blocks: Sequence[Block], temperature: Number) -> Sequence[Block]:
    """Blocks with logits, products divided by τ, in place of products."""
    return [(products / temperature, compared, chosen) for products, compared, chosen in blocks]


class _LogShare(torch.autograd.Function):
    """Log-sum-exp minus the mean of the positives; its gradient takes one matrix per block."""

    @staticmethod
    def forward(ctx: Any, scale: float, k: int, *tensors: Any) -> tuple[Tensor, Tensor]:
        blocks = list(zip(tensors[:k], tensors[k : 2 * k], tensors[2 * k :], strict=True))
        # Two blocks or more have one mask: its numbers are made once, by mask and memory layout.
        made: dict[Any, Tensor] = {}
        logits, chosen = [], []
        for products, compared, positives in blocks:
            key = id(positives), products.stride()
            if key not in made:
                made[key] = numbers(in_order_of(products, positives), products.dtype)
            chosen.append(made[key])
            if compared is not None:
                # torch.where and masked_fill take longer on a CPU.  Products are of unit vectors, and even
                # one of 1e28 stays far below those that count.
                left_out = numbers(in_order_of(products, ~compared), products.dtype)
                products = torch.add(products, left_out, alpha=EMPTY)
            logits.append(products)
        number = reduce(torch.add, [positives.sum(1) for positives in chosen])
        weights = number.clamp_max(1)
        top = reduce(torch.maximum, [block.amax(1) for block in logits]) * scale
        floor, shares = least_exponent(top.dtype), []
        for block in logits:  # the upper bound is for what rounding leaves of equal numbers
            shares.append(torch.add(-top[:, None], block, alpha=scale).clamp_(floor, 0).exp_())
        total = reduce(torch.add, [part.sum(1) for part in shares])
        factor, scaled = weights * scale / total, scale / number.clamp_min(1)
        of_positives = [
            (block[0] * each).sum(1) for block, each in zip(blocks, chosen, strict=True)
        ]
        for part, positives in zip(shares, chosen, strict=True):
            part.mul_(factor[:, None]).addcmul_(positives, scaled[:, None], value=-1)
        ctx.save_for_backward(*shares)
        ctx.mark_non_differentiable(weights)
        values = total.log() + top - reduce(torch.add, of_positives) * scaled
        return torch.where(weights > 0, values, 0), weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = [slope * grad[:, None] for slope in ctx.saved_tensors]
        return None, None, *gradients, *[None] * (2 * len(gradients))


@dataclass(eq=False, repr=False, kw_only=True)
class ClInfoNCE(SupCon):
    r"""Supervised contrastive loss on clusters: every sample of the cluster is a positive (Cl-InfoNCE).

    ``-(1 / |P|) Σ_{p in P} log( e_p / Σ_a e_a )``.  Positives: the own other views, and all views of
    the other samples of the anchor's cluster, of batch and queue; of equal weight, averaged outside the
    log. Negatives: all other keys; the denominator has positives and negatives. With clusters of
    one image each, the loss is NT-Xent; with labels, SupCon.

    Eq. (1) is an expectation over pairs drawn from one cluster. A batch estimates it by all such
    pairs, in every view, up to the constant log n. If pairs have ``draws``, eq. (1) is computed as
    printed: the own key, which is the partner's, over the mean of the drawn keys.

    Equation:
        \ell_i = -\frac{1}{|\mathcal{P}_i|} \sum_{p \in \mathcal{P}_i} \log
            \frac{e^{s_{ip}}}{\sum_{a \in \mathcal{A}_i} e^{s_{ia}}}
        \mathcal{P}_i = \{ p \in \mathcal{A}_i : z_p = z_i \}

    Shape:
        (b, d), (b, d), condition (b,) of cluster ids -> ()

    Args:
        form: ``"paper"``; or ``"released"``, with a ``base_temperature`` of 0.07.
        base_temperature: The loss is multiplied by τ / base_temperature; None: no factor.

    Defaults:
        temperature: Code: 0.1 and 0.2 in scripts.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), eq. (1).
    """

    denominator: Literal["all"] = field(default="all", init=False)
    summation: Literal["outside"] = field(default="outside", init=False)
    contrast_mode: Literal["all"] = field(default="all", init=False)
    form: Literal["paper", "released"] = word("paper", "released")
    base_temperature: Scalar | None = ScalarAttribute(positive, default=None)

    def __post_init__(self) -> None:
        """Set the released form's ``base_temperature``; refuse one with a learned temperature."""
        super().__post_init__()
        if self.base_temperature is None and self.form == "released":
            self.base_temperature = 0.07
        if self.base_temperature is not None and isinstance(self._temperature, Learned):
            raise ValueError(
                "a learned temperature would fall, because this lowers the factor τ / "
                "base_temperature: give temperature a number or a schedule"
            )

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor, over all views at once; with draws, per pair of views.

        Anchors whose draws are all excluded get weight 0.
        """
        values, weights = super().terms(pairs) if pairs.draws is None else self._printed(pairs)
        if self.base_temperature is not None:
            values = values * (self.temperature / self.base_temperature)
        return values, weights

    def _printed(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        rows = []
        for i, j in pairs.cross():
            blocks = pairs.negatives(i, j, within_view=False)
            logits = [masked(sims / self.temperature, keep) for sims, keep in blocks]
            own, number = pairs.own_sim(i, j) / self.temperature, blocks[0][1].sum(1)
            value = logsumexp_blocks(logits) - number.clamp_min(1).to(own.dtype).log() - own
            rows.append((torch.where(number > 0, value, 0), (number > 0).to(own.dtype)))
        return stack_rows(rows)
