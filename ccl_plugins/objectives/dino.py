"""DINO: predict a teacher's assignment of another view to prototypes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import below_one, one_of, positive, whole
from ccl_plugins.numerics.sinkhorn import sinkhorn
from ccl_plugins.objectives.base import ContrastiveObjective, stack_rows
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table


class DINOLoss(ContrastiveObjective):
    """Cross-entropy of a student's scores of prototypes with a teacher's, of other views (DINO).

    ``-Σ_c q_c log p_c`` with ``p = softmax(s / τ)`` of an anchor's scores s, and q the mean over the other
    views of ``softmax((t - center) / τ_t)`` of the keys' scores t, without gradient.  Positives and
    negatives: none; the center, a moving average of all keys' scores, keeps one prototype from
    winning always, and the low temperature all from being equal.  With
    ``centering = "sinkhorn"``, q are codes by Sinkhorn-Knopp in place of it: the keys of the batch, of all
    views and processes, are assigned to the prototypes in equal parts.

    Embeddings are scores, as the method `dino` makes them, not normalized.  In your own loop call
    ``loss(with_keys(student, teacher, first_key_view=0))``, and ``after_step()`` after each optimizer step,
    which moves the center by the batches since the last one.

    Shape:
        student (u, b, d), teacher (v, b, d) -> ()

    Args:
        teacher_temperature: τ_t, above 0.  The paper's warm-up is ``{schedule = "linear",
            start = 0.04, end = 0.07, epochs = 30}``.
        centering: ``"mean"`` or ``"sinkhorn"``.
        momentum: Of the center, from 0 to below 1.
        iterations: Of Sinkhorn-Knopp, 1 or more.
        dim: d, to have a center before ``setup``, as your own loop needs it; None: that of the run.

    Raises:
        TypeError: For a number that is not whole.
        ValueError: For masks or draws of a user, and for use before there is a center.

    Source:
        Caron et al., Emerging Properties in Self-Supervised Vision Transformers (2021), as lightly's
        ``DINOLoss``.  Sinkhorn-Knopp: Oquab et al., DINOv2: Learning Robust Visual Features without
        Supervision (2023).
    """

    embedding: Literal["sphere", "raw"] = "raw"
    reads_queue = False
    stops_gradient = True
    temperature = ScalarAttribute(positive)
    teacher_temperature = ScalarAttribute(positive)
    center: Tensor | None
    """(d,); None with ``"sinkhorn"``, and before ``setup``."""
    sums: Tensor
    """(d + 1,) of the keys since the last step, and their number."""

    def __init__(
        self,
        temperature: Scalar = 0.1,
        teacher_temperature: Scalar = 0.04,
        *,
        centering: Literal["mean", "sinkhorn"] = "mean",
        momentum: float = 0.9,
        iterations: int = 3,
        dim: int | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        self.temperature = temperature
        self.teacher_temperature = teacher_temperature
        self.centering = one_of("centering", centering, ("mean", "sinkhorn"))
        self.momentum = below_one("momentum", momentum)
        self.iterations = whole("iterations", iterations, 1)
        self.register_buffer("center", None)
        self.register_buffer("sums", None, persistent=False)
        self.dim = None if dim is None else whole("dim", dim, 1)
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

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The cross-entropy of each anchor view, which counts as often as there are keys of others."""
        self._refuse(pairs)
        targets = self._targets(pairs)
        others: dict[int, list[int]] = {}
        for i, j in pairs.cross():
            others.setdefault(i, []).append(j)
        rows = []
        for i, keys in others.items():
            scores = pairs.anchors[i] / self.temperature
            target = torch.stack([targets[j] for j in keys]).mean(0)
            values = functional.cross_entropy(scores, target, reduction="none")
            rows.append((values, torch.full_like(values, len(keys))))
        if torch.is_grad_enabled():
            self._collect(pairs)
        return stack_rows(rows)

    @torch.no_grad()
    def _targets(self, pairs: Pairs) -> Tensor:
        """(v, n, d) the teacher's probabilities of the anchors' own keys."""
        if self.centering == "sinkhorn":
            scores = pairs.keys.flatten(0, 1)
            codes = sinkhorn(scores, self.teacher_temperature, self.iterations)
            return codes.view_as(pairs.keys)[:, pairs.rows]
        if self.center is None:
            raise ValueError(
                "DINOLoss has no center yet: give dim=..., or call setup(tables, sizes)"
            )
        own = pairs.keys[:, pairs.rows] - self.center.to(pairs.keys.dtype)
        return (own / self.teacher_temperature).softmax(-1)

    @torch.no_grad()
    def _collect(self, pairs: Pairs) -> None:
        """Add the keys, which are those of all processes, to the sums since the last step."""
        if self.center is not None:
            number = pairs.keys.new_full((1,), pairs.keys[..., 0].numel())
            self.sums += torch.cat([pairs.keys.sum((0, 1)), number]).to(self.sums.dtype)

    @torch.no_grad()
    def after_step(self) -> None:
        """Move the center to the mean of the keys since the last step."""
        if self.center is None:
            return
        total, number = self.sums[:-1], self.sums[-1:]
        moved = self.momentum * self.center + (1 - self.momentum) * total / number.clamp_min(1)
        self.center.copy_(torch.where(number > 0, moved, self.center))
        self.sums.zero_()

    def _refuse(self, pairs: Pairs) -> None:
        given = (pairs.positive, pairs.negative, pairs.draws)
        if any(each is not None for each in given):
            raise ValueError(
                "DINOLoss compares scores of prototypes, not samples: it takes no masks or draws"
            )
        width = pairs.anchors.shape[2]
        if self.center is not None and len(self.center) != width:
            raise ValueError(
                f"the center has {len(self.center)} numbers and embeddings {width}: dim must be their width"
            )
