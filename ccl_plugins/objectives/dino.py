"""DINO: predict a teacher's assignment of another view to prototypes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.objectives.base import stack_rows
from ccl_plugins.objectives.self_distillation import SelfDistillation
from ccl_plugins.pairs.pairs import Pairs


class DINOLoss(SelfDistillation):
    r"""Cross-entropy of a student's scores of prototypes with a teacher's, of other views (DINO).

    ``-Σ_c q_c log p_c`` with ``p = softmax(s / τ)`` of an anchor's scores s, and
    ``q = softmax((t - center) / τ_t)`` of the scores t of its key in another view, without gradient; all
    pairs of an anchor and a key have equal weight.  Positives and negatives: none; the center, a moving
    average of all keys' scores, keeps one prototype from winning always, and the low temperature all from
    being equal.  With ``centering = "sinkhorn"``, q are codes by Sinkhorn-Knopp in place of it: the keys of
    the batch, of all views and processes, are assigned to the prototypes, towards equal parts.

    Embeddings are scores, as the method `dino` makes them, not normalized.  In your own loop call
    ``loss(with_keys(student, teacher, first_key_view=0))``, and ``after_step()`` after each optimizer step,
    which moves the center by the batches since the last one.

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
            self.collect(pairs.keys.flatten(0, 1))  # of all processes
        return stack_rows(rows)

    def _of_own_keys(self, pairs: Pairs) -> Tensor:
        """(v, n, d) the teacher's probabilities of the anchors' own keys."""
        if self.centering == "mean":
            return self.targets(pairs.keys[:, pairs.rows])
        return self.targets(pairs.keys.flatten(0, 1)).view_as(pairs.keys)[:, pairs.rows]
