"""The base class of heads that predict a condition, for use as objectives and in guides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins.arguments import WIDEST, checked, positive, whole
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Condition, Sizes, Table

At = Literal["features", "projection"]
Suppress = Literal["reversal", "least_squares", "uniform"]


def reverse_gradient(x: Tensor) -> Tensor:
    """``x``, exactly, with a gradient of the opposite sign."""
    return 2 * x.detach() - x


@dataclass(eq=False, repr=False)
class GuideHead(ContrastiveObjective, ABC):
    """A learned head that predicts a condition from the features or projections of every view.

    Alone it is an objective: encoder and head learn to predict. A guide of ``guided`` uses the head
    to keep a condition or to suppress it. To suppress, the head learns to predict with weight 1,
    and the encoder gets another loss through the head, which that loss does not change.

    A head of your own declares ``value_types`` and defines ``setup``, which makes its parameters,
    ``predict`` and ``errors``. These suffice to keep, and to suppress by a reversed gradient.
    ``unsure`` and ``residuals`` give two further ways, which ``suppressions`` must name;
    ``quality`` and ``hits`` are logged.

    If pairs have partners, only the first view is read, because the other views show images of
    other values.

    Args:
        on: The name of the condition.
    """

    min_views = 1
    reads_queue = False
    reads_features = True
    quality: ClassVar[str] = ""
    """The name under which the quotient of the two sums of `hits` is logged; empty: it is not logged."""
    at: At = field(default="features", init=False)
    """The vectors that are read; a guide sets this."""
    suppress: Suppress | None = field(default=None, init=False)
    """The gradient that the encoder gets: ``"reversal"``, the reversed one; ``"least_squares"``,
    the same through the linear head that is best on the batch; ``"uniform"``, the one that makes
    predictions uniform. None: the encoder learns to predict. A guide sets this."""
    outcome: Tensor = field(init=False)
    """Sums over the last batch: the losses, the two parts of the quality, and the samples."""

    exclude: None = field(default=None, init=False)
    gather_distributed: bool = field(default=False, init=False)
    on: str = "condition"

    def __post_init__(self) -> None:
        """Make room for the outcome."""
        super().__post_init__()
        self.register_buffer("outcome", torch.zeros(4), persistent=False)

    @property
    def suppressions(self) -> Sequence[Suppress]:
        """The ways in which the head can suppress, the default first."""
        return ("reversal",)

    def serve(self, at: At, suppress: Suppress | None) -> None:
        """Take the settings of the guide that holds this head; called once, before ``setup``.

        Args:
            at: The vectors to read.
            suppress: One of ``suppressions``; None: the condition is kept.
        """
        self.at, self.suppress = at, suppress
        self.reads_features = at == "features"

    @abstractmethod
    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Make the parameters, once the condition's table and the sizes of the run are known."""

    @abstractmethod
    def predict(self, x: Tensor, frozen: bool) -> Tensor:
        """(u, n, o) predictions from vectors (u, n, f).

        Args:
            x: Features or projections of the views.
            frozen: Whether the head's own parameters get no gradient.
        """

    @abstractmethod
    def errors(self, predicted: Tensor, z: Tensor) -> Tensor:
        """(u, n) losses of predictions of the values z, (n,), (n, c) or (u, n, c)."""

    def hits(self, predicted: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Two (u, n): the correct part of each prediction, and the whole."""
        raise NotImplementedError(f"{type(self).__name__} has a quality and no hits(predicted, z)")

    def unsure(self, predicted: Tensor, z: Tensor) -> Tensor:
        """(u, n) losses of predictions against a uniform target, of values like z."""
        raise NotImplementedError(f"{type(self).__name__} has no unsure(predicted, z)")

    def residuals(self, pairs: Pairs, x: Tensor, z: Tensor) -> Tensor:
        """(u, n) squared errors of the linear head that is best on the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no residuals(pairs, x, z)")

    def counted(self, z: Tensor) -> Tensor | None:
        """(n,) True at the samples that can be predicted; None: all."""
        return None

    def check_read(self, name: str, condition: Condition) -> None:
        """Refuse a condition without a table: the head's size follows from the table's values."""
        if condition.refresh == "batch":
            raise ValueError(
                f"{self.label} learns a head for the values of a table, but the condition {name!r} "
                "is computed in every step: take a condition with refresh 'never' or 'epoch', or "
                "another objective"
            )

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The loss that the encoder minimizes, per view."""
        x, z = self.vectors(pairs), self.values_of(pairs)
        if self.suppress is None:
            return self._observed(pairs, x, z)
        if self.suppress == "uniform":
            values = self.unsure(self.predict(x, frozen=True), z)
        elif self.suppress == "least_squares":
            values = self.residuals(pairs, reverse_gradient(x), z)
        else:
            values = self.errors(self.predict(reverse_gradient(x), frozen=True), z)
        return values, self._weights(values, z)

    def learning(self, pairs: Pairs) -> Tensor | None:
        """The loss of a head that suppresses, without gradient for the encoder; None: the head keeps."""
        if self.suppress is None:
            return None
        pairs = self._prepared(pairs)
        values, weights = self._observed(pairs, self.vectors(pairs).detach(), self.values_of(pairs))
        return self._mean(pairs, values, _present(pairs, weights))

    def vectors(self, pairs: Pairs) -> Tensor:
        """(u, n, f) the features or projections that are read."""
        x = pairs.anchors if self.at == "projection" else pairs.samples.features
        if x is None:
            raise ValueError(f"{self.label} reads features, and these pairs have none")
        return x if pairs.samples.partner is None else x[:1]

    def values_of(self, pairs: Pairs) -> Tensor:
        """(n,), (n, c) or, where they differ per view, (u, n, c) values of the anchors."""
        z = pairs.samples.condition[self.on]
        return z[:, pairs.rows] if z.ndim == 3 else z[pairs.rows]

    def scalars(self) -> dict[str, Tensor]:
        """Loss and quality of the predictions of the last batch, and the numbers that change."""
        loss, hits, of, samples = self.outcome
        logged = {"loss": loss / samples.clamp_min(1)}
        if self.quality:
            logged[self.quality] = hits / of.clamp_min(1e-12)
        return {**logged, **super().scalars()}

    def _observed(self, pairs: Pairs, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and weights of the head, whose sums over all processes are kept for `scalars`."""
        predicted = self.predict(x, frozen=False)
        values = self.errors(predicted, z)
        weights = self._weights(values, z)
        if torch.is_grad_enabled():
            with torch.no_grad():
                present = _present(pairs, weights)
                none = torch.zeros_like(present)
                hits = self.hits(predicted, z) if self.quality else (none, none)
                observed = values, *hits, torch.ones_like(present)
                sums = torch.stack([(present * x).sum() for x in observed])
                sums = gather(sums[None]).sum(0) if pairs.processes > 1 else sums
                self.outcome.copy_(sums)
                self.collect(pairs, x, z)
        return values, weights

    def collect(self, pairs: Pairs, x: Tensor, z: Tensor) -> None:
        """Collect the batch's part of what `after_step` needs, in buffers that are not saved."""

    def _weights(self, values: Tensor, z: Tensor) -> Tensor:
        counted = self.counted(z)
        return torch.ones_like(values) if counted is None else counted.to(values).expand_as(values)

    def table(self, tables: Mapping[str, Table]) -> Table:
        """The condition's table."""
        if self.on not in tables:
            raise ValueError(
                f"{self.label} needs a table of that condition for its head; the tables are of "
                f"{', '.join(map(repr, tables)) or 'no condition'}, and a condition that is "
                "computed in every step has none"
            )
        return tables[self.on]

    def width(self, sizes: Sizes) -> int:
        """The width of the vectors that are read."""
        return sizes.features if self.at == "features" else sizes.embedding

    def refuse_width(self, x: Tensor, width: int) -> None:
        """Refuse vectors (..., f) of another width than the head was made for."""
        if x.shape[-1] != width:
            raise ValueError(f"{self.label} reads {self.at} of width {width}, not {x.shape[-1]}")

    def refuse_missing(self, made: Tensor | None) -> Tensor:
        """A tensor that ``setup`` makes; ValueError if ``setup`` was not called."""
        if made is None:
            raise ValueError(
                f"{self.label} has no head yet: call setup(tables, sizes) before the optimizer is made"
            )
        return made

    @property
    def label(self) -> str:
        """The head's name for messages."""
        return f"{type(self).__name__} of {self.on!r}"


def _present(pairs: Pairs, weights: Tensor) -> Tensor:
    """Weights (u, n), 0 at samples without a value."""
    missing = pairs.samples.missing
    return weights if missing is None else weights.masked_fill(missing[pairs.rows], 0)


@dataclass(eq=False, repr=False)
class LayeredHead(GuideHead, ABC):
    """A linear layer, or two with a ReLU between them: the base of classification and regression.

    Args:
        hidden: Width of the layer between; None: the head is linear.
        ridge: The ridge of ``suppress = "least_squares"``, in units of the mean variance of a
            feature, above 0; None: 0.1.
    """

    weight: Tensor | None = field(init=False)
    bias: Tensor = field(init=False)
    hidden_weight: Tensor | None = field(init=False)
    hidden_bias: Tensor = field(init=False)

    hidden: int | None = checked(whole, least=1, most=WIDEST, default=None)
    ridge: float | None = checked(positive, default=None)
    on: str = field(default="condition", kw_only=True)

    def __post_init__(self) -> None:
        """Leave room for the parameters that ``setup`` makes."""
        super().__post_init__()
        for name in ("hidden_weight", "hidden_bias", "weight", "bias"):
            self.register_parameter(name, None)

    def serve(self, at: At, suppress: Suppress | None) -> None:
        """Take the settings of the guide; a ridge is only for ``suppress = "least_squares"``."""
        super().serve(at, suppress)
        if self.ridge is not None and suppress != "least_squares":
            raise ValueError(
                f"{self.label} has no ridge without suppress = 'least_squares': leave it out"
            )

    def grow(self, sizes: Sizes, outputs: int) -> None:
        """Draw the layers, unless they exist."""
        if self.weight is not None:
            return
        width = self.width(sizes)
        if self.hidden is not None:
            layer = nn.Linear(width, self.hidden)
            self.hidden_weight, self.hidden_bias = layer.weight, layer.bias
            width = self.hidden
        layer = nn.Linear(width, outputs)
        self.weight, self.bias = layer.weight, layer.bias

    def predict(self, x: Tensor, frozen: bool) -> Tensor:
        """The layers' outputs."""
        weight = self.refuse_missing(self.weight)
        if self.hidden_weight is not None:
            x = self._layer(x, self.hidden_weight, self.hidden_bias, frozen).relu()
        return self._layer(x, weight, self.bias, frozen)

    @abstractmethod
    def targets(self, z: Tensor, predicted: Tensor) -> Tensor:
        """(n, o) or (u, n, o) targets of the predictions (u, n, o), for values z."""

    def residuals(self, pairs: Pairs, x: Tensor, z: Tensor) -> Tensor:
        """Squared errors, the mean over outputs, of the ridge regression on all processes' samples.

        Its coefficients need no gradient: at the optimum the error does not change with them.
        """
        targets = self.targets(z, self.predict(x.detach(), frozen=True))
        center, weight, bias = self._fitted(pairs, x.detach(), targets)
        return ((x - center) @ weight + bias - targets).square().mean(-1)

    @torch.no_grad()
    def _fitted(self, pairs: Pairs, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Center (f,), coefficients (f, o) and intercept (o,) of a ridge regression, in float64."""
        present = torch.ones_like(x[..., :1], dtype=torch.float64)
        if (missing := pairs.samples.missing) is not None:
            present = present.masked_fill(missing[pairs.rows, None], 0)
        rows = torch.cat([x.double(), y.double().expand(*x.shape[:2], -1), present], -1) * present
        both = rows.flatten(0, 1)
        moments = both.T @ both
        if pairs.processes > 1:
            moments = gather(moments[None]).sum(0)
        moments = moments / moments[-1, -1].clamp_min(1)
        f = x.shape[-1]
        means = moments[-1]
        moments = moments - means[:, None] * means
        spread = moments[:f, :f]
        # Features that are all equal have no variance: the coefficients are then 0.
        ridge = (0.1 if self.ridge is None else self.ridge) * spread.diagonal().mean() + 1e-12
        shifted = spread + ridge * torch.eye(f, dtype=spread.dtype, device=spread.device)
        # Without a wait for its check.
        weight = torch.linalg.solve_ex(shifted, moments[:f, f:-1]).result
        return means[:f].to(x.dtype), weight.to(x.dtype), means[f:-1].to(x.dtype)

    def _layer(self, x: Tensor, weight: Tensor, bias: Tensor, frozen: bool) -> Tensor:
        self.refuse_width(x, weight.shape[1])
        if frozen:
            weight, bias = weight.detach(), bias.detach()
        return functional.linear(x, weight, bias)
