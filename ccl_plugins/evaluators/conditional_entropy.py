"""How evenly the negatives surround a query."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.arguments import checked, positive, whole
from ccl_plugins.evaluators.projections import projections_of
from ccl_plugins.protocols import Frozen, Measurement


@dataclass(eq=False, repr=False)
class ConditionalEntropy:
    """Entropy of the weights that CACR gives to negatives: how evenly they surround a query.

    Gives ``"projections/conditional_entropy"``, the mean over queries of the entropy in nats of
    ``π⁻_ij ∝ exp(-t⁻ |x_i - x_j|²)`` over the others of a batch. It is log(batch - 1) if all other
    samples are equally far, and grows as the projections spread.

    Split: measured on the test split, in batches of a fixed shuffle; nothing is fitted and nothing
    selected.

    Args:
        t_minus: t⁻, above 0.
        batch: Samples of a batch, 2 or more; if there are fewer, all are one batch.

    Raises:
        ValueError: If a parameter is out of its range; on use, for features without projections, and for
            projections that are not finite.
        UndefinedMetric: On use, if there are fewer than two samples.

    Source:
        Zheng et al., Contrastive Attraction and Contrastive Repulsion for Representation Learning (2023),
        equation (8) and figure 3, which uses batches of a validation split.
    """

    reads_projections = True

    t_minus: float = checked(positive, default=2.0)
    batch: int = checked(whole, least=2, default=256)

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``projections/conditional_entropy``."""
        (x,) = projections_of(test)
        n = min(self.batch, len(x))
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
        batches = order[: len(x) // n * n].view(-1, n)
        value = sum(conditional_entropy(x[rows], self.t_minus).item() for rows in batches)
        return [
            Measurement(
                "projections/conditional_entropy",
                value / len(batches),
                sentence=f"the entropy in nats of the weights that CACR gives to {n - 1} negatives",
                samples=batches.numel(),
            )
        ]


def conditional_entropy(embeddings: Tensor, t_minus: float = 1.0) -> Tensor:
    """The entropy of π⁻, in nats, at most log(M - 1): how evenly the negatives surround a query.

    ``mean_i Σ_{j≠i} -π⁻_ij ln π⁻_ij``; a diagnostic, not a loss.

    Args:
        embeddings: (M, d), M at least 2; normalized here.
        t_minus: t⁻, above 0.

    Raises:
        ValueError: For other shapes.
    """
    if embeddings.ndim != 2 or len(embeddings) < 2:
        raise ValueError(
            f"embeddings must be (M, d) with M of at least 2, not {tuple(embeddings.shape)}"
        )
    unit = normalize(embeddings)
    # -t⁻ |a - b|² is 2 t⁻ ab, up to a constant.
    logs = (2 * t_minus * (unit @ unit.T)).fill_diagonal_(-torch.inf).log_softmax(dim=1)
    weights = logs.exp()
    return -(weights * logs.fill_diagonal_(0)).sum(dim=1).mean()
