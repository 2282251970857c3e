"""CCL-K's other forms: the equations as printed, with weights of any sign, and the released code.

``form="released"`` is what the authors' code computes.  It differs from equations (7)-(9): the kernel's
diagonal is overwritten with 1, which can make the kernel indefinite; the diagonal of W is 0, so that the
own key has no weight; weights below 1e-6 are 0; keys of the anchor's own view count too, with the same
weights; the arguments of logarithms are clamped.

The functions return (n,) values of one pair of views, from weights W (n, m + q) of batch and queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from ccl_plugins.numerics.condition_values import as_vectors
from ccl_plugins.numerics.kernel_functions import KernelFunction, similarities
from ccl_plugins.numerics.logsumexp import EMPTY, log_weights, logsumexp_blocks, masked, softplus
from ccl_plugins.numerics.numbers import Number
from ccl_plugins.pairs.pairs import Pairs

Form: TypeAlias = Callable[[Pairs, int, int, Tensor, Number], Tensor]
"""From pairs, an anchor view and a key view, weights, and τ, to the values."""


class Forms(NamedTuple):
    """An objective's equation as printed, for ``negative_weights="keep"``, and as released."""

    printed: Form
    released: Form


LEAST_WEIGHT = 1e-6
"""The released code drops weights below this."""
LOG_RANGE = (math.log(1e-7), math.log(1e20))
"""The released code clamps the arguments of logarithms to this range, here as logarithms."""


def fair_as_printed(pairs: Pairs, i: int, j: int, weights: Tensor, temperature: Number) -> Tensor:
    """``-log( e_ii / (e_ii + (b - 1) c_i) )``, NaN where the sum is not above 0."""
    c, shift = _signed_expectation(pairs, i, j, weights, temperature)
    own = pairs.own_sim(i, j) / temperature - shift
    return _log_or_nan(own.exp() + other_samples(pairs) * c) - own


def weaklysup_as_printed(
    pairs: Pairs, i: int, j: int, weights: Tensor, temperature: Number
) -> Tensor:
    """``-log( c_i / (c_i + Σ_{j≠i} e_ij) )``, NaN where ``c_i`` is not above 0."""
    others = [masked(s / temperature, keep) for s, keep in pairs.negatives(i, j, False)]
    c, shift = _signed_expectation(pairs, i, j, weights, temperature)
    return softplus(logsumexp_blocks(others) - _log_or_nan(c) - shift)


def fair_as_released(pairs: Pairs, i: int, j: int, weights: Tensor, temperature: Number) -> Tensor:
    """``-log( e_ii / clamp(e_ii + (b - 1) c_i) )``."""
    own = pairs.own_sim(i, j) / temperature
    log_c = _released_expectation(pairs, i, j, weights, temperature)
    log_negatives = log_c + other_samples(pairs).log()
    return torch.logaddexp(own, log_negatives).clamp(*LOG_RANGE) - own


def weaklysup_as_released(
    pairs: Pairs, i: int, j: int, weights: Tensor, temperature: Number
) -> Tensor:
    """``-log( clamp(c_i) / clamp(c_i + Σ_j e_ij) )`` with the own key, and both views, in the sum."""
    blocks = pairs.contrast(i, j, within_view=True)
    rest = [masked(sims / temperature, keep) for sims, keep in blocks]
    log_c = _released_expectation(pairs, i, j, weights, temperature).clamp(*LOG_RANGE)
    log_all = logsumexp_blocks([*rest, log_c[:, None]])
    return log_all.clamp(*LOG_RANGE) - log_c


def _signed_expectation(
    pairs: Pairs, i: int, j: int, weights: Tensor, temperature: Number
) -> tuple[Tensor, Tensor]:
    """(n,) ``c_i = Σ_j W_ji exp(s_ij - shift_i)`` with weights of any sign, and the shift."""
    scores = pairs.sim(i, j)
    if pairs.queue is not None:
        queued = pairs.sim_queue(i).masked_fill(~pairs.in_queue(), EMPTY)
        scores = torch.cat([scores, queued], 1)
    scores = scores / temperature
    shift = scores.detach().amax(1)
    return (weights * (scores - shift[:, None]).exp()).sum(1), shift


def _released_expectation(
    pairs: Pairs, i: int, j: int, weights: Tensor, temperature: Number
) -> Tensor:
    """(n,) ``log c_i`` over other samples' keys of views ``j`` and ``i``, and the queue."""
    m, own_view = pairs.keys.shape[1], pairs.within(i)
    logs = log_weights(weights)
    blocks = [pairs.sim(i, j) / temperature + logs[:, :m]]
    if own_view is not None:
        blocks.append(pairs.sim(i, own_view) / temperature + logs[:, :m])
    if pairs.queue is not None:
        queued = masked(pairs.sim_queue(i) / temperature, pairs.in_queue())
        blocks.append(queued + logs[:, m:])
    return logsumexp_blocks(blocks)


@torch.no_grad()
def released_operator(
    kernel: KernelFunction, z: Tensor, ridge: Number, rows: slice, valid: Tensor | None
) -> Tensor:
    """(n, m + q) weights of the released code, 0 or above 1e-6; NaN where K + ridge I is singular.

    Args:
        kernel: A similarity of condition values.
        z: (m + q, c) or (m + q,), the condition of batch and queue.
        ridge: λ.
        rows: The n anchors among the samples.
        valid: (m + q,) False for samples that do not exist.
    """
    values = as_vectors(z)
    if values.dtype.is_floating_point:
        values = values.double()
    gram = similarities(kernel, values, values)
    gram = gram.to(torch.float64, copy=True)  # the kernel may have kept its matrix
    gram.fill_diagonal_(1)
    if valid is not None:
        gram = gram * valid * valid[:, None]
    shifted = gram.clone()
    shifted.diagonal().add_(ridge)
    inverse, info = torch.linalg.inv_ex(shifted)
    weights = (inverse @ gram).fill_diagonal_(0)
    weights = weights.masked_fill(weights < LEAST_WEIGHT, 0)
    return torch.where(info == 0, weights[rows], torch.nan)


def other_samples(pairs: Pairs) -> Tensor:
    """0-d, the number b - 1 of samples beside the anchor over which the operator was solved."""
    others = pairs.anchors.new_zeros(()) + (pairs.sample_count - 1)
    if pairs.queue is not None:
        others = others + pairs.queue.valid.sum()
    return others.clamp_min(0)  # -1 if no sample has a value of the condition


def _log_or_nan(x: Tensor) -> Tensor:
    """``log x``; NaN for 0 and below."""
    return torch.where(x > 0, x, torch.nan).log()
