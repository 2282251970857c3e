"""Sinkhorn-Knopp against a loop over columns and rows, in one process and in two."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from ccl_plugins.numerics import sinkhorn

SCORES = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
VALID = torch.tensor([True, False, True, True, True, False, True])


def by_loops(scores, epsilon, iterations, valid):
    codes = (scores / epsilon).exp()
    for _ in range(iterations):
        for column in range(codes.shape[1]):
            codes[:, column] /= sum(codes[i, column] for i in range(len(codes)) if valid[i]).clone()
        for row in codes:
            row /= row.sum().clone()
    return codes


@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize("valid", [None, VALID])
def test_codes_are_those_of_a_loop(iterations, valid):
    everyone = torch.ones(7, dtype=torch.bool) if valid is None else valid
    expected = by_loops(SCORES, 0.3, iterations, everyone)
    codes = sinkhorn(SCORES, 0.3, iterations, valid)
    torch.testing.assert_close(codes, expected, rtol=1e-12, atol=0)
    if iterations == 3:
        torch.testing.assert_close(codes, sinkhorn(SCORES, 0.3, valid=valid), rtol=0, atol=0)


@pytest.mark.parametrize("valid", [None, VALID])
def test_codes_across_processes_are_those_of_all_samples(monkeypatch, valid):
    parts, here = [slice(0, 3), slice(3, 7)], threading.local()
    held, together = [None, None], threading.Barrier(2, timeout=20)

    def gather(x):
        held[here.rank] = x
        together.wait()
        everything = torch.cat(held)
        together.wait()
        return everything

    def on_rank(rank, across):
        here.rank = rank
        some = parts[rank]
        keep = None if valid is None else valid[some]
        return sinkhorn(SCORES[some], 0.3, 3, keep, across=across)

    monkeypatch.setattr(sys.modules[sinkhorn.__module__], "gather", gather)
    with ThreadPoolExecutor(2) as pool:
        whole = torch.cat([*pool.map(on_rank, range(2), [True] * 2)])
    torch.testing.assert_close(whole, sinkhorn(SCORES, 0.3, 3, valid), rtol=1e-12, atol=0)
    assert not torch.allclose(on_rank(0, False), whole[parts[0]])


def test_columns_approach_equal_parts_as_the_docstring_says():
    generator = torch.Generator().manual_seed(0)
    z, prototypes = (torch.randn(n, 16, generator=generator).double() for n in (64, 8))
    cosines = torch.cosine_similarity(z[:, None], prototypes, dim=2)

    def farthest(epsilon, iterations):
        return float((sinkhorn(cosines, epsilon, iterations).sum(0) / 8 - 1).abs().max())

    assert 0.1 < farthest(0.05, 3) < 1 / 3
    assert farthest(0.01, 3) > 0.4
    assert farthest(0.05, 100) < 1e-6


def test_a_small_epsilon_is_no_overflow_and_there_is_no_gradient():
    codes = sinkhorn((SCORES * 100).requires_grad_(), 1e-3)
    assert codes.isfinite().all()
    assert not codes.requires_grad
    torch.testing.assert_close(codes.sum(1), torch.ones(7, dtype=torch.float64))
