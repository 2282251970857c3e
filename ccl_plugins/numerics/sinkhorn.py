"""Sinkhorn-Knopp: soft assignments of samples to prototypes, in nearly equal parts."""

from __future__ import annotations

import torch
from torch import Tensor

from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.logsumexp import masked


@torch.no_grad()
def sinkhorn(
    scores: Tensor,
    epsilon: float | Tensor,
    iterations: int = 3,
    valid: Tensor | None = None,
    *,
    across: bool = False,
) -> Tensor:
    """Codes (m, k), without gradient: each row sums to 1, and over iterations each column to m / k.

    Starting from ``exp(scores / ε)``, each iteration divides every column by its sum over the samples,
    then every row by its sum. So rows sum to 1 after each iteration, but columns to m / k only in
    the limit: for cosines and 3 iterations, within about a third with ε = 0.05, and not at all with
    ε = 0.01.

    The first iteration is computed on logarithms, so that a small ε gives no inf or NaN, while lightly's
    and the authors' code exponentiate first. Results are the same if theirs are finite. In later
    iterations an entry that has underflowed stays 0, so with a tiny ε further iterations balance less.

    Args:
        scores: (m, k) inner products of samples and prototypes, which are not normalized here.
        epsilon: ε, above 0; the larger, the more even the rows.
        iterations: 1 or more.
        valid: (m,) True at samples that count in the columns' sums, and in m; None: all.  The others
            get codes too.
        across: Whether columns are summed over the samples of all processes, which may have different
            numbers of them.

    Source:
        Cuturi, Sinkhorn Distances (2013); Caron et al., Unsupervised Learning of Visual Features by
        Contrasting Cluster Assignments (2020), eqs. (3) to (5).
    """
    logits = scores / epsilon
    keep = None if valid is None else valid[:, None].expand_as(logits)
    columns = masked(logits, keep).logsumexp(0)
    if across:
        columns = gather(columns[None]).logsumexp(0)
    codes = (logits - columns).softmax(1)
    for _ in range(iterations - 1):
        # From here on every column has an entry of 1 / (m k) or more, so that no sum is 0.
        sums = codes.sum(0) if valid is None else valid.to(codes.dtype) @ codes
        codes = codes / (gather(sums[None]).sum(0) if across else sums)
        codes = codes / codes.sum(1, keepdim=True)
    return codes
