"""What an objective says of bad input, and that good input is what it seems."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.kernels import RBF
from ccl_plugins.objectives import (
    ClInfoNCE,
    FairCCLK,
    FairInfoNCE,
    InfoNCE,
    SupCon,
    WeaklySupCCLK,
    WeaklySupInfoNCE,
)

X, Y, Z = torch.randn(6, 4), torch.randn(6, 4), torch.rand(6, 3)
FAIR = FairCCLK(RBF())


def nan_at(x, row):
    x = x.clone()
    x[row] = torch.nan
    return x


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: FAIR(X, Y), TypeError, "FairCCLK needs a condition"),
        (lambda: InfoNCE()(X, Y, condition=Z), TypeError, "InfoNCE reads no condition"),
        (lambda: FAIR(X, Y, condition=Z[:5]), ValueError, r"b = 6, not \(5, 3\)"),
        (lambda: FAIR(X, Y, condition=nan_at(Z, 4)), ValueError, r"condition holds NaN .* \[4\]"),
        (lambda: FAIR(nan_at(X, 2), Y, condition=Z), ValueError, r"view 0 holds NaN .* \[2\]"),
        (lambda: FAIR(X, Y / 0, condition=Z), ValueError, "view 1 holds NaN or inf"),
        (lambda: FAIR(X, Y[:, :2], condition=Z), ValueError, "one shape"),
        (lambda: InfoNCE()(X.long(), Y.long()), TypeError, "embeddings of floats, not torch.int64"),
        (lambda: FAIR(X, condition=Z), ValueError, "at least 2 views, not 1"),
        (lambda: FAIR(X[:1], Y[:1], condition=Z[:1]), ValueError, "at least 2, not 1"),
        (lambda: FAIR(X, Y, condition=(Z,)), ValueError, "1 tensors for 2 views"),
        (lambda: FAIR(X, Y, condition={"color": Z}), TypeError, "reads the condition 'condition'"),
        (
            lambda: FAIR(X, Y, condition={"condition": Z, "color": Z}),
            TypeError,
            "FairCCLK reads condition: .* and not the condition 'color'",
        ),
        (lambda: FAIR(X, Y, condition=[1, 2]), TypeError, "tensor, not int"),
        (
            lambda: FairCCLK(RBF(), on="color", exclude=(RBF(), 1.0, "size"))(X, Y, condition=Z),
            TypeError,
            r"reads several conditions \(.*\): give them by name, condition=\{...\}",
        ),
        (
            lambda: SupCon()(X, Y, condition=torch.tensor([0, 1, -1, 1, -1, 0])),
            ValueError,
            r"condition holds class ids below 0 in 2 of 6 rows: \[2, 4\]; .* -1 means a missing value",
        ),
        (lambda: FAIR(X, Y, condition=torch.ones(6, 3).long()), TypeError, "float()"),
        (lambda: InfoNCE(temperature=0), ValueError, "temperature .* not 0"),
        (lambda: InfoNCE(temperature=float("nan")), ValueError, "temperature .* not nan"),
        (lambda: FairCCLK(RBF(), ridge=-1), ValueError, "ridge .* not -1"),
        (lambda: RBF(scale=-0.5), ValueError, "scale .* not -0.5"),
        (lambda: FairCCLK(RBF(), negative_weights="drop"), ValueError, "'clip', 'keep'"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_named_condition_is_the_same_as_a_bare_one():
    by_name = FairCCLK(RBF(), on="color")(X, Y, condition={"color": Z})
    torch.testing.assert_close(by_name, FAIR(X, Y, condition=Z))


def test_a_condition_per_view_is_read_by_the_view_that_is_the_anchor():
    z0, z1 = torch.rand(6, 2), torch.rand(6, 2)
    one_way = WeaklySupCCLK(RBF(), symmetric=False)
    both = WeaklySupCCLK(RBF())(X, Y, condition=(z0, z1))
    expected = (one_way(X, Y, condition=z0) + one_way(Y, X, condition=z1)) / 2
    torch.testing.assert_close(both, expected)


@pytest.mark.parametrize("objective", [ClInfoNCE, SupCon, WeaklySupInfoNCE, FairInfoNCE])
def test_class_ids_are_asked_for(objective):
    with pytest.raises(TypeError, match="needs a categorical condition, but condition is contin"):
        objective()(X, Y, condition=torch.rand(6))
