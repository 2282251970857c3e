"""MoCo v3's model and step in plain torch on one process, transcribed from the paper's code."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn
from torch.nn import functional


def build_mlp(layers, inputs, hidden, outputs, last_norm=True):
    found = []
    for layer in range(layers):
        before = inputs if layer == 0 else hidden
        after = outputs if layer == layers - 1 else hidden
        found.append(nn.Linear(before, after, bias=False))
        if layer < layers - 1:
            found += [nn.BatchNorm1d(after), nn.ReLU()]
        elif last_norm:
            found.append(nn.BatchNorm1d(after, affine=False))
    return nn.Sequential(*found)


class Reference(nn.Module):
    """Base encoder with projector, momentum encoder and predictor."""

    def __init__(self, backbone, features, hidden, dim, vit, temperature, momentum):
        super().__init__()
        projector = build_mlp(3 if vit else 2, features, hidden, dim)
        self.base = nn.Sequential(copy.deepcopy(backbone), projector)
        self.predictor = build_mlp(2, dim, hidden, dim, last_norm=vit)
        self.momentum = copy.deepcopy(self.base).requires_grad_(False)
        self.temperature = temperature
        self.first_momentum = momentum

    def contrast(self, q, k):
        q, k = functional.normalize(q, dim=1), functional.normalize(k, dim=1)
        logits = torch.einsum("nc,mc->nm", [q, k]) / self.temperature
        labels = torch.arange(len(logits))
        return nn.CrossEntropyLoss()(logits, labels) * (2 * self.temperature)

    def forward(self, x1, x2, part):
        """The loss after the fraction ``part`` of the run; moves the momentum encoder first."""
        q1 = self.predictor(self.base(x1))
        q2 = self.predictor(self.base(x2))
        m = 1.0 - 0.5 * (1.0 + math.cos(math.pi * part)) * (1.0 - self.first_momentum)
        with torch.no_grad():
            for slow, fast in zip(self.momentum.parameters(), self.base.parameters(), strict=True):
                slow.data = slow.data * m + fast.data * (1.0 - m)
            k1 = self.momentum(x1)
            k2 = self.momentum(x2)
        return self.contrast(q1, k2) + self.contrast(q2, k1)


def lars_step(parameters, buffers, lr, weight_decay, momentum=0.9, trust=0.001):
    """One step of LARS, which leaves 1-D parameters unscaled and undecayed."""
    with torch.no_grad():
        for p in parameters:
            step = p.grad
            if p.ndim > 1:
                step = step + weight_decay * p
                size, length = p.norm(), step.norm()
                ratio = trust * size / length if size > 0 and length > 0 else 1.0
                step = step * ratio
            buffer = buffers.setdefault(p, torch.zeros_like(p))
            buffer.mul_(momentum).add_(step)
            p.sub_(lr * buffer)
