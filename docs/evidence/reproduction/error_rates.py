"""How often two rules call a difference shown where there is none; writes ``error_rates.json``.

``python docs/evidence/reproduction/error_rates.py`` draws experiments of six configurations with one
mean, whose
values are seed + error.  The first two are compared.  *Earlier* is the rule that ``claims.py`` had: the
errors of all configurations together, by the additive model, unless Bartlett's test (p below .05, of the
values or of the residuals) says that configurations spread differently; then seed by seed.  *Seed by seed*
is the rule that it has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, t

FILE = Path(__file__).with_suffix(".json")
LEVELS = (0.05, 0.001)
"""Of one test, and about that of a row among the papers'."""
SPREADS = {"alike": (1, 1, 1, 1, 1, 1), "twice": (2, 2, 1, 1, 1, 1), "thrice": (3, 3, 1, 1, 1, 1)}
"""The deviations of the six configurations: those that are compared are the first two."""


def rates(seeds: int, deviations: Sequence[float], draws: int = 100_000) -> dict[str, list[float]]:
    """By rule, the share of draws with p below each of the levels."""
    generator, k = np.random.default_rng(0), len(deviations)
    y = generator.normal(size=(draws, k, seeds)) * np.array(deviations)[:, None]
    y += generator.normal(size=(draws, 1, seeds))
    rest = y - y.mean(2, keepdims=True) - y.mean(1, keepdims=True) + y.mean((1, 2), keepdims=True)
    difference = y[:, 0] - y[:, 1]
    paired = p_of(difference.mean(1), difference.std(1, ddof=1) / seeds**0.5, seeds - 1)
    df = (k - 1) * (seeds - 1)
    pooled = p_of(difference.mean(1), (2 * (rest**2).sum((1, 2)) / df / seeds) ** 0.5, df)
    alike = (bartlett(y) >= 0.05) & (bartlett(rest) >= 0.05)
    found = {"earlier": np.where(alike, pooled, paired), "seed by seed": paired}
    return {rule: [float((p < level).mean()) for level in LEVELS] for rule, p in found.items()}


def p_of(mean: NDArray[np.float64], error: NDArray[np.float64], df: int) -> NDArray[np.float64]:
    """Two-sided, by Student's t."""
    return 2 * t.sf(np.abs(mean) / error, df)


def bartlett(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """(draws,) p of Bartlett's test that the k groups of y (draws, k, n) spread alike."""
    _, k, n = y.shape
    variances = y.var(2, ddof=1)
    statistic = k * np.log(variances.mean(1)) - np.log(variances).sum(1)
    return chi2.sf((n - 1) * statistic / (1 + (k + 1) / (3 * k * (n - 1))), k - 1)


def main() -> None:
    """Draw, and write the shares."""
    found = [
        {"seeds": seeds, "spread": name, **rates(seeds, deviations)}
        for name, deviations in SPREADS.items()
        for seeds in (6, 8, 20)
    ]
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
