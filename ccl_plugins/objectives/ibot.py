"""iBOT: predict a teacher's assignment of masked patches to prototypes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.objectives.self_distillation import SelfDistillation
from ccl_plugins.pairs.pairs import Pairs


class IBOTLoss(SelfDistillation):
    r"""Cross-entropy of a student's scores of masked patches with a teacher's of the same patches (iBOT).

    ``-Σ_c q_c log p_c`` with ``p = softmax(s / τ)`` of the scores s of a patch that the student has not
    seen, and ``q = softmax((t - center) / τ_t)`` of a teacher's scores t, which has seen it, without
    gradient.  The mean over the masked patches of each view, 0 for a view without, and then over all
    masked views.  Positives and negatives: none; the center, a moving average of the teacher's scores of
    masked patches, keeps one prototype from winning always.  With ``centering = "sinkhorn"``, q are codes
    by Sinkhorn-Knopp in place of it: the masked patches of the batch, of all processes, are assigned to
    the prototypes, towards equal parts.

    The method `ibot` masks patches and scores them; this is a further term of a ``mixture`` beside
    ``dino``.  In your own loop call ``objective(*views, patches=PatchScores(student, teacher, counts))``,
    whose views are not read, and ``after_step()`` after each optimizer step, which moves the center.

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
        ``IBOTPatchLoss``.  The paper's released code has the center of all patches; that of masked patches
        and Sinkhorn-Knopp are of Oquab et al., DINOv2: Learning Robust Visual Features without Supervision
        (2023).
    """

    min_views = 1
    reads_patches = True

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
