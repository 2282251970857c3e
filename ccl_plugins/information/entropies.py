"""Entropies and mutual information of discrete variables, in bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Entropies:
    """The information that a conditioning variable Z has about a target T, in bits, each 0 or more.

    Args:
        entropy: H(Z).
        conditional_entropy: H(Z|T), the part of Z that has nothing to do with T.
        mutual: I(Z;T), the part of Z that is about T.
    """

    entropy: float
    conditional_entropy: float
    mutual: float


def information(
    z: Tensor | np.ndarray[Any, Any] | Sequence[int],
    t: Tensor | np.ndarray[Any, Any] | Sequence[int],
) -> Entropies:
    """Entropy and mutual information of two discrete variables, in bits.

    ``H(Z|T) = H(Z, T) - H(T)`` and ``I(Z;T) = H(Z) - H(Z|T)``, from counts, without a correction for
    their bias: a Z with as many values as samples looks maximally informative.

    Args:
        z: (N,) ids of the conditioning variable, such as clusters; any integers.
        t: (N,) ids of the target, such as classes; any integers.

    Raises:
        TypeError: If one of them does not hold integers.
        ValueError: If one is empty or not one-dimensional, or if their lengths differ.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), section 3.2.
    """
    z_ids, t_ids = _ids("z", z), _ids("t", t)
    if len(z_ids) != len(t_ids):
        raise ValueError(f"z and t must be equally long, not {len(z_ids)} and {len(t_ids)}")
    joint = z_ids * (int(t_ids.max()) + 1) + t_ids  # one id per pair; ids are below N, so it fits
    h_z, h_t, h_joint = entropy(z_ids), entropy(t_ids), entropy(joint)
    # Rounding may leave -1e-16 where Z follows from T, or where they are independent.
    conditional = max(h_joint - h_t, 0.0)
    return Entropies(h_z, conditional, max(h_z - conditional, 0.0))


def entropy(values: Tensor) -> float:
    """The entropy H of a discrete variable, in bits, from counts.

    Args:
        values: (N,), N > 0.
    """
    counts = torch.unique(values, return_counts=True)[1].double()
    p = counts / counts.sum()
    return max(0.0, -float((p * p.log2()).sum()))  # in this order not -0.0


def crossing(candidates: Sequence[Entropies]) -> int:
    """The place of the candidate nearest to the crossing of I(Z;T) and -H(Z|T), usually the best.

    Both are first scaled to 0 to 1 over the candidates; among equally near candidates, the first is
    taken.

    Args:
        candidates: The information of each Z about one T; one or more.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), section 4.3.
    """
    if not candidates:
        raise ValueError("candidates must hold one Entropies or more, not none")
    distance = (
        to_unit(candidates, "mutual") - (1 - to_unit(candidates, "conditional_entropy"))
    ).abs()
    return int((distance <= distance.min() + 1e-12).nonzero()[0])


def to_unit(
    candidates: Sequence[Entropies], quantity: Literal["mutual", "conditional_entropy", "entropy"]
) -> Tensor:
    """(len,) one quantity of several variables, 0 for the least and 1 for the most; 0 if all are equal."""
    values = torch.tensor([getattr(each, quantity) for each in candidates], dtype=torch.float64)
    spread = values.max() - values.min()
    return (values - values.min()) / spread if spread > 0 else torch.zeros_like(values)


def _ids(name: str, values: Any) -> Tensor:
    """(N,) long tensor of ids 0, 1, ... for the values of one variable."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError) as error:  # strings, ragged lists
        raise TypeError(f"{name} must hold integers, not {values!r:.80}") from error
    if tensor.ndim != 1 or len(tensor) == 0:
        raise ValueError(f"{name} must be (N,) with N > 0, not of shape {tuple(tensor.shape)}")
    if tensor.is_floating_point() or tensor.is_complex():
        raise TypeError(f"{name} must hold integers, not {tensor.dtype}; cluster it first")
    return torch.unique(tensor, return_inverse=True)[1]
