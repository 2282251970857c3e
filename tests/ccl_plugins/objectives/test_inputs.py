"""What an objective says of bad input, and that good input is what it seems."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from ccl_plugins.kernels import RBF
from ccl_plugins.objectives import (
    ClInfoNCE,
    ContrastiveObjective,
    DINOLoss,
    FairCCLK,
    FairInfoNCE,
    InfoNCE,
    KoLeo,
    SupCon,
    WeaklySupCCLK,
    WeaklySupInfoNCE,
)
from ccl_plugins.objectives.inputs import Questions

X, Y, Z = torch.randn(6, 4), torch.randn(6, 4), torch.rand(6, 3)
FAIR = FairCCLK(RBF())


def nan_at(x, row):
    x = x.clone()
    x[row] = torch.nan
    return x


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


MESSAGES = [
    (
        lambda: FairCCLK(RBF(), ridge=1e-30),
        "ridge must be 0, or at least 1e-12 (float64 loses less beside a similarity of 1), not 1e-30",
    ),
    (
        lambda: FAIR(X, Y),
        "FairCCLK needs a condition (condition: {any}): call it with condition=...",
    ),
    (lambda: InfoNCE()(X, Y, condition=Z), "InfoNCE reads no condition, but condition= was given"),
    (
        lambda: FAIR(X, Y, condition={"size": Z, "color": Z}),
        "FairCCLK reads the condition 'condition', but got ['color', 'size']",
    ),
    (
        lambda: FAIR(X, Y, condition={"condition": Z, "color": Z}),
        "FairCCLK reads condition: {any}, but not the condition 'color'",
    ),
    (
        lambda: FairCCLK(RBF(), on="color", exclude=(RBF(), 1.0, "size"))(X, Y, condition=Z),
        "FairCCLK reads several conditions (size: {any}; color: {any}): give them by name,"
        " condition={{...}}",
    ),
    (lambda: FAIR(X, condition=Z), "FairCCLK needs at least 2 views, not 1"),
    (
        lambda: FAIR(X[:1], Y[:1], condition=Z[:1]),
        "FairCCLK compares samples: a batch needs at least 2, not 1",
    ),
    (
        lambda: FAIR(X, Y[:5], condition=Z),
        "the views must be (b, d) embeddings of one shape, not [(6, 4), (5, 4)]",
    ),
    (
        lambda: FAIR(X[0], Y[0], condition=Z),
        "the views must be (b, d) embeddings of one shape, not [(4,), (4,)]",
    ),
    (
        lambda: FAIR(X[:, :0], Y[:, :0], condition=Z),
        "the views must be (b, d) embeddings of one shape, not [(6, 0), (6, 0)]",
    ),
    (lambda: InfoNCE()(X, Y.long()), "the views must be embeddings of floats, not torch.int64"),
    (lambda: FAIR(X, nan_at(Y, 2), condition=Z), "view 1 holds NaN or inf in 1 of 6 rows: [2]"),
    (lambda: FAIR(X, Y, condition=Z / 0), "condition holds NaN or inf in 6 of 6 rows: {six}"),
    (
        lambda: FAIR(X, Y, condition=Z / 0, missing="ignore"),
        "condition holds inf in 6 of 6 rows: {six}",
    ),
    (
        lambda: FAIR(X, Y, condition=(Z,)),
        "condition has 1 tensors for 2 views: give one per view",
    ),
    (
        lambda: FAIR(X, Y, condition=(Z[:, 0], Z[:, 0])),
        "condition given per view must be (b, c), not (6,)",
    ),
    (lambda: FAIR(X, Y, condition=[1, 2]), "condition must be a tensor, not int"),
    (
        lambda: FAIR(X, Y, condition=Z[None]),
        "condition must have one row per sample, (b,) or (b, c) with b = 6, not (1, 6, 3)",
    ),
    (
        lambda: SupCon()(X, Y, condition=Z),
        "SupCon needs a categorical condition, but condition is continuous (torch.float32, (6, 3))",
    ),
    (
        lambda: SupCon()(X, Y, condition=torch.ones(6, 3).bool()),
        "SupCon needs a categorical condition, but condition is multi_label (torch.bool, (6, 3))",
    ),
    (
        lambda: SupCon()(X, Y, condition=torch.tensor([0, 1, -1, 1, -1, 0])),
        "condition holds class ids below 0 in 2 of 6 rows: [2, 4]; ids begin at 0, and -1 means a"
        ' missing value: missing="ignore" leaves such samples out',
    ),
    (
        lambda: SupCon()(X, Y, condition=torch.tensor([0, 1, -1, -2, -1, 0]), missing="ignore"),
        "condition holds class ids below -1 in 1 of 6 rows: [3]; ids begin at 0, and -1 means a"
        ' missing value: missing="ignore" leaves such samples out',
    ),
    (
        lambda: FAIR(X, Y, condition=Z, missing="drop"),
        "missing must be one of 'error', 'ignore', not 'drop'",
    ),
]


@pytest.mark.parametrize(("call", "message"), MESSAGES)
def test_an_error_is_one_line_that_names_the_objective_and_what_was_given(call, message):
    every = "categorical or multi_label or continuous"
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    assert str(error.value) == message.format(any=every, six=[0, 1, 2, 3, 4, 5])


class Order(TorchDispatchMode):
    """The names of the operations of a call as they follow each other."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("objective", "condition"),
    [(InfoNCE(), None), (FAIR, Z), (SupCon(), torch.arange(6) % 3), (KoLeo(), None)],
)
def test_a_call_reads_the_device_once_after_the_loss(objective, condition):
    with Order() as order:
        objective(X, Y, condition=condition)
    reads = [i for i, name in enumerate(order.names) if name == "aten::_local_scalar_dense"]
    assert len(reads) == 1
    assert reads[0] > 0.8 * len(order.names)


def test_on_a_gpu_nothing_is_read_before_the_loss_is_launched():
    for objective, z in ((InfoNCE(), None), (FAIR, Z), (SupCon(), torch.arange(6) % 3)):
        with FakeTensorMode():
            x, y = (torch.randn(6, 4, device="cuda") for _ in range(2))
            condition = None if z is None else torch.ones(z.shape, dtype=z.dtype, device="cuda")
            with pytest.raises(DataDependentOutputException) as read:
                objective(x, y, condition=condition)
        inside = [each.name for each in read.traceback if each.path.name == "inputs.py"]
        assert inside == ["answered"]


class ById(ContrastiveObjective):
    """Looks class ids up in a table, and cannot compute with NaN."""

    conditions: ClassVar = {"condition": ("categorical",)}

    def terms(self, pairs):
        if pairs.anchors.isnan().any():
            raise RuntimeError("it was computed with NaN")
        values = torch.ones(2, 6)[:, pairs.samples.condition["condition"]]
        return values, torch.ones_like(values)


def test_what_is_wrong_is_said_before_what_comes_of_it():
    ids = torch.arange(6)
    assert float(ById()(X, Y, condition=ids)) == 1
    with pytest.raises(
        ValueError, match=r"^condition holds class ids below 0 in 1 of 6 rows: \[2\]"
    ):
        ById()(X, Y, condition=ids.masked_fill(ids == 2, -9))
    with pytest.raises(ValueError, match=r"^view 1 holds NaN or inf in 1 of 6 rows: \[3\]"):
        ById()(X, nan_at(Y, 3), condition=ids)
    with pytest.raises(IndexError, match="out of"):
        ById()(X, Y, condition=ids + 1)


def test_a_refused_call_leaves_no_trace_in_an_objective_with_state():
    objective = DINOLoss(dim=4)
    with torch.no_grad():
        objective(X, Y)
    before = {name: x.clone() for name, x in objective.named_buffers()}
    with pytest.raises(ValueError, match="view 0 holds NaN"):
        objective(nan_at(X, 1), Y)
    assert before.keys() == {"center", "sums"}
    torch.testing.assert_close(dict(objective.named_buffers()), before)


def test_numbers_whose_sum_overflows_are_not_refused():
    large = torch.full((6, 4), 3e38)
    torch.testing.assert_close(InfoNCE()(large, large), InfoNCE()(large / 1e38, large / 1e38))
    with pytest.raises(ValueError, match="view 1 holds NaN or inf"):
        InfoNCE()(large, nan_at(large, 0))


def test_of_many_rows_the_first_eight_are_listed():
    x = torch.randn(12, 4)
    for rows, listed in ((8, "[0, 1, 2, 3, 4, 5, 6, 7]"), (9, "[0, 1, 2, 3, 4, 5, 6, 7]...")):
        bad = x.clone()
        bad[:rows] = torch.inf
        with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
            InfoNCE()(bad, x)
        assert str(error.value) == f"view 0 holds NaN or inf in {rows} of 12 rows: {listed}"


def test_two_samples_and_unsigned_ids_are_enough():
    assert InfoNCE()(X[:2], Y[:2]).isfinite()
    ids = torch.tensor([0, 1, 1, 0, 2, 2])
    expected = SupCon()(X, Y, condition=ids)
    for dtype in (torch.uint8, torch.int32, torch.uint16):
        torch.testing.assert_close(SupCon()(X, Y, condition=ids.to(dtype)), expected)


def test_ids_of_classes_that_no_signed_number_holds_are_refused():
    ids = torch.tensor([0, 2**63, 1, 1, 0, 1], dtype=torch.uint64)
    with pytest.raises(ValueError, match=r"class ids below 0 in 1 of 6 rows: \[1\]"):
        SupCon()(X, Y, condition=ids)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
def test_columns_of_truth_values_are_attributes_and_a_single_one_is_class_ids(dtype):
    columns = (Z > 0.5).to(dtype)
    found = FAIR(X, Y, condition=columns)
    torch.testing.assert_close(found, FAIR(X, Y, condition=columns.float()))
    torch.testing.assert_close(FAIR(X, Y, condition=columns, missing="ignore"), found)
    ids = columns[:, 0]
    expected = FAIR(X, Y, condition=ids.long())
    torch.testing.assert_close(FAIR(X, Y, condition=ids), expected)
    torch.testing.assert_close(FAIR(X, Y, condition=ids, missing="ignore"), expected)


def test_255_of_a_byte_is_a_class_and_no_missing_value():
    ids = torch.tensor([255, 1, 1, 255, 2, 2], dtype=torch.uint8)
    expected = SupCon()(X, Y, condition=ids.long())
    torch.testing.assert_close(SupCon()(X, Y, condition=ids, missing="ignore"), expected)


class OnFeatures(InfoNCE):
    """Reads backbone features, and nothing else."""

    reads_features = True

    def terms(self, pairs):
        values = pairs.samples.features.square().mean(-1)
        return values, torch.ones_like(values)


def test_features_of_a_call_reach_the_pairs_in_single_precision_at_least():
    first, second = torch.randn(2, 6, 9).half()
    found = OnFeatures()(X, Y, features=(first, second))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.stack([first, second]).float().square().mean())
    torch.testing.assert_close(OnFeatures()(X, Y, features=[first]), first.float().square().mean())


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (None, TypeError, r"OnFeatures reads backbone features: call it with features=\(f0, f1\)"),
        (
            X,
            ValueError,
            r"^OnFeatures needs .* a \(b, f\) tensor for each view with b = 6, not a Tensor",
        ),
        ((X, X, X), ValueError, r"not \[\(6, 4\), \(6, 4\), \(6, 4\)\]"),
        ((X, X[:5]), ValueError, r"not \[\(6, 4\), \(5, 4\)\]"),
        ((X[:5], X[:5]), ValueError, r"with b = 6, not \[\(5, 4\), \(5, 4\)\]"),
        ((X[0], X[0]), ValueError, r"not \[\(4,\), \(4,\)\]"),
        ((X.long(), X.long()), TypeError, "features must be floats, not torch.int64"),
        ((X, nan_at(X, 3)), ValueError, r"features of view 1 holds NaN or inf in .* \[3\]"),
    ],
)
def test_features_that_do_not_fit_a_call_are_named(given, error, words):
    with pytest.raises(error, match=words):
        OnFeatures()(X, Y, features=given)


def test_a_wrong_answer_marks_a_tensor_without_a_read():
    x, questions = torch.ones(2, requires_grad=True), Questions()
    assert questions.mark(x) is x
    questions.ask(torch.tensor(1.0), lambda: None)
    torch.testing.assert_close(questions.mark(x), x)
    questions.ask(torch.tensor(torch.nan), lambda: None)
    with Order() as order:
        marked = questions.mark(x)
    assert marked.isnan().all()
    assert "aten::_local_scalar_dense" not in order.names
