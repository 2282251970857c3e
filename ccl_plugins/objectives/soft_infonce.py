"""Soft InfoNCE: targets as alike as the samples' conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.arguments import positive
from ccl_plugins.numerics.logsumexp import EMPTY, log_weights, logsumexp, masked
from ccl_plugins.objectives.base import ContrastiveObjective, Exclude
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Kernel, ValueType


class SoftInfoNCE(ContrastiveObjective):
    """InfoNCE with soft targets: every key is a positive as far as its condition is the anchor's.

    ``-Σ_j t_ij log( e_ij / Σ_k e_ik )``, ``t_ij = k(z_i, z_j) / Σ_k k(z_i, z_k)``, without gradient.
    Positives: all candidates, weighted by the targets, which sum to 1.  Negatives: the same, of equal
    weight.  Candidates: the own sample's other view where ``own``; the other samples' keys of that
    view, of the anchor's own view too where ``within_view``; and the queue.  Similarities below 0
    count as 0; an anchor like no candidate does not count.

    Settings: y-Aware InfoNCE is an RBF kernel of the metadata; X-CLR is the cosine kernel of caption
    embeddings with ``target_temperature``; ReSSL is the cosine kernel of the momentum keys with
    ``target_temperature`` and ``own=False``.

    Shape:
        (b, d), (b, d), condition (b,), (b, c) or one (b, c) per view -> ()

    Args:
        kernel: A similarity of condition values.  Where they differ per view, those of the key's
            view are compared; where queries alone have values, those of the anchor's.
        temperature: τ, above 0.
        target_temperature: Above 0: targets are the softmax of similarity / target_temperature; None:
            they are proportional to the similarity.
        own: Whether the own key is a candidate.
        within_view: Whether the anchor's own view gives candidates too.
        symmetric: Every view as anchor once; else only the earlier of two.
        on: The name of the condition that is read.
        exclude: Samples that are left out, ``(kernel, threshold)``, as in `ContrastiveObjective`.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Raises:
        ValueError: For a value out of range.

    Source:
        Dufumier et al., Contrastive Learning with Continuous Proxy Meta-Data for 3D MRI Classification
        (2021); Sobal et al., X-Sample Contrastive Loss (2024); Zheng et al., ReSSL: Relational
        Self-Supervised Learning with Weak Augmentation (2021).
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"kernel": "rbf"}
    temperature = ScalarAttribute(positive, learnable=True)
    target_temperature = ScalarAttribute(positive, optional=True)

    def __init__(
        self,
        kernel: Kernel,
        temperature: Scalar = 0.1,
        *,
        target_temperature: Scalar | None = None,
        own: bool = True,
        within_view: bool = False,
        symmetric: bool = True,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(exclude=exclude, gather_distributed=gather_distributed)
        self.kernel = kernel
        self.temperature = temperature
        self.target_temperature = target_temperature
        self.own = own
        self.within_view = within_view
        self.symmetric = symmetric
        self.on = on

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """One condition of any value type."""
        return self.and_excluded({self.on: ("categorical", "multi_label", "continuous")})

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The cross-entropy with the targets, per pair of views."""
        self.refuse_draws(pairs)
        known: dict[int, Tensor] = {}
        z = pairs.condition[self.on]

        def alike(i: int, j: int) -> Tensor:
            view = 0 if z.ndim < 3 else j if len(z) == len(pairs.keys) else i
            if view not in known:
                known[view] = self.likeness(pairs, view)
            return known[view]

        rows = [self.values(pairs, i, j, alike) for i, j in pairs.cross(self.symmetric)]
        values, weights = zip(*rows, strict=True)
        return torch.stack(values), torch.stack(weights)

    def likeness(self, pairs: Pairs, j: int) -> Tensor:
        """(n, m + q) logits of the targets, before candidates are singled out."""
        with torch.no_grad():
            z = pairs.everyone(self.on, j)
            similarity = self.kernel(z[pairs.rows], z).to(pairs.anchors.dtype)
            if self.target_temperature is not None:
                return similarity / self.target_temperature
            return log_weights(similarity)

    def values(
        self, pairs: Pairs, i: int, j: int, alike: Callable[[int, int], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """(n,) values and weights of one pair of views; ``alike`` has the `likeness` of any two."""
        m, brought, own_view = pairs.keys.shape[1], pairs.positive, pairs.within(i)
        positives = pairs.counted(brought if brought is not None else pairs.negative)
        shown = pairs.contrasted(positives)
        own = pairs.own() if self.own else torch.zeros_like(pairs.own())
        near = alike(i, j)
        sims = [(pairs.sim(i, j), near[:, :m], shown[:, :m] | own, positives[:, :m] | own)]
        if self.within_view and own_view is not None:
            within = alike(i, own_view)[:, :m]
            sims.append((pairs.sim(i, own_view), within, shown[:, :m], positives[:, :m]))
        if pairs.queue is not None:
            sims.append((pairs.sim_queue(i), near[:, m:], shown[:, m:], positives[:, m:]))
        logits, targets, shown, positives = (
            torch.cat(parts, 1) for parts in zip(*sims, strict=True)
        )
        targets = masked(targets, positives)
        found = (targets.amax(1) > EMPTY / 2).to(logits.dtype)
        logits = logits / self.temperature
        log_all = logsumexp(masked(logits, shown))
        return (log_all - (targets.softmax(1) * logits).sum(1)) * found, found
