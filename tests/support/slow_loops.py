"""Slow loops written from the papers: one anchor, one pair, one number at a time.

They share nothing with the package.  Views are lists of (b, d) tensors; everything is float64.
"""

from __future__ import annotations

import math

import torch


def cosine(a, b):
    return (a * b).sum() / (a.norm() * b.norm())


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
