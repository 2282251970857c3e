"""Learned class centers: parameters that exist when the classes are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from ccl_plugins.objectives import Scalar
from ccl_plugins.protocols import Table
from torch import Tensor, nn

from ccl_more.supervised import Supervised


class ClassCenters(Supervised):
    """A supervised objective with a center for each class.

    Args:
        dim: Width of the embeddings.
        temperature: τ, above 0.
        on: The name of the condition that is read, class ids.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"dim": 16}
    centers: nn.Parameter

    def __init__(
        self,
        dim: int,
        temperature: Scalar = 0.1,
        *,
        on: str = "condition",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, gather_distributed=gather_distributed)
        self.dim = dim
        self.register_parameter("centers", None)

    def setup(self, tables: Mapping[str, Table]) -> None:
        """Make a center for each class of the table; before the optimizer exists."""
        if self.centers is None:
            classes = int(tables[self.on].values.max()) + 1
            self.centers = nn.Parameter(torch.randn(classes, self.dim))

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Every class has a center."""
        centers = 0 if self.centers is None else len(self.centers)
        if int(condition[self.on].max()) >= centers:
            raise ValueError(
                f"class {int(condition[self.on].max())} has no center, there are {centers}: call"
                " setup(tables) with the ids of all samples"
            )
