"""How far the negatives of Fair-CCLK are from their anchor in color, under each kernel; nothing is trained.

``python docs/evidence/reproduction/negatives.py`` draws batches of 256 colors as ColorMNIST has them,
computes the weights of the conditional operator as the experiment does, and writes
``examples/reproduction/results/negatives.json``.
"""

from __future__ import annotations

import statistics
from typing import Any

import torch
from pages import record

from ccl_plugins.datasets.color_mnist import PALETTE, mixture
from ccl_plugins.kernels import RBF, Cosine, Laplacian, Polynomial
from ccl_plugins.numerics.conditional_operator import conditional_operator

BATCH, BATCHES, RIDGE = 256, 20, 0.01
KERNELS = {
    "cosine": Cosine(),
    "rbf, scale 0.1": RBF(scale=0.1),
    "laplacian, scale 10.0": Laplacian(scale=10.0),
    "polynomial": Polynomial(),
}


def colors(kind: str, generator: torch.Generator) -> torch.Tensor:
    """(b, 3) colors in [0, 1], as the data set draws them."""
    if kind == "uniform":
        return torch.rand(BATCH, 3, generator=generator)
    places = torch.randint(len(PALETTE), (BATCH,), generator=generator)
    return mixture(places, generator) / 255


def measure(kernel: Any, z: torch.Tensor) -> tuple[float, float, float]:
    """The negatives' mean distance over that of all others, the same in brightness, the own key's share."""
    weights = conditional_operator(kernel, z, RIDGE).double().clamp(min=0)
    own = (weights.diag() / weights.sum(1)).mean()
    others = weights.clone().fill_diagonal_(0)
    equal = torch.ones_like(others).fill_diagonal_(0)
    distances = torch.cdist(z.double(), z.double())
    bright = (z.mean(1)[:, None] - z.mean(1)).abs().double()
    ratio = [
        (others * d).sum() / others.sum() / ((equal * d).sum() / equal.sum())
        for d in (distances, bright)
    ]
    return ratio[0].item(), ratio[1].item(), own.item()


def main() -> None:
    """Measure all kernels on both kinds of colors and write the results."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for kind in ("uniform", "mixture"):
        for name, kernel in KERNELS.items():
            metrics = found.setdefault(f"{kind}: {name}", {})
            for seed in range(3):
                generator = torch.Generator().manual_seed(seed)
                drawn = [measure(kernel, colors(kind, generator)) for _ in range(BATCHES)]
                means = map(statistics.fmean, zip(*drawn, strict=True))
                for metric, mean in zip(("distance", "brightness", "own"), means, strict=True):
                    metrics.setdefault(metric, {})[seed] = mean
    record("negatives", found)


if __name__ == "__main__":
    main()
