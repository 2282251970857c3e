"""Slow loops of the InfoNCE family: one anchor, one score at a time, from the papers' sums.

They share nothing with the package.  Views are (b, d) tensors; everything is float64.
"""

from __future__ import annotations

import torch
from support.slow_loops import cosine


def score(a, k, tau):
    return torch.exp(cosine(a, k) / tau)


def share(a, positives, others, tau):
    """The mean over the positives of -log of its share among positives and others."""
    all_scores = sum(score(a, k, tau) for k in [*positives, *others])
    return sum(-torch.log(score(a, p, tau) / all_scores) for p in positives) / len(positives)


def mean(values):
    return sum(values) / len(values)


def each_share(a, positives, others, tau):
    """The mean over the positives of -log of its share among itself and the others."""
    return mean([share(a, [p], others, tau) for p in positives])


def joint_share(a, positives, others, tau):
    """-log of the mean share of the positives among positives and others."""
    all_scores = sum(score(a, k, tau) for k in [*positives, *others])
    return -torch.log(sum(score(a, p, tau) / all_scores for p in positives) / len(positives))


def mean_of_each_share(a, positives, others, tau):
    """-log of the mean share of the positives, each among itself and the others."""
    return -torch.log(mean([torch.exp(-share(a, [p], others, tau)) for p in positives]))


def soft(x, y, targets, tau, anchors=None, candidates=lambda i, j: True):
    """Cross-entropy of row i of the targets, normalized over its candidates."""
    b, values = range(len(x)), []
    for i in b if anchors is None else anchors:
        keys = [j for j in b if candidates(i, j)]
        all_scores = sum(score(x[i], y[j], tau) for j in keys)
        all_targets = sum(targets[i][j] for j in keys)
        terms = (targets[i][j] * torch.log(score(x[i], y[j], tau) / all_scores) for j in keys)
        values.append(-sum(terms) / all_targets)
    return mean(values)


def both(slow, x, y, *args, **kwargs):
    """The mean of both directions."""
    return (slow(x, y, *args, **kwargs) + slow(y, x, *args, **kwargs)) / 2


def random_batch(b=7, d=5, seed=0, views=2):
    """Raw embeddings with gradients, and class ids, one of which occurs once."""
    generator = torch.Generator().manual_seed(seed)
    out = [torch.randn(b, d, generator=generator, dtype=torch.float64) for _ in range(views)]
    ids = torch.tensor([0, 1, 0, 2, 1, 0, 1][:b])
    return [view.requires_grad_() for view in out], ids


def assert_same(fast, slow, inputs):
    """In value and gradient."""
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(fast, inputs),
        torch.autograd.grad(slow, inputs),
        rtol=1e-9,
        atol=1e-12,
    )
