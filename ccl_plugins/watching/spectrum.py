"""Rank of embeddings: over how many directions they spread."""

from __future__ import annotations

import torch
from torch import Tensor


def singular_values(gram: Tensor) -> Tensor:
    """(d,) the singular values of a matrix X (n, d), from ``X'X`` (d, d) in float64."""
    return torch.linalg.eigvalsh(gram).clamp_min(0).sqrt()


def rankme(singular: Tensor, eps: float = 1e-7) -> Tensor:
    """The exponential of the entropy of ``σ_k / Σ σ + ε``: about the rank, between 1 and d.

    Args:
        singular: (d,) singular values σ of the embeddings (n, d), not centered.
        eps: ε.

    Source:
        Garrido et al., RankMe: Assessing the Downstream Performance of Pretrained Self-Supervised
        Representations by Their Rank (2023), equations (1) and (2).
    """
    p = singular / singular.sum().clamp_min(torch.finfo(singular.dtype).tiny) + eps
    return (-(p * p.log()).sum()).exp()


def effective_rank(singular: Tensor) -> Tensor:
    """The exponential of the entropy of ``σ_k / Σ σ``: 1 if one direction has all, d if all are equal.

    Args:
        singular: (d,) singular values σ; if all are 0, the effective rank is 1.

    Source:
        Roy and Vetterli, The Effective Rank: A Measure of Effective Dimensionality (2007), section 2.
    """
    p = singular / singular.sum().clamp_min(torch.finfo(singular.dtype).tiny)
    return (-torch.special.xlogy(p, p).sum()).exp()
