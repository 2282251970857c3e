from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from ccl_plugins.kernels import RBF, Delta, Product, Sum
from ccl_plugins.protocols import Table
from ccl_plugins.training.kernel_check import KernelReading, check_kernel, describe_kernel


def checked(kernel: Any, values: Tensor | Mapping[str, Tensor], name: str = "") -> dict[str, float]:
    """`check_kernel` of one condition of a name, or of several."""
    named = {name: values} if isinstance(values, Tensor) else values
    tables = {key: Table(each) for key, each in named.items()}
    return check_kernel(KernelReading(kernel, tuple(tables)), tables)


class Gaussian:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.exp(-(torch.cdist(a[:, None], b[:, None]) ** 2) / self.scale)


def test_a_kernel_that_sees_nothing_is_warned_about() -> None:
    values = torch.arange(700.0)
    with pytest.warns(
        UserWarning, match=r'scale 0.01 .*condition \'z\'.*objective.kernel.scale, such as "median"'
    ):
        found = checked(Gaussian(0.01), values, "z")
    assert found["surviving_weight"] < 1e-3


AGES = 20 + 60 * torch.rand(700, generator=torch.Generator().manual_seed(0))


def test_a_kernel_that_sees_all_as_equal_is_warned_about_with_scales_that_do_not() -> None:
    with pytest.warns(
        UserWarning, match="RBF with scale 1000000.0 sees all samples as equal"
    ) as said:
        found = checked(RBF(1e6), AGES, "age")
    torch.testing.assert_close(found["surviving_weight"], 1.0, rtol=1e-3, atol=0)
    torch.testing.assert_close(found["effective_neighbors"], 511.0, rtol=1e-3, atol=0)
    named = str(said[0].message).partition('"median", ')[2].partition(" (10, 50")[0]
    candidates = re.split(", | or ", named)
    assert len(candidates) == 3, said[0].message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in candidates:
            checked(RBF(float(scale)), AGES, "age")
        checked(RBF("median"), AGES, "age")
    with pytest.warns(UserWarning, match="sees all samples as equal on condition 'class'"):
        checked(RBF(1e6), torch.arange(700) % 5, "class")


def test_a_constant_in_place_of_missing_values_does_not_hide_a_narrow_kernel() -> None:
    filled = torch.where(torch.arange(700) % 3 == 0, 0.0, AGES)
    found = describe_kernel(RBF(1e-4)(filled[:512], filled[:512]))
    assert float(found[0]) > 0.1
    with pytest.warns(UserWarning, match="for a quarter of the samples the mean weight"):
        checked(RBF(1e-4), filled, "age")


def test_equal_values_alone_are_no_fault_of_the_kernel() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked(RBF(1.0), torch.ones(700), "z")
        checked(Delta(), torch.zeros(700).long(), "z")
        checked(RBF("median"), (torch.arange(700) % 2).float(), "z")


def test_classes_of_one_sample_are_not_warned_about() -> None:
    def same(a: Tensor, b: Tensor) -> Tensor:
        return (a[:, None] == b).float()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert checked(same, torch.arange(700), "z")["surviving_weight"] == 0


def test_a_kernel_of_classes_has_the_other_members_as_neighbors() -> None:
    labels = torch.arange(12) % 3
    surviving, neighbors = describe_kernel((labels[:, None] == labels).float())
    torch.testing.assert_close(float(surviving), 3 / 11)
    torch.testing.assert_close(float(neighbors), 3.0)
    assert [float(each) for each in describe_kernel(torch.eye(4))] == [0, 0]


def test_the_kernel_that_vanishes_in_a_joint_one_is_named() -> None:
    tables = {
        "species": torch.arange(700) % 3,
        "age": torch.arange(700.0),
        "pose": torch.arange(700.0).flip(0),
    }
    kernel = Product(on={"species": Delta(), "age": RBF(1e-3), "pose": RBF("median")})
    message = (
        r"RBF with scale 0.001 sees almost nothing on condition 'age'.*"
        'objective.kernel.on.age.scale, such as "median"'
    )
    with pytest.warns(UserWarning, match=message) as caught:
        checked(kernel, tables)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = Product(on={"species": Delta(), "age": RBF("median"), "pose": RBF("median")})
        assert checked(wide, tables)["surviving_weight"] > 0.05
    nested = Sum(
        [Product(on={"species": Delta(), "pose": RBF(1e-3)}), Product(on={"age": RBF(9e9)})]
    )
    with pytest.warns(UserWarning, match="sees almost nothing on condition 'pose'"):
        checked(nested, tables)


def test_a_joint_kernel_of_numbers_that_vanishes_by_no_kernel_alone_is_named() -> None:
    tables = {name: torch.randn(700, 4) for name in ("age", "pose", "size", "time")}
    kernel = Product(on={name: RBF(2.0) for name in tables})
    with pytest.warns(
        UserWarning, match="Product sees almost nothing on condition 'age&pose&size&time'"
    ):
        checked(kernel, tables)


def test_a_joint_kernel_of_many_classes_is_not_warned_about() -> None:
    tables = {"species": torch.arange(700), "age": torch.randn(700)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked(Product(on={"species": Delta(), "age": RBF("median")}), tables)
        checked(Product(on={"age": RBF("median")}), {"age": tables["age"]})


def test_a_kernel_of_numbers_on_class_ids_is_named() -> None:
    with pytest.warns(
        UserWarning, match="RBF reads class ids of condition 'grade'.*\"continuous\""
    ):
        checked(RBF(1.0), torch.arange(700) % 5, "grade")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked(Delta(), torch.arange(700) % 5, "grade")
        checked(RBF(1.0), torch.arange(700) % 2, "two classes")
