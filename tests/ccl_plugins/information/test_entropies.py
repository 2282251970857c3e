from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support import oracle

from ccl_plugins.information.entropies import information


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("name", oracle.names("info_I_ZT_*", "info_H_Z_given_T_*"))
def test_equals_the_stored_bits(name):
    case = oracle.case(name)
    info = information(case["inputs"]["z"], case["inputs"]["t"])
    value = info.mutual if "I_ZT" in name else info.conditional_entropy
    torch.testing.assert_close(
        number(value), number(case["expected_paper"]), rtol=1e-12, atol=1e-14
    )


def test_equals_the_definition_written_as_loops():
    rng = np.random.default_rng(0)
    z, t = rng.integers(-2, 4, 50), rng.integers(100, 103, 50)
    mutual = 0.0
    for a in set(z):
        for b in set(t):
            joint = np.mean((z == a) & (t == b))
            if joint > 0:
                mutual += joint * math.log2(joint / (np.mean(z == a) * np.mean(t == b)))
    torch.testing.assert_close(number(information(z, t).mutual), number(mutual))


def test_lists_arrays_and_tensors_give_the_same():
    z, t = [0, 0, 1, 7], [1, 1, -1, 1]
    assert information(z, t) == information(torch.tensor(z), np.array(t))


def test_known_cases():
    same = information([3, 5, 3, 5], [0, 1, 0, 1])
    assert (same.entropy, same.conditional_entropy, same.mutual) == (1.0, 0.0, 1.0)
    independent = information([0, 0, 1, 1], [0, 1, 0, 1])
    assert (independent.conditional_entropy, independent.mutual) == (1.0, 0.0)
    constant = information([4, 4, 4], [0, 1, 2])
    assert (constant.entropy, constant.conditional_entropy, constant.mutual) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("z", "t", "error", "words"),
    [
        ([0, 1], [0, 1, 2], ValueError, "2 and 3"),
        ([], [], ValueError, r"not of shape \(0,\)"),
        ([[0, 1]], [0, 1], ValueError, r"\(1, 2\)"),
        ([0.0, 1.0], [0, 1], TypeError, "float32"),
        ([0, 1], ["a", "b"], TypeError, "'a', 'b'"),
    ],
)
def test_bad_input_is_quoted(z, t, error, words):
    with pytest.raises(error, match=words):
        information(z, t)
