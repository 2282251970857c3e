"""Slow loops for UCL, H-UCL, SCL, H-SCL and HCL: one anchor, one pair, one number at a time.

They share nothing with the package.  Everything is float64.
"""

from __future__ import annotations

import math

import torch
from support.slow_loops import cosine


def anchor(a, positives, negatives, o, tau, beta=0.0, threshold=None, fixed=False, tau_plus=None):
    """Equation (29), once for each positive; nothing where no negative is left.

    ``threshold`` is that of equation (5), ``tau_plus`` HCL's; ``fixed`` weights carry no gradient.
    """
    scores = [torch.exp(cosine(a, k) / tau) for k in negatives]
    if threshold is not None:
        scores = [e for e in scores if e >= threshold]
    if not scores:
        return []
    weights = [e**beta for e in scores]
    if fixed:
        weights = [w.detach() for w in weights]
    mean = sum(w * e for w, e in zip(weights, scores, strict=True)) / sum(weights)
    values = []
    for p in positives:
        own = torch.exp(cosine(a, p) / tau)
        debiased = mean
        if tau_plus is not None:
            debiased = (mean - tau_plus * own) / (1 - tau_plus)
            debiased = debiased.clamp_min(math.exp(-1 / tau))
        values.append(torch.log(1 + o * debiased / own))
    return values


def two_views(
    x, y, o="batch", labels=None, all_positives=False, by_anchor=False, within=True, queue=(), **s
):
    """The mean over both views' anchors, or over all their pairs with a positive.

    ``queue`` holds (key, label, the sample whose image it is).
    """
    b, views = len(x), (x, y)
    values = []
    for v in (0, 1):
        for i in range(b):
            keys = [
                (views[w][j], j) for j in range(b) if j != i for w in (0, 1) if within or w != v
            ]
            others = [(key, None if labels is None else labels[j]) for key, j in keys]
            others += [(key, label) for key, label, image in queue if image != i]
            number = {"batch": b, "negatives": len(others)}.get(o, o)
            mine = None if labels is None else labels[i]
            negatives = [key for key, label in others if labels is None or label != mine]
            positives = [views[1 - v][i]]
            if all_positives:
                positives += [key for key, label in others if label == mine]
            each = anchor(views[v][i], positives, negatives, number, **s)
            values += [sum(each) / len(each)] if by_anchor and each else each
    return sum(values) / len(values) if values else (x * 0).sum()
