"""How embeddings lie on the unit sphere."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def alignment(x: Tensor, y: Tensor) -> Tensor:
    """The mean squared distance of two views of the same samples: 0 if they agree, 2 if unrelated.

    Args:
        x: (n, d) embeddings of one view; normalized here.
        y: (n, d) embeddings of another view, or keys; row i is the sample of row i of ``x``.

    Source:
        Wang and Isola, Understanding Contrastive Representation Learning through Alignment and
        Uniformity on the Hypersphere (2020), section 4.1, with α = 2.
    """
    return (functional.normalize(x, dim=1) - functional.normalize(y, dim=1)).square().sum(1).mean()


def uniformity(x: Tensor) -> Tensor:
    """The log of the mean Gaussian kernel of two samples: 0 if all agree, lower the more they spread.

    ``log mean_{i<j} exp(-2 |x_i - x_j|²)``.

    Args:
        x: (n, d) embeddings of one view, n of at least 2; normalized here.

    Source:
        Wang and Isola (2020), section 4.1, with t = 2.
    """
    unit = functional.normalize(x, dim=1)
    others = ~torch.eye(len(x), dtype=torch.bool, device=x.device)
    # |a - b|² is 2 - 2 ab on the sphere.
    exponents = (4 * (unit @ unit.T) - 4).masked_fill(~others, -torch.inf)
    count = torch.tensor(float(len(x) * (len(x) - 1)), device=x.device)
    return exponents.flatten().logsumexp(0) - count.log()


def same_class(anchors: Tensor, others: Tensor, counts: Tensor) -> Tensor:
    """(2,) how many negatives have their anchor's class, and how many negatives there are.

    Only anchors and negatives with a class are looked at.

    Args:
        anchors: (n,) class ids, -1 for none.
        others: (k,) or (n, k) class ids of what the anchors are compared with.
        counts: (n, k) True at the negatives.
    """
    negatives = counts & (others >= 0) & (anchors >= 0)[:, None]
    same = negatives & (others == anchors[:, None])
    return torch.stack([same.sum(), negatives.sum()])
