"""Heads that predict a condition: what guides by classification, regression and prototypes learn.

A head that suppresses plays against the encoder.  Its own parameters always learn to predict, with weight
1; the encoder gets another loss, through the head as it is (`GuideHead.terms`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins.arguments import below_one, one_of, positive, whole
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.logsumexp import EMPTY
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table

At = Literal["features", "projection"]
Suppress = Literal["reversal", "least_squares", "uniform"]
NO_HEAD = (
    "the guide on {!r} has no head yet: call setup(tables, sizes) before the optimizer is made"
)
WIDTHS = "the guide on {!r} reads {} of width {}, not {}"


def reverse_gradient(x: Tensor) -> Tensor:
    """``x``, exactly, with a gradient of the opposite sign."""
    return 2 * x.detach() - x


class GuideHead(ContrastiveObjective, ABC):
    """A prediction of a condition from features or projections, of every view.

    If pairs have partners, of the first view alone: the others show images of other values.

    Args:
        on: The name of the condition.
        at: The vectors that are read.
        suppress: None: encoder and head learn to predict.  ``"reversal"``: the encoder's gradient is
            reversed.  ``"least_squares"``: the same, through the linear head that is best on the batch.
            ``"uniform"``: the encoder learns to make the head's prediction uniform.
    """

    min_views = 1
    reads_queue = False
    quality: ClassVar[str] = "accuracy"
    """The name of what is logged of the predictions."""
    outcome: Tensor
    """Sums over the last batch: of losses, of the two parts of the quality, and of samples."""

    def __init__(self, on: str, at: At = "features", suppress: Suppress | None = None) -> None:
        super().__init__()
        self.on = on
        self.at = one_of("at", at, ("features", "projection"))
        self.suppress = suppress
        self.reads_features = at == "features"
        self.register_buffer("outcome", torch.zeros(4), persistent=False)

    @abstractmethod
    def predict(self, x: Tensor, frozen: bool) -> Tensor:
        """(u, n, o) predictions; ``frozen``: without a gradient by the head's own parameters."""

    @abstractmethod
    def errors(self, predicted: Tensor, z: Tensor) -> Tensor:
        """(u, n) losses of predictions of the values z, (n,) or (n, c)."""

    @abstractmethod
    def hits(self, predicted: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """(u, n) each, the two parts of the quality."""

    def unsure(self, predicted: Tensor, z: Tensor) -> Tensor:
        """(u, n) losses against a uniform target, of values like z."""
        raise NotImplementedError(f"{type(self).__name__} has no uniform target")

    def residuals(self, pairs: Pairs, x: Tensor, z: Tensor) -> Tensor:
        """(u, n) squared errors of the linear head that is best on the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no least-squares head")

    def counted(self, z: Tensor) -> Tensor | None:
        """(n,) True at the samples that can be predicted; None: all."""
        return None

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """What the encoder minimizes, per view."""
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
        """The loss of a head that suppresses, without a gradient by the encoder; None: it keeps."""
        if self.suppress is None:
            return None
        pairs = self._prepared(pairs)
        values, weights = self._observed(pairs, self.vectors(pairs).detach(), self.values_of(pairs))
        if pairs.missing is not None:
            weights = weights.masked_fill(pairs.missing[pairs.rows], 0)
        return self._mean(pairs, values, weights)

    def vectors(self, pairs: Pairs) -> Tensor:
        """(u, n, f) the features or projections that are read."""
        x = pairs.anchors if self.at == "projection" else pairs.features
        if x is None:
            raise ValueError(f"the guide on {self.on!r} reads features, and these pairs have none")
        return x if pairs.partner is None else x[:1]

    def values_of(self, pairs: Pairs) -> Tensor:
        """(n,), (n, c) or, where they differ per view, (u, n, c) values of the anchors."""
        z = pairs.condition[self.on]
        return z[:, pairs.rows] if z.ndim == 3 else z[pairs.rows]

    def scalars(self) -> dict[str, Tensor]:
        """Loss and quality of the predictions of the last batch, and the numbers that change."""
        loss, part, whole_, count = self.outcome
        quality = part / whole_.clamp_min(1e-12)
        if self.quality == "r2":
            quality = 1 - quality
        return {"loss": loss / count.clamp_min(1), self.quality: quality, **super().scalars()}

    def _observed(self, pairs: Pairs, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and weights of the head, whose sums over all processes are kept for `scalars`."""
        predicted = self.predict(x, frozen=False)
        values = self.errors(predicted, z)
        weights = self._weights(values, z)
        if torch.is_grad_enabled():
            with torch.no_grad():
                known = weights
                if pairs.missing is not None:
                    known = known.masked_fill(pairs.missing[pairs.rows], 0)
                every = values, *self.hits(predicted, z), torch.ones_like(known)
                sums = torch.stack([(known * each).sum() for each in every])
                sums = gather(sums[None]).sum(0) if pairs.processes > 1 else sums
                self.outcome.copy_(sums)
                self.collect(pairs, x, z)
        return values, weights

    def collect(self, pairs: Pairs, x: Tensor, z: Tensor) -> None:
        """Collect what `after_step` needs of a batch, in buffers that are not saved."""

    def _weights(self, values: Tensor, z: Tensor) -> Tensor:
        counted = self.counted(z)
        return torch.ones_like(values) if counted is None else counted.to(values).expand_as(values)

    def table(self, tables: Mapping[str, Table]) -> Table:
        """The condition's table."""
        if self.on not in tables:
            raise ValueError(
                f"the guide on {self.on!r} needs a table of that condition for its head, and there is one"
                f" of {', '.join(map(repr, tables)) or 'none'}; a condition that is computed in every step"
                " has none"
            )
        return tables[self.on]

    def width(self, sizes: Sizes) -> int:
        """The width of the vectors that are read."""
        return sizes.features if self.at == "features" else sizes.embedding


class LayeredHead(GuideHead):
    """A linear layer, or two with a ReLU between them.

    Args:
        hidden: Width of the layer between; None: the head is linear.
        ridge: Of the least-squares head, in units of the mean variance of a feature, above 0.
    """

    weight: Tensor | None
    bias: Tensor
    hidden_weight: Tensor | None
    hidden_bias: Tensor

    def __init__(
        self,
        on: str,
        at: At = "features",
        suppress: Suppress | None = None,
        hidden: int | None = None,
        ridge: float = 0.1,
    ) -> None:
        super().__init__(on, at, suppress)
        self.ridge = positive("ridge", ridge)
        self.hidden = None if hidden is None else whole("hidden", hidden, 1)
        for name in ("hidden_weight", "hidden_bias", "weight", "bias"):
            self.register_parameter(name, None)

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
        if self.weight is None:
            raise ValueError(NO_HEAD.format(self.on))
        if self.hidden_weight is not None:
            x = self._layer(x, self.hidden_weight, self.hidden_bias, frozen).relu()
        return self._layer(x, self.weight, self.bias, frozen)

    @abstractmethod
    def targets(self, z: Tensor, predicted: Tensor) -> Tensor:
        """(n, o) or (u, n, o) what predictions (u, n, o) should be, of values z."""

    def residuals(self, pairs: Pairs, x: Tensor, z: Tensor) -> Tensor:
        """Squared errors, the mean over outputs, of the ridge regression on all processes' samples.

        Its coefficients have no gradient, and need none: the error does not change with them.
        """
        targets = self.targets(z, self.predict(x.detach(), frozen=True))
        center, weight, bias = self._fitted(pairs, x.detach(), targets)
        return ((x - center) @ weight + bias - targets).square().mean(-1)

    @torch.no_grad()
    def _fitted(self, pairs: Pairs, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Center (f,), coefficients (f, o) and intercept (o,) of a ridge regression, in float64."""
        known = torch.ones_like(x[..., :1], dtype=torch.float64)
        if pairs.missing is not None:
            known = known.masked_fill(pairs.missing[pairs.rows, None], 0)
        rows = torch.cat([x.double(), y.double().expand(*x.shape[:2], -1), known], -1) * known
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
        ridge = self.ridge * spread.diagonal().mean() + 1e-12
        shifted = spread + ridge * torch.eye(f, dtype=spread.dtype, device=spread.device)
        weight = torch.linalg.solve_ex(
            shifted, moments[:f, f:-1]
        ).result  # without a wait for its check
        return means[:f].to(x.dtype), weight.to(x.dtype), means[f:-1].to(x.dtype)

    def _layer(self, x: Tensor, weight: Tensor, bias: Tensor, frozen: bool) -> Tensor:
        if x.shape[-1] != weight.shape[1]:
            raise ValueError(WIDTHS.format(self.on, self.at, weight.shape[1], x.shape[-1]))
        if frozen:
            weight, bias = weight.detach(), bias.detach()
        return functional.linear(x, weight, bias)


class Classification(LayeredHead):
    """Cross-entropy of class ids; of 0/1 columns the mean binary cross-entropy of the columns.

    Args:
        classes: Number of classes, 2 or more; None: as many as the condition has when training starts.
    """

    value_types = ("categorical", "multi_label")

    def __init__(
        self,
        on: str,
        at: At = "features",
        suppress: Suppress | None = None,
        hidden: int | None = None,
        ridge: float = 0.1,
        classes: int | None = None,
    ) -> None:
        super().__init__(on, at, suppress, hidden, ridge)
        self.classes = None if classes is None else whole("classes", classes, 2)

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Create the layers for the classes, or the columns, of the table."""
        table = self.table(tables)
        columns = table.values.shape[1:]
        self.grow(sizes, *(columns or [classes_of(self.on, table, self.classes)]))

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Refuse class ids that the head does not have."""
        refuse_unknown(self.on, condition[self.on], self.weight)

    def errors(self, predicted: Tensor, z: Tensor) -> Tensor:
        """Cross-entropies."""
        if z.ndim > 1:
            if z.shape[-1] != predicted.shape[-1]:
                raise ValueError(
                    f"{self.on} has {z.shape[-1]} columns, and the guide's head predicts"
                    f" {predicted.shape[-1]}"
                )
            bits = z.to(predicted.dtype).expand_as(predicted)
            return functional.binary_cross_entropy_with_logits(
                predicted, bits, reduction="none"
            ).mean(-1)
        return predicted.logsumexp(-1) - at_class(predicted, z)

    def targets(self, z: Tensor, predicted: Tensor) -> Tensor:
        """One-hot vectors, or the columns."""
        if z.ndim > 1:
            return z.to(predicted.dtype)
        classes = torch.arange(predicted.shape[-1], device=z.device)
        return (z[:, None] == classes).to(predicted.dtype)  # torch's one_hot waits for the device

    def hits(self, predicted: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Whether a class, or the part of the columns that, is predicted, of 1."""
        if z.ndim > 1:
            right = ((predicted > 0) == (z > 0.5)).to(predicted.dtype).mean(-1)
        else:
            right = (predicted.argmax(-1) == z).to(predicted.dtype)
        return right, torch.ones_like(right)

    def unsure(self, predicted: Tensor, z: Tensor) -> Tensor:
        """Cross-entropies with all classes equally likely, or all bits at one half."""
        if z.ndim > 1:
            return (functional.softplus(predicted) - predicted / 2).mean(-1)
        return predicted.logsumexp(-1) - predicted.mean(-1)


class Regression(LayeredHead):
    """Mean squared error of values that are standardized by the table's means and deviations."""

    value_types = ("continuous",)
    quality = "r2"
    mean: Tensor | None
    deviation: Tensor

    def __init__(
        self,
        on: str,
        at: At = "features",
        suppress: Suppress | None = None,
        hidden: int | None = None,
        ridge: float = 0.1,
    ) -> None:
        super().__init__(on, at, suppress, hidden, ridge)
        self.register_buffer("mean", None)
        self.register_buffer("deviation", None)

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Create the layers, and take means and deviations of the table's columns."""
        values = self.table(tables).values
        values = values.reshape(len(values), -1)
        self.grow(sizes, values.shape[1])
        if self.mean is None:
            found = values.double()
            spread = found.std(0, correction=0)
            self.mean = found.mean(0).to(values.dtype)
            self.deviation = torch.where(spread > 0, spread, 1.0).to(values.dtype)

    def standardized(self, z: Tensor, like: Tensor) -> Tensor:
        """Values (..., c) in units of the table's deviations."""
        z = z[:, None] if z.ndim == 1 else z
        assert self.mean is not None
        if z.shape[-1] != len(self.mean):
            raise ValueError(
                f"{self.on} has {z.shape[-1]} columns, and the guide's head predicts {len(self.mean)}"
            )
        return ((z.to(like.dtype) - self.mean) / self.deviation).to(like.dtype)

    def targets(self, z: Tensor, predicted: Tensor) -> Tensor:
        """Standardized values."""
        return self.standardized(z, predicted)

    def errors(self, predicted: Tensor, z: Tensor) -> Tensor:
        """Squared errors, the mean over columns."""
        return (predicted - self.standardized(z, predicted)).square().mean(-1)

    def hits(self, predicted: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Squared errors, and squared distances from the table's means."""
        errors = self.errors(predicted, z)
        return errors, self.standardized(z, predicted).square().mean(-1).expand_as(errors)


class Prototypes(GuideHead):
    """Cross-entropy of a vector's nearness to moving averages, one of each class.

    ``-log softmax_c(<x, p_c> / τ)`` at the sample's class, of unit vectors x and p.  After each optimizer
    step the prototypes of the classes in the batch move: ``p_c ← m p_c + (1 - m) mean of their x``, made
    unit-norm.  A class has no prototype before its first sample; until then it is no candidate, and its
    samples do not count.  No gradient flows through the prototypes.

    Args:
        temperature: τ, above 0.
        momentum: m, from 0 to below 1.
        classes: Number of classes, 2 or more; None: as many as the condition has when training starts.
    """

    value_types = ("categorical",)
    temperature = ScalarAttribute(positive)
    prototypes: Tensor | None
    """(C, f), unit-norm; 0 for a class without samples."""
    sums: Tensor
    """(C, f + 1) of the vectors since the last step, and their number."""

    def __init__(
        self,
        on: str,
        at: At = "features",
        suppress: Suppress | None = None,
        temperature: Scalar = 0.1,
        momentum: float = 0.9,
        classes: int | None = None,
    ) -> None:
        super().__init__(on, at, suppress)
        self.temperature = temperature
        self.momentum = below_one("momentum", momentum)
        self.classes = None if classes is None else whole("classes", classes, 2)
        self.register_buffer("prototypes", None)
        self.register_buffer("sums", None, persistent=False)

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Make room for the classes of the table."""
        classes = classes_of(self.on, self.table(tables), self.classes)
        if self.prototypes is None:
            self.prototypes = torch.zeros(classes, self.width(sizes))
        self.sums = torch.zeros(len(self.prototypes), self.width(sizes) + 1)

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Refuse class ids that have no place."""
        refuse_unknown(self.on, condition[self.on], self.prototypes)

    def predict(self, x: Tensor, frozen: bool) -> Tensor:
        """Inner products with the prototypes over the temperature."""
        if self.prototypes is None:
            raise ValueError(NO_HEAD.format(self.on))
        if x.shape[-1] != self.prototypes.shape[1]:
            raise ValueError(WIDTHS.format(self.on, self.at, self.prototypes.shape[1], x.shape[-1]))
        # Before the backward pass ends, ``after_step`` does not change them.
        logits = functional.normalize(x, dim=-1) @ self.prototypes.to(x.dtype).T / self.temperature
        return logits.masked_fill(~self.begun(), EMPTY)

    def begun(self) -> Tensor:
        """(C,) True at the classes that have a prototype."""
        assert self.prototypes is not None
        return self.prototypes.any(1)

    def counted(self, z: Tensor) -> Tensor:
        """True at samples whose class has a prototype."""
        return self.begun()[z]

    def errors(self, predicted: Tensor, z: Tensor) -> Tensor:
        """Cross-entropies; 0 for a class without a prototype."""
        values = predicted.logsumexp(-1) - at_class(predicted, z)
        return values.masked_fill(~self.counted(z), 0)

    def hits(self, predicted: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Whether the own prototype is the nearest, of 1."""
        right = (predicted.argmax(-1) == z).to(predicted.dtype)
        return right, torch.ones_like(right)

    def unsure(self, predicted: Tensor, z: Tensor) -> Tensor:
        """Cross-entropies with all classes that have a prototype equally likely."""
        begun = self.begun()
        share = begun / begun.sum().clamp_min(1)
        values = predicted.logsumexp(-1) - (predicted.masked_fill(~begun, 0) * share).sum(-1)
        return values.masked_fill(~self.counted(z), 0)

    def collect(self, pairs: Pairs, x: Tensor, z: Tensor) -> None:
        """Add the vectors of all processes to the sums of their classes."""
        known = torch.ones_like(z, dtype=x.dtype)
        if pairs.missing is not None:
            known = known.masked_fill(pairs.missing[pairs.rows], 0)
        units = functional.normalize(x, dim=-1).sum(0)
        rows = torch.cat([units, torch.full_like(units[:, :1], len(x))], 1) * known[:, None]
        found = torch.zeros_like(self.sums).index_add(0, z, rows.to(self.sums.dtype))
        self.sums += gather(found[None]).sum(0) if pairs.processes > 1 else found

    def after_step(self) -> None:
        """Move the prototypes to the means of the vectors since the last step."""
        if self.prototypes is None:
            return
        total, number = self.sums[:, :-1], self.sums[:, -1:]
        mean = total / number.clamp_min(1)
        moved = self.momentum * self.prototypes + (1 - self.momentum) * mean
        moved = functional.normalize(torch.where(self.begun()[:, None], moved, mean), dim=-1)
        self.prototypes.copy_(torch.where(number > 0, moved, self.prototypes))
        self.sums.zero_()


def at_class(predicted: Tensor, z: Tensor) -> Tensor:
    """(u, n) entries of predictions (u, n, C) at class ids (n,)."""
    return predicted.gather(-1, z.expand(predicted.shape[:-1])[..., None])[..., 0]


def classes_of(on: str, table: Table, classes: int | None) -> int:
    """The number of classes, given or counted; ValueError if the table has more."""
    found = int(table.values.max()) + 1
    if classes is not None and found > classes:
        raise ValueError(
            f"the guide on {on!r} has classes={classes}, and class ids up to {found - 1}"
        )
    return classes or max(found, 2)


def refuse_unknown(on: str, z: Tensor, rows: Tensor | None) -> None:
    """Refuse class ids of a call for which the head has no row."""
    if rows is not None and z.ndim == 1 and int(z.max()) >= len(rows):
        raise ValueError(
            f"{on} holds the class id {int(z.max())}, and the guide's head has {len(rows)} classes"
        )
