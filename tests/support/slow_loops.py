"""Slow loops written from the papers: one anchor, one pair, one number at a time.

They share nothing with the package.  Views are lists of (b, d) tensors; everything is float64.
"""

from __future__ import annotations

import math

import torch


def cosine(a, b):
    return (a * b).sum() / (a.norm() * b.norm())


def infonce(x, y, tau):
    """-log of the own key's share among the other view's keys, mean over the anchors of x."""
    total = 0.0
    for i in range(len(x)):
        scores = [torch.exp(cosine(x[i], y[j]) / tau) for j in range(len(y))]
        total = total - torch.log(scores[i] / sum(scores))
    return total / len(x)


def nt_xent(x, y, tau):
    """Every one of 2b embeddings against the 2b - 1 others."""
    b, z = len(x), torch.cat([x, y])
    total = 0.0
    for i in range(2 * b):
        scores = {j: torch.exp(cosine(z[i], z[j]) / tau) for j in range(2 * b) if j != i}
        total = total - torch.log(scores[(i + b) % (2 * b)] / sum(scores.values()))
    return total / (2 * b)


def kernel(name, a, b, scale=1.0, degree=3, coef0=0.0):
    if name == "rbf":
        return math.exp(-sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) / scale)
    if name == "laplacian":
        return math.exp(-math.sqrt(sum((p - q) ** 2 for p, q in zip(a, b, strict=True))) / scale)
    dot = sum(p * q for p, q in zip(a, b, strict=True))
    if name == "linear":
        return dot / scale
    if name == "polynomial":
        return (dot + coef0) ** degree / scale
    norms = math.sqrt(sum(p * p for p in a)) * math.sqrt(sum(q * q for q in b))
    return dot / norms if norms else 0.0


def gram(name, z, **settings):
    rows = z.tolist()
    return torch.tensor(
        [[kernel(name, a, b, **settings) for b in rows] for a in rows], dtype=torch.float64
    )


def operator(k, ridge):
    """(K + ridge I)^-1 K by a plain inverse."""
    return torch.linalg.inv(k + ridge * torch.eye(len(k), dtype=k.dtype)) @ k


def cclk(kind, x, y, w, tau, clip=True):
    """Equations (7), (8) and (9) with the weights as given, mean over the anchors of x."""
    b, total = len(x), 0.0
    for i in range(b):
        e = [torch.exp(cosine(x[i], y[j]) / tau) for j in range(b)]
        c = sum((max(w[j, i].item(), 0.0) if clip else w[j, i].item()) * e[j] for j in range(b))
        if kind == "weaklysup":
            total = total - torch.log(c / (c + sum(e[j] for j in range(b) if j != i)))
        else:
            total = total - torch.log(e[i] / (e[i] + (b - 1) * c))
    return total / b


def cclk_released(kind, x, y, k, ridge, tau):
    """What the released code of CCL-K computes with the kernel matrix k, over the anchors of x."""
    b, total = len(x), 0.0
    k = k.clone().fill_diagonal_(1)
    w = operator(k, ridge).fill_diagonal_(0)
    w = torch.where(w < 1e-6, 0, w)
    for i in range(b):
        cross = [torch.exp(cosine(x[i], y[j]) / tau) for j in range(b)]
        within = [torch.exp(cosine(x[i], x[j]) / tau) for j in range(b)]
        others = [j for j in range(b) if j != i]
        c = sum(w[j, i] * (cross[j] + within[j]) for j in others)
        if kind == "weaklysup":
            c = c.clamp(1e-7, 1e20)
            rest = sum(cross) + sum(within[j] for j in others)
            total = total - torch.log(c / (c + rest).clamp(1e-7, 1e20))
        else:
            total = total - torch.log(cross[i] / (cross[i] + (b - 1) * c).clamp(1e-7, 1e20))
    return total / b
