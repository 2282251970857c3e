"""Kernels in every setting that makes a difference, and values to compare with them."""

from __future__ import annotations

import torch

from ccl_plugins.kernels import (
    RBF,
    Cosine,
    Delta,
    Jaccard,
    Laplacian,
    Linear,
    Polynomial,
    Product,
    Sum,
)

KERNELS = {
    "rbf": RBF(3.0),
    "rbf median": RBF("median"),
    "laplacian": Laplacian(2.0),
    "laplacian L1": Laplacian(2.0, norm=1),
    "laplacian median": Laplacian("median"),
    "laplacian L1 median": Laplacian("median", norm=1),
    "linear": Linear(2.0),
    "linear normalized": Linear(2.0, normalize=True),
    "cosine": Cosine(),
    "polynomial": Polynomial(degree=3, coef0=0.0, scale=2.0),
    "polynomial with coef0": Polynomial(degree=2, coef0=0.7, scale=2.0),
    "polynomial normalized": Polynomial(degree=3, coef0=0.7, scale=2.0, normalize=True),
    "delta": Delta(),
    "jaccard": Jaccard(),
    "product": Product([RBF(3.0), Linear()]),
    "product with features": Product([Linear(), Polynomial(degree=2, coef0=1.0), Cosine()]),
    "sum": Sum([RBF(3.0), Delta()], [0.5, 2.0]),
    "sum with features": Sum([Linear(), Cosine()], [0.5, 2.0]),
}

MEDIANS = {"median": {"scale": "median"}}
KERNEL_VARIANTS = {
    "kernel/rbf": MEDIANS,
    "kernel/laplacian": {
        **MEDIANS,
        "L1": {"scale": 2.0, "norm": 1},
        "L1 median": {"scale": "median", "norm": 1},
    },
    "kernel/linear": {"normalized": {"scale": 2.0, "normalize": True}},
    "kernel/polynomial": {
        "coef0": {"degree": 2, "coef0": 0.7, "scale": 2.0},
        "normalized": {"degree": 3, "coef0": 0.7, "scale": 2.0, "normalize": True},
    },
    "kernel/product": {"with features": {"kernels": ["linear", "polynomial", "cosine"]}},
    "kernel/sum": {"with features": {"kernels": ["linear", "cosine"], "weights": [0.5, 2.0]}},
}
"""Settings beside the examples of the classes, for the conformance kit."""


def values(n=12, c=3, seed=0, dtype=torch.float64):
    return torch.randn(n, c, generator=torch.Generator().manual_seed(seed), dtype=dtype)
