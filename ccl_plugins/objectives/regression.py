"""Regression: a head that predicts numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ccl_plugins.objectives.guide_head import LayeredHead, Suppress
from ccl_plugins.protocols import Sizes, Table


@dataclass(eq=False, repr=False)
class Regression(LayeredHead):
    r"""Mean squared error of a head that predicts values, standardized by their means and deviations.

    ``mean_c (p_c - (z_c - mean_c) / deviation_c)²``. Positives and negatives: none. The head reads
    each view's backbone features by itself, with equal weight. As a guide, the head keeps the
    values in the vectors that it reads, or suppresses them: by a reversed gradient or, without a
    hidden layer, by the best linear head of the batch.

    Equation:
        \ell_i = \operatorname{mean}_c \left( h_c(f_i) - \frac{z_{ic} - \mu_c}{\sigma_c} \right)^2

    Shape:
        features (b, f), condition (b,) or (b, c) -> ()

    Source:
        As a guide: reversal after Ganin et al., Domain-Adversarial Training of Neural Networks (2016), eq.
        (9); the least-squares head is our own.
    """

    value_types = ("continuous",)
    quality = "r2"
    mean: Tensor | None = field(init=False)
    deviation: Tensor = field(init=False)

    def __post_init__(self) -> None:
        """Leave room for the means and deviations of the table."""
        super().__post_init__()
        self.register_buffer("mean", None)
        self.register_buffer("deviation", None)

    @property
    def suppressions(self) -> Sequence[Suppress]:
        """Reversal; a linear head has least squares first."""
        return ("least_squares", "reversal") if self.hidden is None else ("reversal",)

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Create the layers, and take means and deviations of the table's columns."""
        values = self.table(tables).values
        values = values.reshape(len(values), -1)
        self.grow(sizes, values.shape[1])
        if self.mean is None:
            exact = values.double()
            spread = exact.std(0, correction=0)
            self.mean = exact.mean(0).to(values.dtype)
            self.deviation = torch.where(spread > 0, spread, 1.0).to(values.dtype)

    def standardized(self, z: Tensor, like: Tensor) -> Tensor:
        """Values (..., c) in units of the table's deviations."""
        z = z[:, None] if z.ndim == 1 else z
        assert self.mean is not None
        if z.shape[-1] != len(self.mean):
            raise ValueError(
                f"{self.on} has {z.shape[-1]} columns, but the head predicts {len(self.mean)}"
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

    def scalars(self) -> dict[str, Tensor]:
        """The numbers of any head; the quality is R²: 1 minus squared errors over squared distances."""
        logged = super().scalars()
        return {**logged, self.quality: 1 - logged[self.quality]}
