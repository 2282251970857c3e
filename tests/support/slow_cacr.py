"""CACR as loops over single samples, written from the paper, and what its tests compare with.

They share nothing with the package.  Views are (views, n, d) tensors, not normalized.
"""

from __future__ import annotations

import torch


def random_views(count, n=6, d=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, n, d, generator=generator, dtype=torch.float64).requires_grad_()


def softmax(logits):
    exps = [torch.exp(x) for x in logits]
    return [e / sum(exps) for e in exps]


def distance(a, b):
    return ((a / a.norm() - b / b.norm()) ** 2).sum()


def moved(costs, seen, t):
    """The expected cost under softmax(t · seen)."""
    return sum(w * c for w, c in zip(softmax([t * s for s in seen]), costs, strict=True))


def slow_attraction(views, i, t_plus, detach=False):
    total = 0.0
    for n in range(views.shape[1]):
        costs = [distance(views[i, n], views[k, n]) for k in range(len(views)) if k != i]
        seen = [c.detach() for c in costs] if detach else costs
        total = total + moved(costs, seen, t_plus)
    return total / views.shape[1]


def slow_repulsion(queries, others, t_minus, detach=False):
    total = 0.0
    for n in range(len(queries)):
        costs = [distance(queries[n], others[m]) for m in range(len(others)) if m != n]
        seen = [c.detach() for c in costs] if detach else costs
        total = total - moved(costs, seen, -t_minus)
    return total / len(queries)


def slow_queue(q, k, queue, t_plus, t_minus, intra_batch, reuse_first_products=False):
    """Algorithm 3.  The released code takes the queue's products of the first view for all views."""
    total, n = 0.0, q.shape[1]
    for v in range(len(q)):
        for i in range(n):
            costs = [distance(q[v, i], k[w, i]) for w in range(len(k)) if w != v]
            total = total + moved(costs, [c.detach() for c in costs], t_plus)
            first = q[0, i] if reuse_first_products else q[v, i]
            costs = [distance(first, key) for key in queue]
            seen = [c.detach() for c in costs]
            if intra_batch:
                inside = [distance(q[v, i], q[v, j]) for j in range(n) if j != i]
                costs, seen = costs + inside, seen + inside
            total = total - moved(costs, seen, -t_minus)
    return total / n / len(q)


def assert_same(fast, slow, views):
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-14)
    torch.testing.assert_close(
        torch.autograd.grad(fast, views),
        torch.autograd.grad(slow, views, retain_graph=True),
        rtol=1e-9,
        atol=1e-12,
    )
