"""Whether draws have the distribution that they should.

A statistical test accepts what is not rejected with an error rate of 1e-4: of ten thousand seeds, one
would fail a sampler that is right.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

ERROR_RATE = 1e-4


def assert_distributed(counts, expected):
    """The counts are such as draws with these expected counts give."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    assert counts[expected == 0].sum() == 0
    possible = expected > 0
    if possible.sum() == 1:  # nothing left to chance
        return
    chance = stats.chisquare(counts[possible], expected[possible]).pvalue
    assert chance > ERROR_RATE


def assert_in_proportion(partners, weights, anchors, repeats=3000, together=250):
    """Partners of some anchors are drawn in proportion to their rows of weights; rare ones together."""
    draws = np.random.default_rng(0)
    # Many at once: anchors in a batch must not be in each other's way.
    asked = torch.tensor([anchors] * together).flatten()
    drawn = torch.cat([partners.draw(asked, draws) for _ in range(repeats // together)])
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
