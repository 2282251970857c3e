"""DINO and iBOT: predict a teacher's assignment, of views or of masked patches, to prototypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import DEEPEST, WIDEST, below_one, checked, positive, whole, word
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.sinkhorn import sinkhorn
from ccl_plugins.objectives.base import ContrastiveObjective, stack_rows
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table


@dataclass(eq=False, repr=False)
class SelfDistillation(ContrastiveObjective):
    """Cross-entropy of a student's prototype scores with a teacher's, which are centered.

    Args of subclasses:
        teacher_temperature: τ_t, above 0.  The paper's warm-up is ``{schedule = "linear",
            start = 0.04, end = 0.07, epochs = 30}``.
        centering: ``"mean"`` or ``"sinkhorn"``.
        momentum: Momentum of the center, from 0 to below 1.
        iterations: Iterations of Sinkhorn-Knopp, 1 to 1024.
        dim: d, to have a center before ``setup``, which a loop of your own needs; None: the run's
            width.

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
    """(d + 1,) sums of the teacher's scores since the last step, and their number. None if the
    center is None, and in an objective that was loaded without ``setup``."""

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
        """Add a teacher's scores (n, d), on all processes if several, to the sums since the last step."""
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


class DINOLoss(SelfDistillation):
    r"""Cross-entropy of a student's prototype scores with a teacher's of another view (DINO).

    ``-Σ_c q_c log p_c`` with ``p = softmax(s / τ)`` of an anchor's scores s, and
    ``q = softmax((t - center) / τ_t)`` of the scores t of its key in another view, without gradient; all
    pairs of an anchor and a key have equal weight. Positives and negatives: none; the center, a
    moving average of all keys' scores, keeps one prototype from always winning, and the low
    temperature keeps the scores from becoming equal. With ``centering = "sinkhorn"``,
    Sinkhorn-Knopp replaces the center: it assigns the batch's keys, of all views and processes, to
    the prototypes in about equal parts, and q are these codes.

    Embeddings are scores, as the method `dino` makes them, not normalized.  In your own loop call
    ``loss(with_keys(student, teacher, first_key_view=0))``, and ``after_step()`` after each optimizer step,
    which moves the center by the batches since the last step.

    Equation:
        \ell_i = -\sum_c q_{ic} \log p_{ic}
        p_i = \operatorname{softmax}( x_i / \tau ), \quad q_i = \operatorname{softmax}( (y_i - m) /
            \tau_t )

    Shape:
        student (u, b, d), teacher (v, b, d) -> ()

    Defaults:
        temperature: Paper: 0.1. Code: 0.1.
        teacher_temperature: Paper: 0.04 to 0.07. Code: 0.04. Here: the first value of the paper's
            warm-up.
        momentum: Code: 0.9.
        iterations: Code: 3. Here: that of DINOv2's Sinkhorn-Knopp.

    Source:
        Caron et al., Emerging Properties in Self-Supervised Vision Transformers (2021), as lightly's
        ``DINOLoss``.  Sinkhorn-Knopp: Oquab et al., DINOv2: Learning Robust Visual Features without
        Supervision (2023).
    """

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The cross-entropy of each anchor view, which counts as often as there are keys of others."""
        self.refuse(pairs, pairs.keys)
        targets = self._of_own_keys(pairs)
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
            self.collect(pairs.keys.flatten(0, 1))  # keys of all processes
        return stack_rows(rows)

    def _of_own_keys(self, pairs: Pairs) -> Tensor:
        """(v, n, d) the teacher's probabilities of the anchors' own keys."""
        if self.centering == "mean":
            return self.targets(pairs.keys[:, pairs.rows])
        return self.targets(pairs.keys.flatten(0, 1)).view_as(pairs.keys)[:, pairs.rows]


class IBOTLoss(SelfDistillation):
    r"""Cross-entropy of a student's scores of masked patches with a teacher's of these patches (iBOT).

    ``-Σ_c q_c log p_c`` with ``p = softmax(s / τ)`` of the scores s of a patch that is masked for
    the student, and ``q = softmax((t - center) / τ_t)`` of the scores t of a teacher that sees the
    patch, without gradient. The loss is the mean over the masked patches of each view (0 without
    any), and then over all masked views. Positives and negatives: none; the center, a moving
    average of the teacher's scores of masked patches, keeps one prototype from always winning. With
    ``centering = "sinkhorn"``, Sinkhorn-Knopp replaces the center: it assigns the batch's masked
    patches, of all processes, to the prototypes in about equal parts, and q are these codes.

    The method `ibot` masks and scores patches; combine this loss with ``dino`` in a ``mixture``. In
    your own loop call ``objective(*views, patches=PatchScores(student, teacher, counts))``, whose
    views are not read, and ``after_step()`` after each optimizer step, which moves the center.

    Equation:
        \ell_p = -\sum_c q_{pc} \log p_{pc}
        p_p = \operatorname{softmax}( x_p / \tau ), \quad q_p = \operatorname{softmax}( (y_p - m) /
            \tau_t )
        \mathcal{L} = \operatorname{mean}_{i, v} \operatorname{mean}_{p \text{ in view } v \text{ of } i}
            \, \ell_p

    Shape:
        patches: student and teacher (p, d), with counts (b, v) -> ()

    Defaults:
        temperature: Paper: 0.1. Code: 0.1.
        teacher_temperature: Paper: 0.04 to 0.07. Code: 0.04 to 0.07. Here: the first value of the
            warm-up.
        momentum: Code: 0.9.
        iterations: Code: 3. Here: that of DINOv2's Sinkhorn-Knopp.

    Source:
        Zhou et al., iBOT: Image BERT Pre-Training with Online Tokenizer (2022), as lightly's
        ``IBOTPatchLoss``. The paper's released code centers by all patches; centering by masked
        patches and Sinkhorn-Knopp are from Oquab et al., DINOv2: Learning Robust Visual Features
        without Supervision (2023).
    """

    min_views = 1
    reads_patches = True
    reads_projections = False

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The mean cross-entropy of the masked patches, a row for each view that may have some."""
        patches = pairs.samples.patches
        if patches is None:
            raise ValueError("IBOTLoss reads masked patches, and these pairs have none")
        self.refuse(pairs, patches.teacher)
        targets = self.targets(patches.teacher, across=pairs.processes > 1)
        scores = patches.student / self.temperature
        errors = functional.cross_entropy(scores, targets, reduction="none")
        if torch.is_grad_enabled():
            self.collect(patches.teacher, pairs.processes)
        values = patches.mean_of_images(errors)
        return values, torch.ones_like(values)
