"""Conditions packed side by side for a kernel of several, and read back."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.kernels import RBF, Delta, Polynomial, Product, Sum
from ccl_plugins.numerics import conditional_operator
from ccl_plugins.numerics.joint import DIGIT, Joint, pack, unpack

IDS = torch.tensor([0, 1, (1 << DIGIT) + 5, (3 << 2 * DIGIT) + (7 << DIGIT) + 2, 1 << 62])
AGE = torch.linspace(0, 1, 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_class_ids_of_any_size_are_read_back_exactly(dtype):
    given = {"species": IDS, "age": AGE.to(dtype), "pose": torch.rand(5, 2)}
    packed, layout = pack(given)
    assert packed.dtype == dtype
    assert packed.shape == (5, 6)
    values = unpack(packed, layout)
    assert torch.equal(values["species"], IDS)
    assert torch.equal(values["age"][:, 0], given["age"])
    assert torch.equal(values["pose"], given["pose"].to(dtype))


def test_a_missing_class_is_a_missing_number():
    packed, _ = pack({"species": torch.tensor([3, -1])})
    assert packed.isnan().any(1).tolist() == [False, True]


def test_values_that_differ_per_view_are_packed_beside_those_that_do_not():
    per_view = torch.rand(2, 5, 3)
    packed, _ = pack({"age": AGE, "pose": per_view})
    assert packed.shape == (2, 5, 4)
    assert torch.equal(packed[1, :, 1:], per_view[1])
    assert torch.equal(packed[1, :, 0], AGE)
    with pytest.raises(ValueError, match=r"one number of views, not \[2, 3\]"):
        pack({"a": per_view, "b": torch.rand(3, 5, 3)})


def alone(combined, name, kernel):
    """A combination of one kernel, which names its condition itself."""
    return combined(on={name: kernel})


@pytest.mark.parametrize(
    ("kernel", "second", "separates"),
    [
        (Product(on={"species": Delta(), "second": Delta()}), IDS, True),
        (Product(on={"species": Product([Delta(), Delta()]), "second": Delta()}), IDS, True),
        (Product([alone(Product, name, Delta()) for name in ("species", "second")]), IDS, True),
        (Product(on={"species": Delta(), "second": Delta()}), AGE, False),
        (Product(on={"species": Delta(), "second": RBF(1.0)}), IDS, False),
        (Product([alone(Product, "species", Delta()), alone(Sum, "second", Delta())]), IDS, False),
        (
            Product([alone(Product, "species", Delta()), alone(Product, "second", RBF(1.0))]),
            IDS,
            False,
        ),
        (Sum(on={"species": Delta(), "second": Delta()}), IDS, False),
    ],
)
def test_there_are_joint_classes_if_every_kernel_separates_class_ids(kernel, second, separates):
    joint = Joint(kernel)
    classes = joint.classes(joint.pack({"species": IDS, "second": second}))
    assert (classes is not None) == separates
    if separates:
        assert len(classes.unique()) == len(IDS)


def test_of_joint_classes_one_similarity_is_computed(monkeypatch):
    joint = Joint(Product(on={"species": Delta(), "second": Delta()}))
    packed = joint.pack({"species": torch.tensor([1, 1, 2, 2]), "second": torch.ones(4).long()})
    similarity = torch.block_diag(torch.ones(2, 2), torch.ones(2, 2)).double()
    expected = torch.linalg.solve(similarity + 0.1 * torch.eye(4).double(), similarity)
    shapes, call = [], Joint.__call__

    def counting(self, a, b):
        shapes.append((len(a), len(b)))
        return call(self, a, b)

    monkeypatch.setattr(Joint, "__call__", counting)
    weights = conditional_operator(joint, packed, 0.1).double()
    torch.testing.assert_close(weights, expected, rtol=1e-5, atol=1e-6)
    assert shapes == [(1, 1)]


def test_it_is_positive_definite_if_its_kernel_is():
    class Indefinite(RBF):
        positive_definite = False

    for each, expected in ((RBF(1.0), True), (Polynomial(), True), (Indefinite(), False)):
        assert Joint(Product(on={"a": each, "b": Delta()})).positive_definite is expected
