"""The base of DINO and iBOT: targets from a teacher's scores of prototypes, and their center."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import DEEPEST, WIDEST, below_one, checked, positive, whole, word
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.sinkhorn import sinkhorn
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table


@dataclass(eq=False, repr=False)
class SelfDistillation(ContrastiveObjective):
    """Cross-entropy of a student's scores of prototypes with a teacher's, with a center of these.

    Args of subclasses:
        teacher_temperature: τ_t, above 0.  The paper's warm-up is ``{schedule = "linear",
            start = 0.04, end = 0.07, epochs = 30}``.
        centering: ``"mean"`` or ``"sinkhorn"``.
        momentum: Of the center, from 0 to below 1.
        iterations: Of Sinkhorn-Knopp, 1 to 1024.
        dim: d, to have a center before ``setup``, as your own loop needs it; None: that of the run.

    Raises:
        TypeError: For a number that is not whole.
        ValueError: For masks or draws of a user, and for use before there is a center.
    """

    embedding: Literal["sphere", "raw"] = field(default="raw", init=False)
    reads_queue = False
    stops_gradient = True
    center: Tensor | None = field(init=False)
    """(d,); None with ``"sinkhorn"``, and before ``setup``."""
    sums: Tensor | None = field(init=False)
    """(d + 1,) of the teacher's scores since the last step, and their number; None as the center is, and in
    an objective that was loaded without ``setup``."""

    temperature: Scalar = ScalarAttribute(positive, default=0.1)
    teacher_temperature: Scalar = ScalarAttribute(positive, default=0.04)
    _: KW_ONLY
    exclude: None = field(default=None, init=False)
    centering: Literal["mean", "sinkhorn"] = word("mean", "sinkhorn")
    momentum: float = checked(below_one, default=0.9)
    iterations: int = checked(whole, least=1, most=DEEPEST, default=3)
    dim: int | None = checked(whole, least=1, most=WIDEST, default=None)

    def __post_init__(self) -> None:
        """Make the center, if its width was given."""
        super().__post_init__()
        self.register_buffer("center", None)
        self.register_buffer("sums", None, persistent=False)
        if self.dim is not None:
            self._create(self.dim)

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Make the center, zeros, unless ``dim`` was given or it was loaded."""
        self._create(sizes.embedding)

    def _create(self, dim: int) -> None:
        if self.centering == "mean":
            if self.center is None:
                self.center = torch.zeros(dim)
            self.sums = torch.zeros(dim + 1)

    @torch.no_grad()
    def targets(self, scores: Tensor, across: bool = False) -> Tensor:
        """(n, d) probabilities of a teacher's scores; with ``across``, n samples of each process."""
        if self.centering == "sinkhorn":
            return sinkhorn(scores, self.teacher_temperature, self.iterations, across=across)
        if self.center is None:
            raise ValueError(
                f"{type(self).__name__} has no center yet: give dim=..., or call setup(tables, sizes)"
            )
        return ((scores - self.center.to(scores.dtype)) / self.teacher_temperature).softmax(-1)

    @torch.no_grad()
    def collect(self, scores: Tensor, processes: int = 1) -> None:
        """Add a teacher's scores (n, d), of each of some processes, to the sums since the last step."""
        if self.sums is None:
            return
        sums = torch.cat([scores.sum(0), scores.new_full((1,), len(scores))]).to(self.sums.dtype)
        self.sums += gather(sums[None]).sum(0) if processes > 1 else sums

    @torch.no_grad()
    def after_step(self) -> None:
        """Move the center to the mean of the teacher's scores since the last step."""
        if self.center is None or self.sums is None:
            return
        total, number = self.sums[:-1], self.sums[-1:]
        moved = self.momentum * self.center + (1 - self.momentum) * total / number.clamp_min(1)
        self.center.copy_(torch.where(number > 0, moved, self.center))
        self.sums.zero_()

    def refuse(self, pairs: Pairs, scores: Tensor) -> None:
        """Raise ValueError for pairs with masks or draws, and for scores of another width."""
        given = (pairs.positive, pairs.negative, pairs.draws)
        if any(x is not None for x in given):
            raise ValueError(
                f"{type(self).__name__} compares scores of prototypes, not samples: it takes no masks or"
                " draws"
            )
        width = scores.shape[-1]
        if self.center is not None and len(self.center) != width:
            raise ValueError(
                f"the center has {len(self.center)} numbers and embeddings {width}: dim must be their width"
            )
