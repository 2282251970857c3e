"""Soft InfoNCE: targets are proportional to the similarity of conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.arguments import positive
from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.numerics.logsumexp import EMPTY, log_weights, logsumexp, masked
from ccl_plugins.objectives.base import ContrastiveObjective, stack_rows
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import VALUE_TYPES, Kernel


@dataclass(eq=False, repr=False)
class SoftInfoNCE(ContrastiveObjective):
    r"""InfoNCE with soft targets: a key attracts in proportion to the similarity of its condition.

    ``-Σ_j t_ij log( e_ij / Σ_k e_ik )``, ``t_ij = k(z_i, z_j) / Σ_k k(z_i, z_k)``; no gradient flows
    through the targets t.  Positives: all candidates, weighted by the targets, which sum to 1.
    Negatives: the same, of equal weight.  Candidates: the own sample's other view if ``own``; the other
    samples' keys of that view, of the anchor's own view too if ``within_view``; and the queue.
    Similarities below 0 count as 0; anchors with zero similarity to every candidate get weight 0.

    Settings: y-Aware InfoNCE is an RBF kernel of the metadata; X-CLR is the cosine kernel of caption
    embeddings with ``target_temperature``; ReSSL is the cosine kernel of the momentum keys with
    ``target_temperature`` and ``own=False``.

    Equation:
        \ell_i = -\sum_j t_{ij} \log \frac{e^{s_{ij}}}{\sum_l e^{s_{il}}}, \quad t_{ij} =
            \frac{k(z_i, z_j)}{\sum_l k(z_i, z_l)}

    Shape:
        (b, d), (b, d), condition (b,), (b, c) or one (b, c) per view -> ()

    Args:
        kernel: A similarity of values of the condition ``on``, or of the conditions that the kernel
            itself names. If values differ per view, the values of the key's view are compared; if
            only queries have values, those of the anchor's view.
        target_temperature: Above 0: targets are the softmax of similarity / target_temperature; None:
            targets are proportional to the similarity.
        own: Whether the own key is a candidate.
        within_view: Whether keys of the anchor's own view are candidates too.
        exclude: Samples that are not candidates: ``(kernel, threshold)``, or ``(kernel, threshold,
            name)`` with the name of the condition that the kernel reads, by default
            ``"condition"``. Samples whose similarity to the anchor is at or above the threshold are
            left out.

    Defaults:
        temperature: Here: that of the other conditional objectives.

    Source:
        Dufumier et al., Contrastive Learning with Continuous Proxy Meta-Data for 3D MRI Classification
        (2021); Sobal et al., X-Sample Contrastive Loss (2024); Zheng et al., ReSSL: Relational
        Self-Supervised Learning with Weak Augmentation (2021).
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"kernel": "rbf"}
    value_types = VALUE_TYPES
    in_parts = True

    kernel: Kernel
    temperature: Scalar = ScalarAttribute(positive, default=0.1, learnable=True)
    _: KW_ONLY
    target_temperature: Scalar | None = ScalarAttribute(positive, default=None)
    own: bool = True
    within_view: bool = False
    symmetric: bool = True
    on: str = "condition"

    def __post_init__(self) -> None:
        """Refuse ``on`` beside a kernel that names conditions itself."""
        super().__post_init__()
        self.refuse_on()

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The cross-entropy with the targets, per pair of views."""
        self.refuse_draws(pairs)
        z = pairs.samples.condition[self.on]
        of_view: dict[int, Tensor] = {}

        def targets_of(i: int, j: int) -> Tensor:
            view = 0 if z.ndim < 3 else j if len(z) == len(pairs.keys) else i
            if view not in of_view:
                of_view[view] = self.target_logits(pairs, view)
            return of_view[view]

        rows = [self.values(pairs, i, j, targets_of) for i, j in pairs.cross(self.symmetric)]
        return stack_rows(rows)

    def target_logits(self, pairs: Pairs, j: int) -> Tensor:
        """(n, m + q) logits of the targets over all samples, candidates or not."""
        with torch.no_grad():
            z = pairs.everyone(self.on, j)
            similarity = similarities(self.kernel, z[pairs.rows], z).to(pairs.anchors.dtype)
            if self.target_temperature is not None:
                return similarity / self.target_temperature
            return log_weights(similarity)

    def values(
        self, pairs: Pairs, i: int, j: int, targets_of: Callable[[int, int], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """(n,) values and weights of two views; ``targets_of`` returns `target_logits` of two views."""
        m, own_view = pairs.keys.shape[1], pairs.within(i)
        positives = pairs.counted(pairs.negative if pairs.positive is None else pairs.positive)
        compared = pairs.contrasted(positives)
        own = pairs.own() if self.own else torch.zeros_like(pairs.own())
        cross = targets_of(i, j)
        sims = [(pairs.sim(i, j), cross[:, :m], compared[:, :m] | own, positives[:, :m] | own)]
        if self.within_view and own_view is not None:
            within = targets_of(i, own_view)[:, :m]
            sims.append((pairs.sim(i, own_view), within, compared[:, :m], positives[:, :m]))
        if pairs.queue is not None:
            sims.append((pairs.sim_queue(i), cross[:, m:], compared[:, m:], positives[:, m:]))
        logits, targets, compared, positives = (
            torch.cat(parts, 1) for parts in zip(*sims, strict=True)
        )
        targets = masked(targets, positives)
        has_positives = (targets.amax(1) > EMPTY / 2).to(logits.dtype)
        logits = logits / self.temperature
        log_all = logsumexp(masked(logits, compared))
        # -Σ_j t_ij log( e_ij / Σ_k e_ik ).  No term is below 0; the difference of the log-sum and a mean of
        # logits could be, by rounding.
        values = (targets.softmax(1) * (log_all[:, None] - logits)).sum(1)
        return values * has_positives, has_positives
