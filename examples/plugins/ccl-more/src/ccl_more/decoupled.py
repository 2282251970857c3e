"""DCL and DHEL: the positive leaves the denominator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from ccl_plugins.arguments import positive
from ccl_plugins.numerics import EMPTY, logsumexp
from ccl_plugins.objectives import ContrastiveObjective, Exclude, Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import VALUE_TYPES, Kernel, ValueType
from torch import Tensor

from ccl_more.kernel_weights import log_kernel


class DCL(ContrastiveObjective):
    """Decoupled contrastive loss (DCL): InfoNCE without the positive in the denominator.

    ``-s_ii / τ + log Σ_{j≠i} e_ij``.  Positive: the own sample's other view.  Negatives: the other
    samples' keys of that view, of the anchor's own view too if ``within_view``, and the queue, of equal
    weight.  Anchors without negatives get weight 0.

    Conditional uniformity, which is ours: with a kernel, ``-s_ii / τ + log Σ_{j≠i} k(z_i, z_j) e_ij``.
    An anchor is aligned with its own key, and repels a sample in proportion to the similarity of their
    conditions; with ``delta``, embeddings are uniform among the samples of each class, and classes do
    not repel each other.  Similarities below 0 count as 0, no gradient flows through them, and anchors
    without a similar sample get weight 0.

    Equal to lightly's ``DCLLoss`` without a kernel.  The weights of positives, DCLW, are left out.

    Args:
        kernel: A similarity of condition values, or None.
        on: The name of the condition that the kernel reads.

    Defaults:
        temperature: Code: 0.1.

    Source:
        Yeh et al., Decoupled Contrastive Learning (2022), L_DC; the kernel is not in the paper.
    """

    temperature = ScalarAttribute(positive, learnable=True)

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        kernel: Kernel | None = None,
        within_view: bool = True,
        symmetric: bool = True,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(exclude=exclude, gather_distributed=gather_distributed)
        self.temperature = temperature
        self.kernel = kernel
        self.within_view = within_view
        self.symmetric = symmetric
        self.on = on

    def reads(self) -> Mapping[str, Sequence[ValueType]]:
        """With a kernel, one condition of any value type."""
        return {self.on: VALUE_TYPES} if self.kernel else {}

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views."""
        if self.kernel is not None:
            self.refuse_draws(pairs)
        values, weights = zip(
            *(self.row(pairs, *of) for of in pairs.cross(self.symmetric)), strict=True
        )
        return torch.stack(values), torch.stack(weights)

    def row(self, pairs: Pairs, i: int, j: int) -> tuple[Tensor, Tensor]:
        """(n,) values and weights of one pair of views."""
        blocks = self.negatives(pairs, i, j)
        logits = torch.cat([sims for sims, _ in blocks], 1) / self.temperature
        keep = torch.cat([keep.expand_as(sims) for sims, keep in blocks], 1)
        if self.kernel is not None:
            m, weights = pairs.keys.shape[1], log_kernel(self.kernel, pairs, self.on, i)
            in_batch = len(blocks) if pairs.queue is None else len(blocks) - 1
            weights = torch.cat([weights[:, :m]] * in_batch + [weights[:, m:]], 1)
            logits, keep = logits + weights, keep & (weights > EMPTY / 2)
        some = keep.any(1)
        value = logsumexp(logits, keep) - pairs.own_sim(i, j) / self.temperature
        return value.where(some, 0), some.to(value.dtype)

    def negatives(self, pairs: Pairs, i: int, j: int) -> list[tuple[Tensor, Tensor]]:
        """Blocks of inner products (n, ·) of anchors and negatives, and masks of those that count."""
        return pairs.negatives(i, j, self.within_view)


class DHEL(DCL):
    """Decoupled hyperspherical energy loss (DHEL): only the anchor's own view repels.

    ``-s_ii / τ + log Σ_{j≠i} exp( x_i · x_j / τ )``, where x are embeddings of one view.  Positive: the
    own sample's other view.  Negatives: the other samples' keys of the anchor's own view, and the
    queue.  Anchors without negatives get weight 0.

    With a kernel, which is ours, conditional uniformity as in DCL.

    With ``symmetric=False`` it is the paper's loss.  The authors' code by default adds the energies of
    both views to one alignment; here both are means over the two directions.

    Args:
        kernel: A similarity of condition values, or None.
        on: The name of the condition that the kernel reads.

    Source:
        Koromilas et al., Bridging Mini-Batch and Asymptotic Analysis in Contrastive Learning (2024);
        the kernel is not in the paper.
    """

    def __init__(
        self,
        temperature: Scalar = 0.3,
        *,
        kernel: Kernel | None = None,
        symmetric: bool = True,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(
            temperature,
            kernel=kernel,
            symmetric=symmetric,
            on=on,
            exclude=exclude,
            gather_distributed=gather_distributed,
        )

    def negatives(self, pairs: Pairs, i: int, j: int) -> list[tuple[Tensor, Tensor]]:
        """Those of the anchor's own view, and of the queue."""
        own_view = pairs.within(i)
        if own_view is not None:
            return pairs.negatives(i, own_view, within_view=False)
        if pairs.queue is None or pairs.draws is not None:
            raise ValueError("DHEL needs keys of the anchor's own view, or a queue")
        return pairs.negatives(i, j, within_view=False)[-1:]
