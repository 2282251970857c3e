"""SCL: the samples of other classes are negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import one_of
from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.hardness import Blocks, HardnessObjective
from ccl_plugins.objectives.scalars import Scalar
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import ValueType


class SCL(HardnessObjective):
    """SCL: contrast with the other classes only.

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view, or, each with a
    term of its own, all keys of the anchor's class.  Negatives: the samples of other classes of both
    views and of the queue, all of equal weight in the mean ``E_q``.  Unlike SupCon's, the terms have
    no other positive in the denominator.  Anchors without a negative are left out.

    More than two views are compared two by two.

    Shape:
        (b, d), (b, d), condition (b,) -> ()

    Args:
        temperature: τ, above 0.
        positives: ``"one"``: the own other view; ``"all"``: every key of the anchor's class.
        average: With all positives, whether every pair counts alike, ``"pairs"``, so that anchors of
            larger classes count more, or every anchor, ``"anchors"``.
        o: What the mean over negatives is multiplied with: ``"batch"``, the number of samples in the
            batch; ``"negatives"``, the number of other samples' keys, of any class; or a number.
        within_view: Whether keys of the anchor's own view are compared with it too.
        on: The name of the condition that is read.
        exclude: Likely false negatives, ``(kernel, threshold)`` or with the name of a condition as
            third: other samples at least that alike are no negatives.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Jiang et al., Supervised Contrastive Learning with Hard Negative Samples (2022), eq. (29) with
        q of eq. (8); eqs. (9), (12) are ``o=1``; their code computes ``o="negatives"``, and trains
        with ``positives="all"``.
    """

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
        super().__init__(
            temperature,
            o=o,
            within_view=within_view,
            exclude=exclude,
            gather_distributed=gather_distributed,
        )
        self.positives = one_of("positives", positives, ("one", "all"))
        self.average = one_of("average", average, ("pairs", "anchors"))
        self.on = on

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """One condition, class ids, beside what ``exclude`` reads."""
        return self.and_excluded({self.on: ("categorical",)})

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views; weight 0 where no negative is left."""
        alike = pairs.alike(self.on)
        different = pairs.counted() & ~alike
        values, weights = [], []
        for i, j in pairs.cross():
            log_negatives, own, some = self.contrast(pairs, i, j, different)
            value, number = functional.softplus(log_negatives - own), torch.ones_like(own)
            if self.positives == "all":
                for sims, keep in self._more_positives(pairs, i, j, alike):
                    each = functional.softplus(log_negatives[:, None] - sims / self.temperature)
                    value = value + (each * keep).sum(1)
                    number = number + keep.sum(1)
            values.append(value / number)
            weights.append(some * number if self.average == "pairs" else some)
        return torch.stack(values), torch.stack(weights)

    def _more_positives(self, pairs: Pairs, i: int, j: int, alike: Tensor) -> Blocks:
        """The keys of the anchor's class beside the own one, where ``negatives`` finds the others."""
        m = pairs.keys.shape[1]
        blocks = [(pairs.sim(i, j), alike[:, :m])]
        if self.within_view and (k := pairs.within(i)) is not None:
            blocks.append((pairs.sim(i, k), alike[:, :m]))
        if pairs.queue is not None:
            blocks.append((pairs.sim_queue(i), alike[:, m:]))
        return blocks
