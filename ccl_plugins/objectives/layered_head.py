"""Heads of one linear layer or two: the base class of classification and regression."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins.arguments import WIDEST, checked, positive, whole
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.objectives.guide_head import At, GuideHead, Suppress
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Sizes


@dataclass(eq=False, repr=False)
class LayeredHead(GuideHead, ABC):
    """A linear layer, or two with a ReLU between them.

    Args:
        hidden: Width of the layer between; None: the head is linear.
        ridge: Of the head of ``suppress = "least_squares"``, in units of the mean variance of a feature,
            above 0; None: 0.1.
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
        """As `GuideHead.serve`; a ridge is for ``suppress = "least_squares"`` alone."""
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
        weight = torch.linalg.solve_ex(
            shifted, moments[:f, f:-1]
        ).result  # without a wait for its check
        return means[:f].to(x.dtype), weight.to(x.dtype), means[f:-1].to(x.dtype)

    def _layer(self, x: Tensor, weight: Tensor, bias: Tensor, frozen: bool) -> Tensor:
        self.refuse_width(x, weight.shape[1])
        if frozen:
            weight, bias = weight.detach(), bias.detach()
        return functional.linear(x, weight, bias)
