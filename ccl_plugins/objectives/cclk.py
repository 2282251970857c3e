"""CCL-K, conditional contrastive learning with kernels: a base class and its three objectives.

``c_i = Σ_j W_ji exp(s_ij)`` is the conditional expectation of eq. (6), with the conditional operator W.
The objectives differ in whether ``c_i`` replaces the positives or the negatives. The equations with
weights below 0, and the released code, are in `ccl_plugins.objectives.cclk_forms`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import checked, positive, whole, word, zero_or_seen
from ccl_plugins.numerics.conditional_operator import Columns, conditional_columns
from ccl_plugins.numerics.gram import ExactFeatures, Statistic
from ccl_plugins.numerics.kernel_functions import is_positive_definite
from ccl_plugins.numerics.logsumexp import EMPTY, log_weights, logsumexp, softplus
from ccl_plugins.numerics.streaming import Weigh, queue_logsumexp
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.objectives.cclk_forms import (
    LOG_RANGE,
    Forms,
    fair_as_printed,
    fair_as_released,
    other_samples,
    released_operator,
    weaklysup_as_printed,
    weaklysup_as_released,
)
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute, Scheduled, lowest
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import VALUE_TYPES, Kernel


@dataclass(eq=False, repr=False)
class CCLK(ContrastiveObjective, ABC):
    """The settings of CCL-K's objectives, and the conditional expectation.

    Args:
        kernel: A positive definite similarity of values of the condition ``on``, or of the
            conditions that the kernel itself names.
        ridge: λ of the conditional operator: 0, or at least 1e-12.
        negative_weights: ``"clip"``: weights below 0 count as 0, so that the loss is always defined;
            ``"keep"``: the literal equation, which is an error where it takes the log of a negative
            number.
        form: ``"paper"``, or ``"released"``, which computes what the authors' code does (see
            `ccl_plugins.objectives.cclk_forms`) and is meaningless at a temperature below 0.022.
        landmarks: The number of samples that approximate the operator of a large batch or queue
            (see `ccl_plugins.numerics.conditional_operator`). None: the exact operator, which needs
            a matrix of all samples for a kernel without features, such as ``rbf``, even with
            ``anchors_at_once``.

    Warns:
        UserWarning: For ``form="released"`` with a temperature below 0.022.

    Raises:
        TypeError: For a kernel that does not declare ``positive_definite``, or a number of landmarks
            that is not whole.
        ValueError: For a value out of range, or a kernel that is not positive definite.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"kernel": "rbf"}
    value_types = VALUE_TYPES
    in_parts = True
    forms: ClassVar[Forms]
    """The equation with weights below 0, and the one that the authors' code computes."""

    kernel: Kernel
    temperature: Scalar = ScalarAttribute(positive, default=0.1, learnable=True)
    _: KW_ONLY
    ridge: Scalar = ScalarAttribute(zero_or_seen, default=0.01)
    symmetric: bool = True
    negative_weights: Literal["clip", "keep"] = word("clip", "keep")
    form: Literal["paper", "released"] = word("paper", "released")
    landmarks: int | None = checked(whole, least=1, default=None)
    on: str = "condition"

    def __post_init__(self) -> None:
        """Refuse a kernel that is not positive definite, and settings that have no meaning together."""
        super().__post_init__()
        name = type(self).__name__
        if not is_positive_definite(self.kernel, name):
            raise ValueError(
                f"{name} needs a positive definite kernel, and {type(self.kernel).__name__} is not: use"
                " rbf, laplacian, linear, cosine or polynomial"
            )
        if isinstance(self._ridge, Scheduled) and lowest(self, "ridge") == 0:
            raise ValueError(
                f"ridge must be at least 1e-12 if it changes over training, not {self._ridge}: "
                "ridge 0 has another equation, which needs the inverse of the kernel matrix"
            )
        if self.form == "released" and self.negative_weights == "keep":
            raise ValueError(
                'form="released" drops negative weights: negative_weights="keep" is for form="paper"'
            )
        if self.form == "released" and self.landmarks is not None:
            raise ValueError(f'landmarks={self.landmarks!r} is for form="paper", not "released"')
        if self.form == "released" and lowest(self, "temperature") < 1 / LOG_RANGE[1]:
            warnings.warn(
                f'{name} with form="released" clamps sums of exponentials at 1e20, and scores'
                f" reach this at a temperature below 0.022: temperature={self._temperature} makes the loss"
                ' meaningless; use a higher one, or form="paper"',
                stacklevel=3,
            )
        if self.form == "released":
            self.within_view = True  # the authors' code sums over both views
        self.refuse_on()

    @property
    def gram_name(self) -> str:
        """The name of this objective's Gram matrix in ``pairs.queue.grams``, unique in a run."""
        return f"{self.on}/gram/{self.place}"

    def statistics(self) -> dict[str, Statistic]:
        """The kernel's features, under the name of their Gram matrix in ``pairs.queue.grams``.

        If a queue keeps that matrix (see `ccl_plugins.numerics.gram`), the operator is solved without
        reading the whole queue. Class ids do not need the matrix.
        """
        if self.form == "released" or getattr(self.kernel, "features", None) is None:
            return {}
        return {self.gram_name: Statistic(self.on, ExactFeatures(self.kernel))}

    @abstractmethod
    def eligible(self, pairs: Pairs) -> Tensor | None:
        """(n, m + q) True at the other samples that may have a weight; None: all."""

    @abstractmethod
    def values(
        self, pairs: Pairs, i: int, j: int, logs: Tensor, queued: tuple[Tensor, ...] | None
    ) -> Tensor:
        """(n,) values of one pair of views, from what `log_weights` returns for the anchors' view."""

    def further_weights(self, pairs: Pairs) -> list[Weigh]:
        """Further weights of the queue, whose log-sums `values` reads in addition to the operator's."""
        return []

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views; the operator is solved once for all of them."""
        self.refuse_draws(pairs)
        views = sorted({i for i, _ in pairs.cross(self.symmetric)})
        per_view = pairs.samples.condition[self.on].ndim == 3
        values = []
        for shared in [[i] for i in views] if per_view else [views]:
            cross = [(i, j) for i, j in pairs.cross(self.symmetric) if i in shared]
            if self.form == "released" or self.negative_weights == "keep":
                form = self.forms.released if self.form == "released" else self.forms.printed
                weights = self.weights(pairs, shared[0])
                values += [form(pairs, i, j, weights, self.temperature) for i, j in cross]
                continue
            logs, queued = self.log_weights(pairs, shared)
            values += [self.values(pairs, i, j, logs, queued.get(i)) for i, j in cross]
        stacked = torch.stack(values)
        return stacked, torch.ones_like(stacked)

    def weights(self, pairs: Pairs, i: int) -> Tensor:
        """(n, m + q) rows of the conditional operator, over the samples of batch and queue."""
        with torch.no_grad():
            weights = self.operator(pairs, i)(slice(None))
        # Rows of 0 have no logarithm, and NaN would reach gradients.
        if pairs.samples.missing is not None:
            own = functional.pad(pairs.own(), (0, weights.shape[1] - pairs.keys.shape[1]))
            weights = torch.where(pairs.samples.missing[pairs.rows, None], own.to(weights), weights)
        eligible = self.eligible(pairs)
        if eligible is None:
            return weights
        own = pairs.own()
        own = functional.pad(own, (0, weights.shape[1] - own.shape[1]))
        return weights.masked_fill(~(eligible | own), 0)

    def solved(self, pairs: Pairs) -> Pairs:
        """Pairs with the operator of all anchors, before the anchors are split into parts."""
        read = self.joined(pairs.without_missing(self.conditions))
        views = {i for i, _ in pairs.cross(self.symmetric)}
        if read.samples.condition[self.on].ndim != 3:
            views = {min(views)}
        with torch.no_grad():
            return replace(pairs, operators={i: self.operator(read, i) for i in views})

    def operator(self, pairs: Pairs, i: int) -> Columns:
        """Columns of the conditional operator, by the condition in anchor view ``i``."""
        if i in pairs.operators:
            return pairs.operators[i]
        if self.form == "released":
            z = pairs.everyone(self.on, i)
            weights = released_operator(self.kernel, z, self.ridge, pairs.rows, pairs.valid())
            weights = weights.to(pairs.anchors.dtype)
            return lambda block, among=slice(None): weights[among, block]
        # The queue's Gram matrix leaves out samples without what the kernel reads, and no others.
        read = self.read_by_kernel
        queue = pairs.queue
        other = any(name in pairs.samples.ignored for name in self.conditions if name not in read)
        return conditional_columns(
            self.kernel,
            pairs.samples.condition_of(self.on, i),
            self.ridge,
            pairs.rows,
            pairs.valid(),
            queue=None if queue is None else queue.condition[self.on],
            landmarks=self.landmarks,
            dtype=pairs.anchors.dtype,
            gram=None if other or queue is None else queue.grams.get(self.gram_name),
        )

    def log_weights(
        self, pairs: Pairs, views: list[int]
    ) -> tuple[Tensor, dict[int, tuple[Tensor, ...]]]:
        """(n, m) logarithms of the batch's weights, and each view's log-sums (n,) over the queue."""
        m, eligible = pairs.keys.shape[1], self.eligible(pairs)
        with torch.no_grad():
            operator = self.operator(pairs, views[0])
            logs = log_weights(operator(slice(0, m)))
            if eligible is not None:
                logs.masked_fill_(~(eligible[:, :m] | pairs.own()), EMPTY)
        if pairs.queue is None:
            return logs, {}
        counted = pairs.in_queue(eligible)

        def weigh(block: slice) -> Tensor:
            weights = operator(slice(m + block.start, m + block.stop))
            return log_weights(weights).masked_fill_(~counted[:, block], EMPTY)

        queries = torch.stack([pairs.anchors[i] for i in views]) / self.temperature
        sums = queue_logsumexp(
            queries, pairs.queue.of_views(views), weigh, *self.further_weights(pairs)
        )
        return logs, dict(zip(views, zip(*sums, strict=True), strict=True))

    def log_expectation(
        self, pairs: Pairs, i: int, j: int, logs: Tensor, queued: tuple[Tensor, ...] | None
    ) -> Tensor:
        """(n,) ``log c_i = log Σ_j W_ji exp(s_ij)`` over the positive weights of batch and queue."""
        products, scale = self.scaled(pairs.sim(i, j))
        if self.eligible(pairs) is None and products.stride() == logs.mT.stride():
            logs = logs.mT  # the operator is symmetric, and this layout is faster
        total = logsumexp(products, logs, scale)
        return total if queued is None else torch.logaddexp(total, queued[0])

    def scaled(self, products: Tensor) -> tuple[Tensor, float]:
        """Inner products and a factor, whose product is the scores; a τ with gradient is in the first."""
        if isinstance(self.temperature, Tensor):
            return products / self.temperature, 1.0
        return products, 1 / self.temperature

    def undefined_hint(self) -> str:
        """The setting to change if ``ridge=0`` or weights below 0 made the loss undefined."""
        if self.ridge == 0:
            return ": the kernel matrix is singular, and ridge is 0; use a ridge above 0"
        if self.negative_weights == "keep":
            return ': the log of a number not above 0; negative_weights="clip" is always defined'
        return ""


class FairCCLK(CCLK):
    r"""Weigh negatives by similarity of the condition, to hide a sensitive variable (Fair-CCLK).

    ``-log( e_ii / (e_ii + (b - 1) c_i) )``.  Positive: the own other view.  Negatives: the samples
    weighted by the conditional operator. So an anchor is compared only with samples of similar
    condition, and the condition cannot tell them apart.

    ``form="released"`` leaves the own key out of ``c_i``, drops weights below 1e-6 and takes negatives
    of the anchor's own view too. If the kernel is so narrow that no weight remains (such as the
    authors' settings on colors in 0..255), the released loss is 0 and has no gradient.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + (b - 1) c_i}
        c_i = \sum_j W_{ji} e^{s_{ij}}, \quad W = (K + \lambda I)^{-1} K, \quad K_{ij} = k(z_i, z_j)

    Shape:
        (b, d), (b, d), condition (b,) or (b, c) -> ()

    Defaults:
        temperature: Code: 0.5; 0.1 (README).
        ridge: Code: 0.01.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (8), which is
        ``symmetric=False, negative_weights="keep"``.
    """

    hides = True
    forms = Forms(fair_as_printed, fair_as_released)

    def eligible(self, pairs: Pairs) -> Tensor | None:
        """The negatives that a user gave."""
        return pairs.negative

    def values(
        self, pairs: Pairs, i: int, j: int, logs: Tensor, queued: tuple[Tensor, ...] | None
    ) -> Tensor:
        """(n,) ``-log( e_ii / (e_ii + (b - 1) c_i) )``."""
        own = pairs.own_sim(i, j) / self.temperature
        log_c = self.log_expectation(pairs, i, j, logs, queued)
        log_others = other_samples(pairs).log()
        return softplus(log_c + log_others - own)  # log(1 + (b - 1) c_i / e_ii)


class HardNegCCLK(FairCCLK):
    r"""Weigh negatives by similarity of the embedding: hard negatives by a kernel (HardNeg-CCLK).

    ``-log( e_ii / (e_ii + (b - 1) c_i) )``.  Positive: the own other view.  Negatives: the samples
    weighted by the conditional operator, most of all those near the anchor. The equation is
    Fair-CCLK's with z = g(x), the anchor's embedding: take the condition ``embedding``.

    ``form="released"`` differs as in `FairCCLK`.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + (b - 1) c_i}
        c_i = \sum_j W_{ji} e^{s_{ij}}, \quad W = (K + \lambda I)^{-1} K, \quad K_{ij} = k(x_i, x_j)

    Shape:
        (b, d), (b, d), condition (b, c) or one (b, c) per view -> ()

    Defaults:
        temperature: Code: 0.5. Here: that of the other conditional objectives, so that a change of
            objective changes nothing else.
        ridge: Code: 0.01; 100 with a scale of 500 (README).

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (9), which is
        ``symmetric=False, negative_weights="keep"``.
    """


class WeaklySupCCLK(CCLK):
    r"""Weigh positives by similarity of an auxiliary condition, to learn from it (WeaklySup-CCLK).

    ``-log( c_i / (c_i + Σ_{j≠i} e_ij) )``.  Positives: the samples weighted by the conditional
    operator, the own other view among them. Negatives: the other samples, of equal weight. Anchors
    with zero similarity to every sample and to themselves (a row of zeros under a cosine kernel)
    get weight 0.

    Equation:
        \ell_i = -\log \frac{c_i}{c_i + \sum_{j \neq i} e^{s_{ij}}}
        c_i = \sum_j W_{ji} e^{s_{ij}}, \quad W = (K + \lambda I)^{-1} K, \quad K_{ij} = k(z_i, z_j)

    Warning:
        ``form="released"`` repels a sample's own views from each other: the own key is not a
        positive but a negative. It also drops weights below 1e-6, and takes other samples of the
        anchor's own view as positives and negatives. If no weight remains, all samples are
        repelled.

    Shape:
        (b, d), (b, d), condition (b,) or (b, c) -> ()

    Defaults:
        temperature: Code: 0.5. Here: that of the other conditional objectives.
        ridge: Code: 0.01.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (7), which is
        ``symmetric=False, negative_weights="keep"``.
    """

    forms = Forms(weaklysup_as_printed, weaklysup_as_released)

    def eligible(self, pairs: Pairs) -> Tensor | None:
        """The positives that a user gave."""
        return pairs.positive

    def further_weights(self, pairs: Pairs) -> list[Weigh]:
        """The negatives of the queue."""
        counted = pairs.in_queue(pairs.negative)
        return [lambda block: counted[:, block]]

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views; weight 0 for anchors without positives."""
        values, weights = super().terms(pairs)
        defined = ~(values.detach() > -EMPTY / 2)  # NaN keeps its weight: it must not go unnoticed
        return torch.where(defined, values, 0), weights * defined

    def values(
        self, pairs: Pairs, i: int, j: int, logs: Tensor, queued: tuple[Tensor, ...] | None
    ) -> Tensor:
        """(n,) ``-log( c_i / (c_i + Σ_{j≠i} e_ij) )``."""
        products, scale = self.scaled(pairs.sim(i, j))
        log_negatives = logsumexp(products, pairs.others(pairs.negative), scale)
        if queued is not None:
            log_negatives = torch.logaddexp(log_negatives, queued[1])
        log_c = self.log_expectation(pairs, i, j, logs, queued)
        return softplus(log_negatives - log_c)  # log(1 + Σ_{j≠i} e_ij / c_i)
