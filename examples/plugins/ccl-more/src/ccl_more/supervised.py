"""What objectives share that compare an anchor with all views of all samples at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from ccl_plugins.arguments import positive
from ccl_plugins.objectives import ContrastiveObjective, Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import ValueType
from torch import Tensor

from ccl_more.candidates import Candidates


class Supervised(ContrastiveObjective):
    """A temperature, a condition, and a row of terms per anchor view.

    A subclass writes ``row``.

    Args:
        temperature: τ, above 0.
        on: The name of the condition that is read.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.
    """

    within_view = True
    value_type: ClassVar[ValueType] = "categorical"
    temperature = ScalarAttribute(positive, learnable=True)

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        on: str = "condition",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        self.temperature = temperature
        self.on = on

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """One condition."""
        return {self.on: (self.value_type,)}

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor, over all views at once."""
        self.refuse_draws(pairs)
        rows = [self.row(pairs, Candidates(pairs, i)) for i in range(len(pairs.anchor_views))]
        values, weights = (torch.stack(parts) for parts in zip(*rows, strict=True))
        return values, weights.to(values.dtype)

    def row(self, pairs: Pairs, beside: Candidates) -> tuple[Tensor, Tensor]:
        """Values and weights (n,) of one anchor view."""
        raise NotImplementedError(f"{type(self).__name__} must define row(pairs, beside)")


def mean_over(chosen: Tensor, values: Tensor) -> Tensor:
    """(n,) means of the values (n, k) that are chosen; 0 where none is."""
    return (values * chosen).sum(1) / chosen.sum(1).clamp_min(1)
