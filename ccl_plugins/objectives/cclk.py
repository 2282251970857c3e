"""What the three objectives of CCL-K share: the conditional expectation of a sample's scores.

``c_i = Σ_j W_ji exp(s_ij)`` is the conditional expectation of eq. (6) by the conditional operator; the
objectives differ only in whether it is the numerator or the negatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import non_negative, one_of, positive, whole
from ccl_plugins.numerics.conditional_operator import Columns, conditional_columns
from ccl_plugins.numerics.gram import Statistic, exact_features, gram_name
from ccl_plugins.numerics.logsumexp import EMPTY, log_weights, logsumexp
from ccl_plugins.numerics.streaming import Weigh, queue_logsumexp
from ccl_plugins.objectives.base import ContrastiveObjective, Exclude
from ccl_plugins.objectives.cclk_released import released_operator
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Kernel, ValueType


class CCLK(ContrastiveObjective):
    """The state that the objectives of CCL-K share.

    Args:
        kernel: A positive definite similarity of condition values.
        temperature: τ, above 0.
        ridge: λ of the conditional operator, 0 or more.
        symmetric: Every view as anchor once; else only the earlier of two.
        negative_weights: ``"clip"``: weights below 0 count as 0, so that the loss is always defined;
            ``"keep"``: the literal equation, an error where it takes the log of a negative number.
        form: ``"paper"`` or ``"released"``, what the authors' code computes (see
            `ccl_plugins.objectives.cclk_released`).
        landmarks: How many samples stand for all where the operator is solved approximately (see
            `ccl_plugins.numerics.conditional_operator`), for a large queue; None: exactly.
        on: The name of the condition that is read.
        exclude: Likely false negatives, ``(kernel, threshold)``, as in `ContrastiveObjective`.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Raises:
        TypeError: For a number of landmarks that is not whole.
        ValueError: For a value out of range, or a kernel that is not positive definite.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"kernel": "rbf"}
    temperature = ScalarAttribute(positive, learnable=True)
    ridge = ScalarAttribute(non_negative)

    def __init__(
        self,
        kernel: Kernel,
        temperature: Scalar = 0.1,
        *,
        ridge: Scalar = 0.01,
        symmetric: bool = True,
        negative_weights: Literal["clip", "keep"] = "clip",
        form: Literal["paper", "released"] = "paper",
        landmarks: int | None = None,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(exclude=exclude, gather_distributed=gather_distributed)
        if not kernel.positive_definite:
            raise ValueError(
                f"{type(self).__name__} needs a positive definite kernel, and"
                f" {type(kernel).__name__} is not: use rbf, laplacian, linear, cosine or polynomial"
            )
        self.kernel = kernel
        self.temperature = temperature
        self.ridge = ridge
        self.symmetric = symmetric
        self.negative_weights = one_of("negative_weights", negative_weights, ("clip", "keep"))
        self.form = one_of("form", form, ("paper", "released"))
        if form == "released" and negative_weights == "keep":
            raise ValueError(
                'form="released" drops negative weights: negative_weights="keep" is for form="paper"'
            )
        if form == "released" and landmarks is not None:
            raise ValueError(f'landmarks={landmarks!r} is for form="paper", not "released"')
        self.landmarks = None if landmarks is None else whole("landmarks", landmarks, 1)
        self.on = on
        self.gram_name = gram_name(on, kernel)

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """One condition of any value type."""
        return self.and_excluded({self.on: ("categorical", "multi_label", "continuous")})

    def statistics(self) -> dict[str, Statistic]:
        """Features of condition values, by the name in ``pairs.extras`` of their Gram matrix.

        Where a queue keeps that matrix (see `ccl_plugins.numerics.gram`), the operator is solved without
        going through its conditions.  Class ids have no use for it.
        """
        if self.form == "released" or not hasattr(self.kernel, "features"):
            return {}
        return {self.gram_name: Statistic(self.on, exact_features(self.kernel))}

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views; the operator is solved once for all of them."""
        self.refuse_draws(pairs)
        views = sorted({i for i, _ in pairs.cross(self.symmetric)})
        per_view = pairs.condition[self.on].ndim == 3
        values = []
        for shared in [[i] for i in views] if per_view else [views]:
            cross = [(i, j) for i, j in pairs.cross(self.symmetric) if i in shared]
            if self.form == "released" or self.negative_weights == "keep":
                weights = self.weights(pairs, shared[0])
                values += [self.literal(pairs, i, j, weights) for i, j in cross]
                continue
            logs, queued = self.log_weights(pairs, shared)
            values += [self.values(pairs, i, j, logs, queued.get(i)) for i, j in cross]
        stacked = torch.stack(values)
        return stacked, torch.ones_like(stacked)

    def weights(self, pairs: Pairs, i: int) -> Tensor:
        """(n, m + q) rows of the conditional operator, over the batch's samples and the queue's."""
        if self.form == "released":
            z = pairs.everyone(self.on, i)
            there = pairs.there(pairs.keys.shape[1])
            solved = (self.kernel, z, self.ridge, pairs.rows, there)
            weights = released_operator(*solved, dtype=pairs.anchors.dtype)
        else:
            with torch.no_grad():
                weights = self.operator(pairs, i)(slice(None))
        weighed = self.weighed(pairs)
        if weighed is None:
            return weights
        own = pairs.own()
        own = functional.pad(own, (0, weights.shape[1] - own.shape[1]))
        return weights.masked_fill(~(weighed | own), 0)

    def operator(self, pairs: Pairs, i: int) -> Columns:
        """Columns of the conditional operator, by the condition as anchor view ``i`` has it."""
        queue = None if pairs.queue is None else pairs.queue_condition[self.on]
        return conditional_columns(
            self.kernel,
            pairs.condition_of(self.on, i),
            self.ridge,
            pairs.rows,
            pairs.there(pairs.keys.shape[1]),
            queue=queue,
            landmarks=self.landmarks,
            dtype=pairs.anchors.dtype,
            gram=pairs.extras.get(self.gram_name),
        )

    def log_weights(
        self, pairs: Pairs, views: list[int]
    ) -> tuple[Tensor, dict[int, tuple[Tensor, ...]]]:
        """(n, m) logarithms of the batch's weights, and each view's log-sums (n,) over the queue."""
        m, weighed = pairs.keys.shape[1], self.weighed(pairs)
        with torch.no_grad():
            operator = self.operator(pairs, views[0])
            logs = log_weights(operator(slice(0, m)))
            if weighed is not None:
                logs.masked_fill_(~(weighed[:, :m] | pairs.own()), EMPTY)
        if pairs.queue is None:
            return logs, {}
        counted = pairs.in_queue(weighed)

        def weigh(some: slice) -> Tensor:
            weights = operator(slice(m + some.start, m + some.stop))
            return log_weights(weights).masked_fill_(~counted[:, some], EMPTY)

        queries = torch.stack([pairs.anchors[i] for i in views]) / self.temperature
        sums = queue_logsumexp(queries, pairs.queue, weigh, *self.unweighed(pairs))
        return logs, dict(zip(views, zip(*sums, strict=True), strict=True))

    def weighed(self, pairs: Pairs) -> Tensor | None:
        """(n, m + q) True at the other samples that may have a weight; None: all."""
        raise NotImplementedError(f"{type(self).__name__} must define weighed")

    def unweighed(self, pairs: Pairs) -> list[Weigh]:
        """Which samples of the queue there is a log-sum over beside the weighted one."""
        return []

    def values(
        self, pairs: Pairs, i: int, j: int, logs: Tensor, queued: tuple[Tensor, ...] | None
    ) -> Tensor:
        """(n,) values of one pair of views, from what `log_weights` gives."""
        raise NotImplementedError(f"{type(self).__name__} must define values")

    def literal(self, pairs: Pairs, i: int, j: int, weights: Tensor) -> Tensor:
        """(n,) values of one pair of views as printed or released, from weights (n, m + q)."""
        raise NotImplementedError(f"{type(self).__name__} must define literal")

    def log_expectation(
        self, pairs: Pairs, i: int, j: int, logs: Tensor, queued: tuple[Tensor, ...] | None
    ) -> Tensor:
        """(n,) ``log Σ_j W_ji exp(s_ij)`` over the positive weights of batch and queue."""
        products, scale = self.scaled(pairs.sim(i, j))
        if self.weighed(pairs) is None and products.stride() == logs.mT.stride():
            logs = logs.mT  # the operator is symmetric, so these are all samples' weights as well
        total = logsumexp(products, logs, scale)
        return total if queued is None else torch.logaddexp(total, queued[0])

    def scaled(self, products: Tensor) -> tuple[Tensor, float]:
        """Products, and what they are to be multiplied by: 1 if that may need a gradient."""
        if isinstance(self.temperature, Tensor):
            return products / self.temperature, 1.0
        return products, 1 / self.temperature

    def signed_expectation(
        self, pairs: Pairs, i: int, j: int, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(n,) ``Σ_j W_ji exp(s_ij - shift_i)`` with the signs of the weights, and the shift."""
        scores = pairs.sim(i, j)
        if pairs.queue is not None:
            queue = pairs.sim_queue(i).masked_fill(~pairs.in_queue(), EMPTY)
            scores = torch.cat([scores, queue], 1)
        scores = scores / self.temperature
        shift = scores.detach().amax(1)
        return (weights * (scores - shift[:, None]).exp()).sum(1), shift

    def undefined_hint(self) -> str:
        """Where weights are kept literally, what would define the loss."""
        if self.ridge == 0:
            return ": the kernel matrix is singular, and ridge is 0; use a ridge above 0"
        if self.negative_weights == "keep":
            return ': the log of a number not above 0; negative_weights="clip" is always defined'
        return ""


def log_or_nan(x: Tensor) -> Tensor:
    """``log x``; NaN, in place of minus infinity too, where it is undefined."""
    return torch.where(x > 0, x, torch.nan).log()


def other_candidates(pairs: Pairs) -> Tensor:
    """0-d, how many samples beside the anchor the operator was solved over: b - 1."""
    others = pairs.anchors.new_full((), pairs.keys.shape[1] - 1)
    return others if pairs.queue_valid is None else others + pairs.queue_valid.sum()
