"""SCL: only samples of other classes are negatives."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.numerics.logsumexp import softplus
from ccl_plugins.objectives.base import Exclude, stack_rows
from ccl_plugins.objectives.scalars import Scalar
from ccl_plugins.objectives.ucl import UCL, Blocks
from ccl_plugins.pairs.pairs import Pairs


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

    def __init__(
        self,
        temperature: Scalar = 0.5,
        *,
        positives: Literal["one", "all"] = "one",
        average: Literal["pairs", "anchors"] = "pairs",
        o: Scalar | Literal["batch", "negatives"] = "batch",
        within_view: bool = True,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, exclude=exclude, gather_distributed=gather_distributed)
        self.o = o
        self.within_view = within_view
        self.positives = one_of("positives", positives, ("one", "all"))
        self.average = one_of("average", average, ("pairs", "anchors"))
        self.on = on

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views; weight 0 for anchors without negatives."""
        alike = pairs.alike(self.on)
        different = pairs.counted() & ~alike
        rows = []
        for i, j in pairs.cross():
            log_ratio, some = self.contrast(pairs, i, j, different)
            value, number = softplus(log_ratio), torch.ones_like(some)
            if self.positives == "all":
                log_negatives = log_ratio + pairs.own_sim(i, j) / self.temperature
                for sims, keep in self._more_positives(pairs, i, j, alike):
                    each = softplus(log_negatives[:, None] - sims / self.temperature)
                    value = value + (each * keep).sum(1)
                    number = number + keep.sum(1)
            rows.append((value / number, some * number if self.average == "pairs" else some))
        return stack_rows(rows)

    def _more_positives(self, pairs: Pairs, i: int, j: int, alike: Tensor) -> Blocks:
        """The other samples' keys of the anchor's class, in blocks as in `Pairs.negatives`."""
        m = pairs.keys.shape[1]
        blocks = [(pairs.sim(i, j), alike[:, :m])]
        if self.within_view and (k := pairs.within(i)) is not None:
            blocks.append((pairs.sim(i, k), alike[:, :m]))
        if pairs.queue is not None:
            blocks.append((pairs.sim_queue(i), alike[:, m:]))
        return blocks
