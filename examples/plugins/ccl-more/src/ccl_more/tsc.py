"""TSC: every class is drawn to a target of its own, and the targets are uniform on the sphere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from ccl_plugins.arguments import below_one, non_negative, whole
from ccl_plugins.numerics import EMPTY, logsumexp, masked
from ccl_plugins.objectives import Exclude, Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Sizes
from torch import Tensor
from torch.nn.functional import normalize

from ccl_more.kcl import DRAWS, next_in_shuffle
from ccl_more.supervised import Candidates, WithClasses, mean_over


class TSC(WithClasses):
    """Targeted supervised contrastive loss (TSC): KCL, with a target on the sphere for every class.

    ``-(1 / |P|) Σ_{p in P} log( e_p / D ) - λ log( e_t / D )``, with ``D = Σ_a e_a + Σ_c e_c``.  Positives P
    are those of ``kcl``, a all views of all samples but the anchor, c all targets, and t the target of the
    anchor's class.

    The targets are computed in ``setup``, always the same for as many classes and numbers: they minimize
    ``Σ_i log Σ_{j ≠ i} exp(t_i · t_j / τ)``.  Moving averages of the mean keys of each class, of all processes,
    decide which class has which target: those whose inner products have the largest sum.  They are
    matched after the first step and after every ``every`` steps, when the host reads the averages from
    the device; other steps do not wait.

    The authors' code matches in every step, averages anchors instead of keys, and divides the target's
    term by the number of positives, too; here λ is its whole weight.

    Args:
        k: The number of samples that are drawn for each anchor, 1 or more.
        target_weight: λ, 0 or more.
        every: Steps after which classes and targets are matched again, 1 or more.
        momentum: The share of the averages that each step keeps, from 0 to below 1.

    Defaults:
        temperature: Code: 0.07.

    Source:
        Li et al., Targeted Supervised Contrastive Learning for Long-Tailed Recognition (2022).
    """

    EXPECTED_FAILURES: ClassVar[Mapping[str, str]] = {
        "order_of_samples_does_not_matter": DRAWS,
        "samples_without_a_value_are_left_out": DRAWS,
    }
    EXAMPLE: ClassVar[Mapping[str, Any]] = {"k": 1}
    EXAMPLE_CONDITION: ClassVar[Any] = [0, 1]
    EXAMPLE_BATCH = 12
    held = "targets"
    target_weight = ScalarAttribute(non_negative)
    step: Tensor
    targets: Tensor
    means: Tensor
    found: Tensor
    target_of: Tensor

    def __init__(
        self,
        temperature: Scalar = 0.07,
        k: int = 6,
        target_weight: Scalar = 1.0,
        every: int = 100,
        momentum: float = 0.9,
        *,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, exclude=exclude, gather_distributed=gather_distributed)
        self.k = whole("k", k, 1)
        self.target_weight = target_weight
        self.every = whole("every", every, 1)
        self.momentum = below_one("momentum", momentum)
        self.taken = 0
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        for name in ("targets", "means", "target_of"):
            self.register_buffer(name, None)
        self.register_buffer("found", None, persistent=False)

    def create(self, counts: Tensor, sizes: Sizes) -> None:
        """Create targets and averages."""
        temperature = float(torch.as_tensor(self.temperature).detach())
        self.targets = uniform_targets(len(counts), sizes.embedding, temperature)
        self.means, self.found = torch.zeros_like(self.targets), torch.zeros_like(self.targets)
        self.target_of = torch.arange(len(counts))

    def progress(self, step: int, total: int) -> None:
        """Shuffle anew, and count the steps."""
        super().progress(step, total)
        self.step.fill_(step)
        self.taken = step

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        if candidates.i == 0:
            self._average(pairs)
        alike = pairs.same_class(self.on)
        keep = candidates.with_own(pairs.contrasted(alike))
        chosen = candidates.with_own(next_in_shuffle(alike, pairs.rows, self.k, self.step))
        targets = self.targets.to(pairs.anchors.dtype)
        mine = self.target_of[pairs.everyone(self.on)[pairs.rows]]
        to_targets = pairs.anchors[candidates.i] @ targets.T / self.temperature
        logits = candidates.sims() / self.temperature
        blocks = [masked(logits, keep), to_targets]
        total = logsumexp(torch.cat(blocks, 1))
        pull = total - to_targets.gather(1, mine[:, None])[:, 0]
        value = total - mean_over(chosen, logits) + self.target_weight * pull
        return value, chosen.any(1)

    def _average(self, pairs: Pairs) -> None:
        """Keep the mean keys of the batch's classes for ``after_step``."""
        ids = pairs.samples.condition_of(self.on)
        member = ids == torch.arange(self.classes, device=ids.device)[:, None]
        if pairs.samples.missing is not None:
            member = member & ~pairs.samples.missing
        keys = pairs.keys.detach().mean(0)
        self.found.copy_(normalize(member.to(keys.dtype) @ keys, dim=1))

    @torch.no_grad()
    def after_step(self) -> None:
        """Move the averages, and match classes and targets if it is time."""
        seen = self.found.any(1, keepdim=True)
        kept = torch.where(self.means.any(1, keepdim=True), self.momentum, 0.0)
        moved = normalize(kept * self.means + (1 - kept) * self.found, dim=1)
        self.means.copy_(torch.where(seen, moved, self.means))
        self.found.zero_()
        if self.taken % self.every == 0:
            self.target_of.copy_(match(self.means, self.targets))
        self.taken += 1


def uniform_targets(classes: int, width: int, temperature: float, seed: int = 0) -> Tensor:
    """(classes, width) unit vectors that are as far from each other as possible.

    Args:
        classes: How many.
        width: Numbers in each.
        temperature: τ of the uniformity that they minimize, ``Σ_i log Σ_{j ≠ i} exp(t_i · t_j / τ)``.
        seed: Of the vectors that the minimization starts from.
    """
    generator = torch.Generator().manual_seed(seed)
    free = torch.randn(classes, width, generator=generator, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [free],
        max_iter=100,
        tolerance_grad=1e-12,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )
    own = torch.eye(classes, dtype=torch.bool)

    def uniformity() -> Tensor:
        optimizer.zero_grad()
        targets = normalize(free, dim=1)
        logits = (targets @ targets.T / temperature).masked_fill(own, EMPTY)
        loss = logits.logsumexp(1).mean()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(uniformity)
    return normalize(free.detach(), dim=1).float()


def match(means: Tensor, targets: Tensor) -> Tensor:
    """(classes,) the target of each class, by the largest sum of inner products."""
    from scipy.optimize import linear_sum_assignment

    return torch.as_tensor(linear_sum_assignment((means @ targets.T).cpu(), maximize=True)[1])
