"""What the released code of CCL-K computes, in the log domain.

It differs from the paper's equations (7)-(9): the kernel's diagonal is overwritten with 1, which can
make it indefinite; the weights' diagonal is 0, so that the own pair has no weight; weights below 1e-6
are 0; other samples count in the anchor's own view too, with the same weight; the weakly supervised
loss has the own pair in its denominator alone; and what logs are taken of is clamped.

Source:
    Tsai et al., Conditional Contrastive Learning with Kernel (2022), the authors' code.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ccl_plugins.numerics.logsumexp import as_vectors, log_weights, logsumexp_blocks, masked
from ccl_plugins.objectives.scalars import Number
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Kernel

LEAST_WEIGHT = 1e-6
LOG_RANGE = (math.log(1e-7), math.log(1e20))


def released_operator(
    kernel: Kernel,
    z: Tensor,
    ridge: Number,
    rows: slice = slice(None),
    valid: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Weights of the released code, arguments and shapes as in `conditioning.conditional_operator`.

    Returns:
        (rows, m), 0 or above 1e-6, without gradient; NaN where K + ridge I is singular.
    """
    with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
        values = as_vectors(z)
        if values.dtype.is_floating_point:
            values = values.double()
        gram = kernel(values, values).double().fill_diagonal_(1)
        if valid is not None:
            gram = gram * valid * valid[:, None]
        shifted = gram.clone()
        shifted.diagonal().add_(ridge)
        inverse, info = torch.linalg.inv_ex(shifted)
        weights = (inverse @ gram).fill_diagonal_(0)
        weights = weights.masked_fill(weights < LEAST_WEIGHT, 0)
        return torch.where(info == 0, weights[rows], torch.nan).to(dtype)


def released_positives(
    pairs: Pairs, i: int, j: int, weights: Tensor, temperature: Number
) -> Tensor:
    """(n,) minus log of the weighed other samples' share among these, all others and the own key."""
    blocks = pairs.contrast(i, j, within_view=True)
    rest = [masked(sims / temperature, keep) for sims, keep in blocks]
    log_positives = _log_expectation(pairs, i, j, weights, temperature).clamp(*LOG_RANGE)
    log_all = logsumexp_blocks([*rest, log_positives[:, None]])
    return log_all.clamp(*LOG_RANGE) - log_positives


def released_negatives(
    pairs: Pairs, i: int, j: int, weights: Tensor, temperature: Number, others: Tensor
) -> Tensor:
    """(n,) minus log of the own key's share among it and b - 1 ``others`` times the weighed ones."""
    own = pairs.own_sim(i, j) / temperature
    log_negatives = _log_expectation(pairs, i, j, weights, temperature) + others.log()
    return torch.logaddexp(own, log_negatives).clamp(*LOG_RANGE) - own


def _log_expectation(pairs: Pairs, i: int, j: int, weights: Tensor, temperature: Number) -> Tensor:
    """(n,) log of the weighed sum over the others' keys of view ``j``, of view ``i``, and the queue."""
    m, own_view = pairs.keys.shape[1], pairs.within(i)
    logs = log_weights(weights)
    blocks = [pairs.sim(i, j) / temperature + logs[:, :m]]
    if own_view is not None:
        blocks.append(pairs.sim(i, own_view) / temperature + logs[:, :m])
    if pairs.queue is not None:
        queue = masked(pairs.sim_queue(i) / temperature, pairs.in_queue())
        blocks.append(queue + logs[:, m:])
    return logsumexp_blocks(blocks)
