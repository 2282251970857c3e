"""Distillation: features are held near a condition, such as the features of the network before training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import positive, word
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.logsumexp import masked
from ccl_plugins.numerics.precision import at_least_float32, unit
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False)
class Distillation(ContrastiveObjective):
    r"""Distance of backbone features, or of their relations, from a teacher's, which a condition holds.

    Unit vectors x of the features of one view and z of the condition's values, of n samples of all
    processes.  ``"feature"``: ``1 - <x_i, z_i>``.  ``"relational"``: ``Σ_j p_ij log(p_ij / q_ij)`` over the
    other samples j, with ``p_ij = softmax_j(<z_i, z_j> / τ)`` and ``q_ij = softmax_j(<x_i, x_j> / τ)``.
    The mean over views; positives and negatives: none. Both are 0 for x = z. ``"relational"`` is 0
    also if all x are rotated together, and x and z may have different widths.

    The condition is one vector for each sample, of the image without augmentation, as ``original`` and
    ``encoder`` make it. Each view is held near that vector, so the features also learn to be the
    same in all views. If pairs have partners, only the first view is read, because the other views
    show other images.

    Equation:
        \ell_i = 1 - \langle f_i, z_i \rangle \quad \text{or} \quad \ell_i = \sum_{j \neq i} p_{ij}
            \log \frac{p_{ij}}{q_{ij}}
        p_{ij} = \operatorname{softmax}_{j \neq i} ( \langle z_i, z_j \rangle / \tau ), \quad q_{ij}
            = \operatorname{softmax}_{j \neq i} ( \langle f_i, f_j \rangle / \tau )
        \lVert f_i \rVert = \lVert z_i \rVert = 1

    Shape:
        features (b, f), condition (b, c) -> ()

    Args:
        form: ``"feature"`` or ``"relational"``.
        temperature: τ of ``"relational"``, above 0.

    Raises:
        ValueError: For another form; on use, for ``"feature"`` of vectors of different widths.

    Defaults:
        temperature: Here: that of ``infonce``.

    Source:
        For relations: Park et al., Relational Knowledge Distillation (2019), whose relations are distances;
        as distributions: Passalis and Tefas, Learning Deep Representations with Probabilistic Knowledge
        Transfer (2018), and with a temperature Fang et al., SEED: Self-supervised Distillation for Visual
        Representation (2021). The formulas were written without access to the papers.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"form": "relational"}
    value_types = ("continuous",)
    min_views = 1
    reads_queue = False
    reads_features = True

    form: Literal["feature", "relational"] = word("feature", "relational")
    temperature: Scalar = ScalarAttribute(positive, default=0.1)
    _: KW_ONLY
    exclude: None = field(default=None, init=False)
    on: str = "condition"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.in_parts = self.form == "feature"

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The distances, a row for each view."""
        x, z = self.features(pairs), self.teacher(pairs)
        if self.form == "relational":
            return self.relations(pairs, x, z)
        z = z[:, pairs.rows]
        if x.shape[-1] != z.shape[-1]:
            raise ValueError(
                f"form='feature' compares features of width {x.shape[-1]} with the condition {self.on!r} of"
                f" width {z.shape[-1]}: take form='relational', which compares any widths"
            )
        values = 1 - (x * z).sum(-1)
        return values, torch.ones_like(values)

    def features(self, pairs: Pairs) -> Tensor:
        """(u, n, f) unit vectors of the features of this process's anchors."""
        x = pairs.samples.features
        if x is None:
            raise ValueError(f"{type(self).__name__} reads features, and these pairs have none")
        return unit(at_least_float32(x if pairs.samples.partner is None else x[:1]))

    def teacher(self, pairs: Pairs) -> Tensor:
        """(1, m, c) or, where they differ per view, (u, m, c) unit vectors of the condition."""
        z = at_least_float32(pairs.samples.condition[self.on])
        z = z[:, None] if z.ndim == 1 else z
        return unit(z if z.ndim == 3 else z[None])

    def relations(self, pairs: Pairs, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Divergences of the features' relations from the teacher's; weight 0 for a single sample."""
        keys = gather(x, 1) if pairs.processes > 1 else x
        others, missing = ~pairs.own(), pairs.samples.missing
        if missing is not None:
            others = others & ~missing
        log_p, log_q = (
            masked(anchors @ samples.mT / self.temperature, others).log_softmax(-1)
            for anchors, samples in (
                (z[: len(x), pairs.rows].to(x.dtype), z[: len(x)].to(x.dtype)),
                (x, keys),
            )
        )
        values = (log_p.exp() * (log_p - log_q)).sum(-1)
        return values, others.any(1).to(values.dtype).expand_as(values)
