"""Prototypes: a head of moving averages, one of each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import WIDEST, below_one, checked, positive, whole
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.logsumexp import EMPTY
from ccl_plugins.objectives.classification import at_class, classes_of, refuse_unknown
from ccl_plugins.objectives.guide_head import GuideHead, Suppress
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table


@dataclass(eq=False, repr=False)
class Prototypes(GuideHead):
    r"""Cross-entropy of a vector's similarities to prototypes, the moving averages of the classes.

    ``-log softmax_c(<x, p_c> / τ)`` at the sample's class, of unit vectors x and p, from the backbone's
    features.  Positives and negatives: none; the prototypes of the other classes repel.  After each
    optimizer step the prototypes of the classes in the batch move: ``p_c ← m p_c + (1 - m) mean of their
    x``, made unit-norm. A class has no prototype before the step after its first sample; until then
    it is not a candidate, and its samples do not count. No gradient flows through the prototypes.

    As a guide, the head keeps the classes in the vectors that it reads, or suppresses them by a
    reversed gradient or a uniform target.

    Equation:
        \ell_i = -\log \frac{e^{\langle f_i, p_{z_i} \rangle / \tau}}{\sum_c e^{\langle f_i, p_c
            \rangle / \tau}}, \quad \lVert f_i \rVert = \lVert p_c \rVert = 1

    Shape:
        features (b, f), condition (b,) of class ids -> ()

    Args:
        momentum: m, from 0 to below 1.
        classes: Number of classes, 2 to 2^20; None: as many as the condition has when training starts.

    Defaults:
        temperature: Here: that of ``supcon``.
        momentum: Here: our choice.

    Source:
        After Gardès et al., Who Needs Labels? Adapting Vision Foundation Models With the Metadata You
        Already Have (2026), FINO; the formula is our own.
    """

    EXPECTED_FAILURES: ClassVar[Mapping[str, str]] = {
        "gradient_reaches_every_view": "no class has a prototype before the first step",
    }
    value_types = ("categorical",)
    quality = "accuracy"
    prototypes: Tensor | None = field(init=False)
    """(C, f), unit-norm; 0 for a class without samples."""
    sums: Tensor = field(init=False)
    """(C, f + 1) sums of the vectors since the last step, and their number."""

    temperature: Scalar = ScalarAttribute(positive, default=0.1)
    momentum: float = checked(below_one, default=0.9)
    classes: int | None = checked(whole, least=2, most=WIDEST, default=None)
    on: str = field(default="condition", kw_only=True)

    def __post_init__(self) -> None:
        """Leave room for the prototypes that ``setup`` makes."""
        super().__post_init__()
        self.register_buffer("prototypes", None)
        self.register_buffer("sums", None, persistent=False)

    @property
    def suppressions(self) -> Sequence[Suppress]:
        """Reversal, and a uniform target."""
        return ("reversal", "uniform")

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Make room for the classes of the table."""
        classes = classes_of(self, self.table(tables), self.classes)
        if self.prototypes is None:
            self.prototypes = torch.zeros(classes, self.width(sizes))
        self.sums = torch.zeros(len(self.prototypes), self.width(sizes) + 1)

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Refuse class ids out of range."""
        refuse_unknown(self.on, condition[self.on], self.prototypes)

    def predict(self, x: Tensor, frozen: bool) -> Tensor:
        """Inner products with the prototypes over the temperature."""
        prototypes = self.refuse_missing(self.prototypes)
        self.refuse_width(x, prototypes.shape[1])
        # Before the backward pass ends, ``after_step`` does not change them.
        logits = functional.normalize(x, dim=-1) @ prototypes.to(x.dtype).T / self.temperature
        return logits.masked_fill(~self.begun(), EMPTY)

    def begun(self) -> Tensor:
        """(C,) True at the classes that have a prototype."""
        return self.refuse_missing(self.prototypes).any(1)

    def counted(self, z: Tensor) -> Tensor:
        """True at samples whose class has a prototype."""
        return self.begun()[z]

    def errors(self, predicted: Tensor, z: Tensor) -> Tensor:
        """Cross-entropies; 0 for a class without a prototype."""
        values = predicted.logsumexp(-1) - at_class(predicted, z)
        return values.masked_fill(~self.counted(z), 0)

    def hits(self, predicted: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Whether the own prototype is the nearest (0 or 1), out of 1."""
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
        present = torch.ones_like(z, dtype=x.dtype)
        if (missing := pairs.samples.missing) is not None:
            present = present.masked_fill(missing[pairs.rows], 0)
        units = functional.normalize(x, dim=-1).sum(0)
        rows = torch.cat([units, torch.full_like(units[:, :1], len(x))], 1) * present[:, None]
        sums = torch.zeros_like(self.sums).index_add(0, z, rows.to(self.sums.dtype))
        self.sums += gather(sums[None]).sum(0) if pairs.processes > 1 else sums

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
