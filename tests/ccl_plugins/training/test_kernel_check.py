from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from ccl_plugins.protocols import Table
from ccl_plugins.training.kernel_check import check_kernel, describe_kernel


class Gaussian:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.exp(-(torch.cdist(a[:, None], b[:, None]) ** 2) / self.scale)


def test_a_kernel_that_sees_nothing_is_warned_about() -> None:
    table = Table(torch.arange(700.0))
    with pytest.warns(
        UserWarning, match=r'scale 0.01 .*condition \'z\'.*objective.kernel.scale, as "median"'
    ):
        found = check_kernel(Gaussian(0.01), table, "z")
    assert found["surviving_weight"] < 1e-3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = check_kernel(Gaussian(1e9), table, "z")
    torch.testing.assert_close(found["surviving_weight"], 1.0, rtol=1e-3, atol=0)
    torch.testing.assert_close(found["effective_neighbors"], 511.0, rtol=1e-3, atol=0)


def test_classes_of_one_sample_are_not_warned_about() -> None:
    def same(a: Tensor, b: Tensor) -> Tensor:
        return (a[:, None] == b).float()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_kernel(same, Table(torch.arange(700)), "z")["surviving_weight"] == 0


def test_a_kernel_of_classes_has_the_other_members_as_neighbors() -> None:
    labels = torch.arange(12) % 3
    surviving, neighbors = describe_kernel((labels[:, None] == labels).float())
    torch.testing.assert_close(float(surviving), 3 / 11)
    torch.testing.assert_close(float(neighbors), 3.0)
    assert [float(each) for each in describe_kernel(torch.eye(4))] == [0, 0]
