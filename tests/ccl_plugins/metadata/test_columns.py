from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from ccl_plugins.conditions import Column, Label
from ccl_plugins.metadata.columns import encode, tensor_columns
from ccl_plugins.metadata.variable import check_values


def test_words_get_the_same_ids_in_both_splits():
    encoded = encode({"bird": ["wren", "owl"]}, {"bird": ["owl", "crow"]})
    assert encoded.vocabulary == {"bird": ["crow", "owl", "wren"]}
    assert [t["bird"].tolist() for t in encoded.tables] == [[2, 1], [1, 0]]


def test_words_that_differ_in_case_blanks_or_form_alone_are_named():
    with pytest.warns(UserWarning, match="column 'site' .*'Bonn' and 'bonn'; 2 such groups"):
        found = encode({"site": ["Köln", "Köln ", "Bonn", "bonn", "K\u006f\u0308ln", "Ulm"]})
    assert len(found.vocabulary["site"]) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encode({"site": ["Köln", "Koln", "Bonn"]})


@pytest.mark.parametrize(
    ("values", "value_type", "expected"),
    [
        (["b", "", "a", None], "categorical", [1, -1, 0, -1]),
        (np.array(["b", "a"]), "categorical", [1, 0]),
        ([3, None, 1], "categorical", [3, -1, 1]),
        ([True, False], "categorical", [1, 0]),
        (np.array([2, 7], dtype=np.uint16), "categorical", [2, 7]),
        ([1.5, None, 2], "continuous", [1.5, torch.nan, 2.0]),
        ([1.0, 2.0], "continuous", [1.0, 2.0]),
        (torch.tensor([1.0, torch.nan]), "continuous", [1.0, torch.nan]),
        ([[0, 1], [1, 1]], "multi_label", [[0.0, 1.0], [1.0, 1.0]]),
        (torch.tensor([[True], [False]]), "multi_label", [[1.0], [0.0]]),
        ([[0, None], [1, 1]], "multi_label", [[0.0, torch.nan], [1.0, 1.0]]),
        ([[0, None], [1, 5]], "categorical", [[0, -1], [1, 5]]),
        ([[0.0, None], [1.5, 1.0]], "continuous", [[0.0, torch.nan], [1.5, 1.0]]),
        ([[0, 4], [1, 5]], "categorical", [[0, 4], [1, 5]]),
        ([[0.5, 4.0], [1.0, 5.0]], "continuous", [[0.5, 4.0], [1.0, 5.0]]),
    ],
)
def test_what_a_column_holds_is_told_from_its_values(values, value_type, expected):
    encoded = encode({"z": values})
    assert encoded.schema == {"z": value_type}
    dtype = torch.long if value_type == "categorical" else torch.float32
    wanted = torch.tensor(expected, dtype=dtype)
    torch.testing.assert_close(encoded.tables[0]["z"], wanted, equal_nan=True)


def test_a_given_measure_overrides():
    encoded = encode({"age": [30, None], "kind": [1.0, None]}, value_types={"age": "continuous"})
    assert encoded.schema == {"age": "continuous", "kind": "continuous"}
    torch.testing.assert_close(
        encoded.tables[0]["age"], torch.tensor([30.0, torch.nan]), equal_nan=True
    )
    ids = encode({"kind": torch.tensor([2.0, torch.nan])}, value_types={"kind": "categorical"})
    assert ids.tables[0]["kind"].tolist() == [2, -1]


@pytest.mark.parametrize(
    ("table", "value_types", "message"),
    [
        ({"z": ["a", 3]}, {}, "'z' holds words, but 3 in row 1 \\(from 0\\)"),
        ({"z": [[1, 2], [3]]}, {}, "2 numbers in row 0, 1 in row 1 \\(from 0\\)"),
        (
            {"z": [[0, 1], [1, 2]]},
            {"z": "multi_label"},
            r"1 of 2 rows \(1; from 0\), such as 2: multi_label",
        ),
        (
            {"z": [0.0, 0.5]},
            {"z": "categorical"},
            r"1 of 2 rows \(1; from 0\), such as 0.5: class ids",
        ),
        ({"z": ["a"]}, {"z": "continuous"}, "holds words: it is categorical"),
        ({"z": [1]}, {"y": "continuous"}, "value_types names 'y'; the columns are z"),
        ({"z": [1]}, {"z": "ordinal"}, "value_type of 'z' must be one of .*, not 'ordinal'"),
        ({"z": [{}]}, {}, "'z' holds neither numbers nor words"),
    ],
)
def test_what_does_not_fit_is_named_with_its_row(table, value_types, message):
    with pytest.raises(ValueError, match=message):
        encode(table, value_types=value_types)


def test_splits_must_share_their_columns_and_what_these_hold():
    with pytest.raises(ValueError, match=r"\['label', 'z'\], test \['label'\]"):
        encode({"label": [1], "z": [1]}, {"label": [1]})
    with pytest.raises(ValueError, match="words in one split and numbers in the other"):
        encode({"label": ["a"]}, {"label": [1]})


def test_tensors_stay_as_they_are():
    double = torch.zeros(2, dtype=torch.float64)
    columns = tensor_columns({"x": double, "w": ["b", "a"]})
    assert list(columns) == ["x", "w"]
    assert columns["x"] is double
    assert columns["w"].tolist() == [1, 0]


def test_conditions_read_words():
    class Split:
        metadata = {"label": ["b", "a"], "bird": ["owl", "wren"]}  # noqa: RUF012  # a constant

    assert Label().fit(Split(), None, None).tolist() == [1, 0]
    assert Column("bird", value_type="categorical").fit(Split(), None, None).tolist() == [0, 1]


HUGE = np.array([2**63 + 5, 2**63 + 6, 7], dtype=np.uint64)


@pytest.mark.parametrize(
    "ids",
    [HUGE, torch.from_numpy(HUGE), HUGE.tolist(), [2**64 - 1, None, 3], [2**53 + 1, None, 2**53]],
    ids=["array", "tensor", "list", "with a gap", "floats"],
)
def test_whole_numbers_that_would_become_others_are_refused(ids):
    """As -1 they would mean a missing value, as floats two ids would be one."""
    with pytest.raises(ValueError, match=r"column 'id' .*(below 2\^63|inexact)"):
        encode({"id": ids})


def test_unsigned_numbers_are_class_ids():
    for dtype in (torch.uint16, torch.uint32, torch.uint64):
        (found,) = encode({"id": torch.tensor([3, 1, 2], dtype=dtype)}).tables
        torch.testing.assert_close(found["id"], torch.tensor([3, 1, 2]))
    largest = [2**62 + 1, 2**62]
    assert encode({"id": largest}).tables[0]["id"].tolist() == largest


def test_a_condition_of_unsigned_ids_is_checked_like_a_column():
    found, _ = check_values("z", torch.tensor([3, 1], dtype=torch.uint64), "categorical", 2)
    torch.testing.assert_close(found, torch.tensor([3, 1]))
    with pytest.raises(
        ValueError, match=r"condition 'z' holds 9223372036854775813, .* below 2\^63"
    ):
        check_values("z", torch.from_numpy(HUGE), "categorical", 3)


@pytest.mark.parametrize(
    "values",
    [
        np.array([1 + 1j, 2]),
        torch.tensor([1 + 1j, 2]),
        [1j, 2.0],
        [b"red", b"blue"],
        np.array([b"red", b"blue"]),
        torch.eye(2).to_sparse(),
        [2**70, 1],
        [-(2**70), 1],
        [1e300, 1.0],
    ],
    ids=str,
)
def test_values_that_a_tensor_of_numbers_cannot_hold_are_refused_by_the_name_of_their_column(
    values,
):
    with pytest.raises(ValueError, match=r"column 'z' (has|holds|is)"):
        encode({"z": values})


def test_a_condition_of_numbers_that_float32_cannot_hold_is_refused():
    with pytest.raises(
        ValueError, match=r"too large values in 1 of 2 rows \(1; from 0\).* below 3.4e38"
    ):
        check_values("z", torch.tensor([1.0, 1e39], dtype=torch.float64), "continuous", 2)


def test_a_split_without_a_value_does_not_change_what_a_column_holds():
    encoded = encode({"z": [0, 1, 2]}, {"z": [None, None, None]})
    assert encoded.schema == {"z": "categorical"}
    assert encoded.tables[1]["z"].tolist() == [-1, -1, -1]
    assert encode({"z": [None, None]}).schema == {"z": "continuous"}


def test_a_column_of_times_that_float32_merges_is_named():
    with pytest.warns(UserWarning, match="column 'time' has .* 128 apart: subtract the least"):
        encode({"time": [1.7e9 + 0.5, 1.7e9 + 60]})


@pytest.mark.parametrize("word", ["NaN", "NA", "None", "<NA>"])
def test_a_word_for_a_missing_value_is_named_unless_it_is_declared(word):
    with pytest.warns(UserWarning, match=f"column 'z' has the class '{word}': leave a cell empty"):
        assert encode({"z": [word, "a"]}).vocabulary == {"z": sorted([word, "a"])}
    encode({"z": [word, "a"]}, value_types={"z": "categorical"})
    encode({"z": ["none", None]})


def test_values_that_are_missing_beside_an_array_are_missing():
    masked = np.ma.masked_array([5, 6, 7], mask=[False, True, False])
    encoded = encode({"z": masked, "x": masked.astype(float)})
    assert encoded.schema == {"z": "categorical", "x": "continuous"}
    assert encoded.tables[0]["z"].tolist() == [5, -1, 7]
    assert encoded.tables[0]["x"].isnan().tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([5, None, 7], "Int64", [5, -1, 7]),
        ([True, None, False], "boolean", [1, -1, 0]),
        (["b", None, "a"], "string", [1, -1, 0]),
        (["b", None, "a"], "category", [1, -1, 0]),
    ],
)
def test_columns_of_pandas_keep_their_classes_if_some_are_missing(values, dtype, expected):
    column = pytest.importorskip("pandas").Series(values, dtype=dtype)
    encoded = encode({"z": column})
    assert (encoded.schema, encoded.tables[0]["z"].tolist()) == ({"z": "categorical"}, expected)
