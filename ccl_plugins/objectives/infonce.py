"""InfoNCE, one positive against the other samples of the batch and the queue, and its relatives.

NT-Xent and CMC compare other pairs of views; WeaklySup-, Fair- and HardNeg-InfoNCE, the baselines
of CCL-K, have other positives or negatives.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import checked, positive, whole, word
from ccl_plugins.numerics.logsumexp import EMPTY, logsumexp, masked, softplus
from ccl_plugins.numerics.numbers import Number
from ccl_plugins.numerics.streaming import queue_logsumexp
from ccl_plugins.objectives.base import ContrastiveObjective, stack_rows
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.objectives.supcon import log_share
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False)
class InfoNCE(ContrastiveObjective):
    r"""InfoNCE: tell another view of the same sample from the other samples.

    ``-log( e_ii / Σ_j e_ij )``.  Positive: the own sample's other view.  Negatives: the other samples'
    keys of that view, of the anchor's own view too if ``within_view``, and the queue; all of equal
    weight. Anchors without negatives get weight 0. With ``within_view`` the loss is NT-Xent,
    SimCLR's loss.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + \sum_{j \in \mathcal{N}_i} e^{s_{ij}}}
        \mathcal{N}_i = \{ j : j \neq i \}

    Defaults:
        temperature: Code: 0.07 to 0.5. Here: that of the conditional objectives, with which it is
            compared.

    Source:
        van den Oord et al., Representation Learning with Contrastive Predictive Coding (2018).  Tsai
        et al., Conditional Contrastive Learning with Kernel (2022), eq. (1) is ``symmetric=False``;
        their code computes ``within_view=True``.
    """

    streams_queue: ClassVar[bool] = True
    """Whether the queue is added block by block to ``values`` of the batch; else ``values`` reads it."""
    in_parts = True

    temperature: Scalar = ScalarAttribute(positive, default=0.1, learnable=True)
    _: KW_ONLY
    within_view: bool = False
    symmetric: bool = True

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Minus the log-probability of the positive, per pair of views."""
        where, cross = self.where(pairs), self.compared(pairs)
        queue = pairs.queue if self.streams_queue and pairs.draws is None else None
        batch = pairs if queue is None else replace(pairs, queue=None)
        rows = [self.values(batch, i, j, where) for i, j in cross]
        if queue is None:
            return stack_rows(rows)
        counted, views = pairs.in_queue(where), sorted({i for i, _ in cross})
        if pairs.negative is not None:
            counted = counted & pairs.in_queue(pairs.negative)
        has_negatives = counted.any(1)
        queries = torch.stack([pairs.anchors[i] for i in views]) / self.temperature
        (sums,) = queue_logsumexp(
            queries, queue.of_views(views), lambda columns: counted[:, columns]
        )
        queued = dict(zip(views, sums, strict=True))
        joined = []
        for (i, j), (values, weights) in zip(cross, rows, strict=True):
            negatives = queued[i] - pairs.own_sim(i, j) / self.temperature
            # log(1 + Σ_batch e_ij / e_ii + Σ_queue e_ij / e_ii)
            joined.append(
                (torch.logaddexp(values, negatives), torch.where(has_negatives, 1, weights))
            )
        return stack_rows(joined)

    def compared(self, pairs: Pairs) -> list[tuple[int, int]]:
        """Anchor and key positions of the views that are compared."""
        return list(pairs.cross(self.symmetric))

    def where(self, pairs: Pairs) -> Tensor | None:
        """(n, m + q) True at the other samples that the condition selects; None: all."""
        return None

    def values(self, pairs: Pairs, i: int, j: int, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """(n,) values and weights of one pair of views; ``where`` selects the negatives."""
        log_sum, number = negatives(pairs, i, j, self.temperature, self.within_view, where)
        # Minus the own score itself: the diagonal of a product is another number, by rounding.
        own = pairs.own_sim(i, j) / self.temperature
        values = softplus(log_sum - own)  # log(1 + Σ_j e_ij / e_ii)
        if isinstance(number, int):
            return values, torch.full_like(values, number > 0)
        return values, (number > 0).to(values.dtype).expand_as(values)


def negatives(
    pairs: Pairs,
    i: int,
    j: int,
    temperature: Number,
    within_view: bool = False,
    where: Tensor | None = None,
) -> tuple[Tensor, Tensor | int]:
    """(n,) log-sum-exp of the scores of the negatives, and how many there are, a number or (n,).

    The arguments are those of `Pairs.negatives`.
    """
    own_view = pairs.within(i) if within_view else None
    blocks: list[tuple[Tensor, Tensor | None, int | None]]
    if where is None and pairs.queue is None and pairs.without_masks:  # the diagonals need no mask
        views = [j] if own_view is None else [own_view, j]
        blocks = [(pairs.sim(i, view), None, pairs.offset) for view in views]
        number: Tensor | int = len(views) * (pairs.keys.shape[1] - 1)
    else:
        contrast = pairs.contrast(i, j, within_view, where)
        number = sum(s.shape[1] if keep is None else keep.sum(1) for s, keep in contrast) - 1
        first, *more = contrast
        blocks = [(*block, None) for block in more]
        if pairs.draws is None:  # else the first block holds the own keys alone
            blocks.append((*first, pairs.offset))
    if isinstance(temperature, Tensor):
        scale, blocks = 1.0, [(sims / temperature, keep, out) for sims, keep, out in blocks]
    else:
        scale = 1 / temperature
    sums = [logsumexp(sims, keep, scale, leave_out) for sims, keep, leave_out in blocks]
    return (sums[0] if len(sums) == 1 else torch.stack(sums).logsumexp(0)), number


@dataclass(eq=False, repr=False, kw_only=True)
class NTXent(InfoNCE):
    r"""NT-Xent, SimCLR's loss: InfoNCE with negatives of both views.

    ``-log( e_ii / Σ_j e_ij )``.  Positive: the own sample's other view.  Negatives: the other samples'
    keys of both views, and the queue; all of equal weight.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + \sum_{j \in \mathcal{N}_i} e^{s_{ij}}}
        \mathcal{N}_i = \{ \text{the keys of both views of the samples } j \neq i \}

    Defaults:
        temperature: Paper: 0.1 on ImageNet; 0.5 on CIFAR-10.

    Source:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations (2020),
        eq. (1).
    """

    within_view: bool = field(default=True, init=False)
    symmetric: bool = field(default=True, init=False)


@dataclass(eq=False, repr=False)
class CMC(InfoNCE):
    r"""Contrastive multiview coding: InfoNCE between every two views, in both directions (CMC).

    ``Σ_{v ≠ w} -log( e_ii / Σ_j e_ij )``.  Positive: the own sample's other view.  Negatives: the other
    samples' keys of that view, and the queue; all of equal weight.  A view may be anything embedded in
    the same space: another augmentation, another modality, an encoder of attributes.

    Equation:
        \sum_{v \neq w} \operatorname{mean}_i -\log \frac{e^{s_{ii}^{vw}}}{\sum_j e^{s_{ij}^{vw}}}

    Args:
        graph: The views that are compared: ``"full"``: every two views; ``"core"``: the first with
            each other view.
        reduction: ``"sum"`` over the ordered pairs of views, or their ``"mean"``.

    Defaults:
        temperature: Paper: 0.07. Code: 0.07.

    Source:
        Tian et al., Contrastive Multiview Coding (2020), eqs. (7) and (8).
    """

    temperature: Scalar = ScalarAttribute(positive, default=0.07, learnable=True)
    _: KW_ONLY
    within_view: bool = field(default=False, init=False)
    symmetric: bool = field(default=True, init=False)
    graph: Literal["full", "core"] = word("full", "core")
    reduction: Literal["sum", "mean"] = word("sum", "mean")

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Minus the log-probability of the own key, per ordered pair of views."""
        values, weights = super().terms(pairs)
        return values * len(values) if self.reduction == "sum" else values, weights

    def compared(self, pairs: Pairs) -> list[tuple[int, int]]:
        """Every two views, or the first with each other view."""
        first, cross = min(pairs.anchor_views + pairs.key_views), super().compared(pairs)
        if self.graph == "full":
            return cross
        return [(i, j) for i, j in cross if first in (pairs.anchor_views[i], pairs.key_views[j])]


@dataclass(eq=False, repr=False, kw_only=True)
class FairInfoNCE(InfoNCE):
    r"""InfoNCE with negatives of the anchor's sensitive class: the baseline of Fair-CCLK.

    ``-log( e_ii / (e_ii + Σ_{j in N} e_ij) )``.  Positive: the own sample's other view.  Negatives: the
    other samples N of the anchor's class: their keys of that view, of the anchor's own view too if
    ``within_view``, and the queue; all of equal weight.  Anchors alone in their class get weight 0.

    If pairs have ``draws``, eq. (4) is computed as printed: the negatives are the drawn keys.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + \sum_{j \in \mathcal{N}_i} e^{s_{ij}}}
        \mathcal{N}_i = \{ j \neq i : z_j = z_i \}

    Shape:
        (b, d), (b, d), condition (b,) of class ids -> ()

    Defaults:
        temperature: Here: that of ``fair_cclk``, with which it is compared.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (4).  A continuous
        sensitive variable is clustered first (their Appendix D).
    """

    value_types = ("categorical",)
    hides = True

    on: str = "condition"

    def where(self, pairs: Pairs) -> Tensor | None:
        """The other samples of the anchor's class; None: negatives that a user or a sampler chose."""
        chosen = pairs.draws is not None or pairs.positive is not None
        return None if chosen else pairs.same_class(self.on)


@dataclass(eq=False, repr=False, kw_only=True)
class HardNegInfoNCE(InfoNCE):
    r"""InfoNCE with the negatives nearest to the anchor: the baseline of HardNeg-CCLK.

    ``-log( e_ii / (e_ii + Σ_{j in N} e_ij) )``.  Positive: the own sample's other view.  Negatives: of
    the other samples' keys of that view, of the anchor's own view too if ``within_view``, and the
    queue, the ``nearest`` keys N; all of equal weight.  Anchors without negatives get weight 0.

    If pairs have ``draws``, eq. (5) is computed as printed: the negatives are the drawn keys.  For
    negatives of the anchor's cluster, use `FairInfoNCE` on clusters of the embedding.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + \sum_{j \in \mathcal{N}_i} e^{s_{ij}}}
        \mathcal{N}_i = \text{the } \mathtt{nearest} \text{ keys } j \neq i \text{ with the largest } s_{ij}

    Args:
        nearest: The number of negatives of an anchor, 1 or more; all if there are fewer.

    Defaults:
        temperature: Here: that of the other conditional objectives.
        nearest: Here: the paper does not say how negatives are sampled.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (5), which does not
        say how keys near the anchor are drawn.
    """

    streams_queue = False

    nearest: int = checked(whole, least=1, default=16)

    def values(self, pairs: Pairs, i: int, j: int, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """(n,) values and weights of one pair of views; ``where`` selects the negatives."""
        if pairs.draws is not None:
            return super().values(pairs, i, j, where)
        sims = torch.cat([masked(*b) for b in pairs.negatives(i, j, self.within_view, where)], 1)
        hardest = sims.topk(min(self.nearest, sims.shape[1])).values
        own = pairs.own_sim(i, j) / self.temperature
        has_negatives = (hardest[:, 0] > EMPTY / 2).to(own.dtype)
        log_sum = logsumexp(hardest / self.temperature)
        return softplus(log_sum - own), has_negatives  # log(1 + Σ_j e_ij / e_ii)


@dataclass(eq=False, repr=False, kw_only=True)
class WeaklySupInfoNCE(InfoNCE):
    r"""InfoNCE with positives of the anchor's auxiliary class: the baseline of WeaklySup-CCLK.

    ``-(1 / |P|) Σ_{p in P} log( e_ip / Σ_j e_ij )``.  Positives: the own sample's other view, and that
    view of the other samples of the anchor's class, of batch and queue; of equal weight, averaged
    outside the log.  Negatives: all samples of that view and the queue, whatever their class.

    If pairs have ``draws``, eq. (3) is computed as printed: the positive is the own key, which in
    batches of partners is the partner's, and the negatives are the drawn keys.

    Equation:
        \ell_i = -\frac{1}{|\mathcal{P}_i|} \sum_{p \in \mathcal{P}_i} \log \frac{e^{s_{ip}}}{\sum_j
            e^{s_{ij}}}
        \mathcal{P}_i = \{ p : z_p = z_i \}

    Shape:
        (b, d), (b, d), condition (b,) of class ids -> ()

    Defaults:
        temperature: Code: 0.1 and 0.2 in scripts of Cl-InfoNCE.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (3).
    """

    value_types = ("categorical",)
    streams_queue = False

    within_view: bool = field(default=False, init=False)
    on: str = "condition"

    def where(self, pairs: Pairs) -> Tensor | None:
        """The other samples of the anchor's class; None: negatives that a sampler chose."""
        return None if pairs.draws is not None else pairs.same_class(self.on)

    def values(self, pairs: Pairs, i: int, j: int, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """(n,) values and weights of one pair of views; ``where`` selects the positives."""
        if where is None:
            return super().values(pairs, i, j, None)
        own, m, compared = pairs.own(), pairs.keys.shape[1], pairs.contrasted(where)
        blocks = [(pairs.sim(i, j), compared[:, :m] | own, where[:, :m] | own)]
        if pairs.queue is not None:
            blocks.append((pairs.sim_queue(i), compared[:, m:], where[:, m:]))
        return log_share(blocks, self.temperature)
