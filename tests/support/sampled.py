"""Statistical tests of samplers' draws against an expected distribution.

Their error rate is 1e-4: one seed of ten thousand fails a correct sampler.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

ERROR_RATE = 1e-4


def assert_distributed(counts, expected):
    """A chi-square test does not reject the counts, and what is never expected does not occur."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    assert counts[expected == 0].sum() == 0
    possible = expected > 0
    if possible.sum() == 1:  # nothing is random
        return
    chance = stats.chisquare(counts[possible], expected[possible]).pvalue
    assert chance > ERROR_RATE


def assert_in_proportion(partners, weights, anchors, repeats=3000, together=250):
    """Partners of anchors are drawn in proportion to their rows of weights; rare partners count as one."""
    draws = np.random.default_rng(0)
    # Many anchors at once, whose draws must be independent.
    repeated = torch.tensor([anchors] * together).flatten()
    drawn = torch.cat([partners.draw(repeated, draws) for _ in range(repeats // together)])
    for place, anchor in enumerate(anchors):
        chosen = torch.bincount(drawn[place :: len(anchors)], minlength=len(weights))
        row = weights[anchor].double()
        if row.sum() == 0:
            assert chosen[anchor] == repeats
            continue
        expected = repeats * row / row.sum()
        rare = expected < 5
        assert_distributed(
            [*chosen[~rare], chosen[rare].sum()], [*expected[~rare], expected[rare].sum()]
        )
