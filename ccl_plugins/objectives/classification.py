"""Classification: a head that predicts class ids or 0/1 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import WIDEST, checked, whole
from ccl_plugins.objectives.guide_head import GuideHead, LayeredHead, Suppress
from ccl_plugins.protocols import Sizes, Table


@dataclass(eq=False, repr=False)
class Classification(LayeredHead):
    r"""Cross-entropy of a head that predicts class ids, or the mean binary cross-entropy of 0/1 columns.

    ``-log p_c`` at the sample's class c. Positives and negatives: none. Each view is classified by
    itself, from the backbone's features, with equal weight. As a guide, the head keeps the classes
    in the vectors that it reads, or suppresses them: by a reversed gradient, by a uniform target
    or, without a hidden layer, by the best linear head of the batch.

    Equation:
        \ell_i = -\log \frac{e^{h_{z_i}(f_i)}}{\sum_c e^{h_c(f_i)}}

    Shape:
        features (b, f), condition (b,) of class ids or (b, c) of 0/1 columns -> ()

    Args:
        classes: Number of classes, 2 to 2^20; None: as many as the condition has when training starts.

    Source:
        As a guide: Ganin et al., Domain-Adversarial Training of Neural Networks (2016), eq. (9), for
        reversal; Tzeng et al., Simultaneous Deep Transfer Across Domains and Tasks (2015), eq. (4), for the
        uniform target.
    """

    value_types = ("categorical", "multi_label")
    quality = "accuracy"

    classes: int | None = checked(whole, least=2, most=WIDEST, default=None)

    @property
    def suppressions(self) -> Sequence[Suppress]:
        """Reversal and a uniform target; a linear head has least squares too."""
        if self.hidden is None:
            return ("reversal", "uniform", "least_squares")
        return ("reversal", "uniform")

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Create the layers for the classes, or the columns, of the table."""
        table = self.table(tables)
        columns = table.values.shape[1:]
        self.grow(sizes, *(columns or [classes_of(self, table, self.classes)]))

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Refuse class ids that the head does not have."""
        refuse_unknown(self.on, condition[self.on], self.weight)

    def errors(self, predicted: Tensor, z: Tensor) -> Tensor:
        """Cross-entropies."""
        if z.ndim > 1:
            if z.shape[-1] != predicted.shape[-1]:
                raise ValueError(
                    f"{self.on} has {z.shape[-1]} columns, but the head predicts "
                    f"{predicted.shape[-1]}"
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
        """Whether the class is predicted (0 or 1), or the share of columns that are, each out of 1."""
        if z.ndim > 1:
            right = ((predicted > 0) == (z > 0.5)).to(predicted.dtype).mean(-1)
        else:
            right = (predicted.argmax(-1) == z).to(predicted.dtype)
        return right, torch.ones_like(right)

    def unsure(self, predicted: Tensor, z: Tensor) -> Tensor:
        """Cross-entropies with a target that makes all classes equally likely, or all bits 1/2."""
        if z.ndim > 1:
            return (functional.softplus(predicted) - predicted / 2).mean(-1)
        return predicted.logsumexp(-1) - predicted.mean(-1)


def at_class(predicted: Tensor, z: Tensor) -> Tensor:
    """(u, n) entries of predictions (u, n, C) at class ids (n,)."""
    return predicted.gather(-1, z.expand(predicted.shape[:-1])[..., None])[..., 0]


def classes_of(head: GuideHead, table: Table, classes: int | None) -> int:
    """The number of classes, given or counted; ValueError if the table has more."""
    least = int(table.values.max()) + 1
    if classes is not None and least > classes:
        raise ValueError(f"{head.label} has classes={classes}, and class ids up to {least - 1}")
    return classes or max(least, 2)


def refuse_unknown(on: str, z: Tensor, rows: Tensor | None) -> None:
    """Refuse class ids of a call for which the head has no row."""
    if rows is not None and z.ndim == 1 and int(z.max()) >= len(rows):
        raise ValueError(
            f"{on} holds the class id {int(z.max())}, and the head has {len(rows)} classes"
        )
