from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from support import oracle
from support.condition_splits import Split, fit

from ccl_plugins.conditions import Attributes
from ccl_plugins.information.entropies import information

NAN = float("nan")


def same_partition(a, b):
    return all((a[i] == a[j]) == (b[i] == b[j]) for i, j in combinations(range(len(a)), 2))


@pytest.mark.parametrize("name", oracle.names("attr_topk_entropy_*"))
def test_equals_the_stored_partitions(name):
    case = oracle.case(name)
    columns, label = torch.tensor(case["inputs"]["attributes"]), case["inputs"]["class"]
    ids = fit(Attributes(array=columns, k=case["params"]["k"]), Split(label=label))
    assert ids.unique().numel() == case["expected_paper"]
    assert same_partition(ids.tolist(), case["extras"]["cluster_ids"])
    found = information(ids, label)
    expected = {k: case["extras"][k] for k in ("I_ZT_bits", "H_Z_given_T_bits", "H_Z_bits")}
    torch.testing.assert_close(
        [found.mutual, found.conditional_entropy, found.entropy], list(expected.values())
    )


def test_k_auto_is_where_the_information_plane_crosses():
    case = oracle.case("info_plane_k_selection")
    columns, split = case["inputs"]["attributes"], Split(label=case["inputs"]["class"])
    auto = fit(Attributes(array=columns, k="auto"), split)
    by_hand = fit(Attributes(array=columns, k=int(case["expected_paper"])), split)
    torch.testing.assert_close(auto, by_hand)


def test_discrete_attributes_become_a_column_per_value_and_binary_ones_stay():
    split = Split(
        heel=["flat", "high", "flat", ""],
        straps=torch.tensor([0, 2, 5, -1]),
        leather=torch.tensor([True, False, True, True]),
        parts=torch.tensor([[0, 1], [1, 1], [0, 3], [1, 1]]),
    )
    found = fit(Attributes(["heel", "straps", "leather", "parts"]), split)
    flat, high = [1, 0, 1, NAN], [0, 1, 0, NAN]
    straps = [[1, 0, 0, NAN], [0, 1, 0, NAN], [0, 0, 1, NAN]]
    parts = [[0, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0]]
    expected = torch.tensor([flat, high, *straps, [1, 0, 1, 1], *parts]).float().T
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert Attributes(["heel"]).value_type == "multi_label"


def test_a_sample_without_one_of_the_k_attributes_has_no_class():
    columns = torch.tensor([[0, 1], [1, -1], [1, 0], [0, 1]])
    split = Split(label=torch.zeros(4))
    assert fit(Attributes(array=columns, k=2), split).tolist() == [0, -1, 1, 0]
    assert fit(Attributes(array=columns, k=1), split).tolist() == [0, 1, 1, 0]
    assert Attributes(array=columns, k=1).value_type == "categorical"


def test_of_two_words_one_attribute_decides_the_class():
    split = Split(sex=["f", "m"] * 4, smoker=["no", "no", "yes", "yes"] * 2)
    assert fit(Attributes(["sex", "smoker"], k=2), split).unique().tolist() == [0, 1, 2, 3]
    with pytest.raises(
        ValueError, match="k=3, but there are 2 binary attributes: sex=f, smoker=no"
    ):
        fit(Attributes(["sex", "smoker"], k=3), split)


def test_a_table_is_matched_with_the_samples_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("image,red,kind\nc.jpg,1,x\na.jpg,0,y\nz.jpg,1,\n")
    split = Split({"image": ["a.jpg", "b.jpg", "c.jpg"]}, image=torch.tensor([1, 0, 2]))
    found = fit(Attributes(file=tmp_path / "a.csv", key="image"), split)
    expected = torch.tensor([[NAN, NAN, NAN], [0, 0, 1], [1, 1, 0]])
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_arrays_are_read_from_files_too(tmp_path):
    columns = torch.tensor([[0, 1], [1, 1], [1, 0]])
    np.save(tmp_path / "a.npy", columns.numpy())
    split = Split(label=torch.zeros(3))
    torch.testing.assert_close(fit(Attributes(file=tmp_path / "a.npy"), split), columns.float())
    chosen = fit(Attributes(["1"], file=tmp_path / "a.npy"), split)
    torch.testing.assert_close(chosen, columns[:, 1:].float())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,red\na,1\nb,0\na,1\n", "names the sample 'a' in row 2 and row 4"),
        ("image,red\na,1\n,0\n", "row 3 names no sample"),
        ("image,red\nx,1\ny,0\n", "another data set: .*'x' and others, the data set's 'a'"),
        ("name,red\na,1\nb,0\n", "no column 'image'; it has name, red"),
        ("image\na\nb\n", "no attribute in .*a.csv"),
        ("image,red\na,1\nb,often\n", "'often' in row 3 among numbers such as '1' in row 2"),
        (
            "image,red\na,1\nb,0.5\n",
            "'red' has 0.5 in sample 1 \\(from 0\\): attributes are discrete",
        ),
    ],
)
def test_tables_that_do_not_fit_are_refused_by_row_and_column(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        fit(Attributes(file=tmp_path / "a.csv", key="image"), Split(image=["a", "b"]))


def test_a_table_without_names_must_have_a_row_for_every_sample(tmp_path):
    (tmp_path / "a.csv").write_text("red\n1\n0\n1\n")
    with pytest.raises(ValueError, match=r"3 rows, but the data set has 2 samples: .*key="):
        fit(Attributes(file=tmp_path / "a.csv"), Split(image=["a", "b"]))


def test_columns_and_targets_that_are_not_there_are_named():
    with pytest.raises(ValueError, match="no column 'rde'; it has red, label"):
        fit(Attributes(["rde"]), Split(red=[0, 1], label=[0, 1]))
    with pytest.raises(ValueError, match="no column 'klass'; it has red"):
        fit(Attributes(["red"], k="auto", target="klass"), Split(red=[0, 1]))
    with pytest.raises(ValueError, match=r"'tone' holds torch.float32 .* not class ids"):
        fit(Attributes(["red"], k="auto", target="tone"), Split(red=[0, 1], tone=[0.5, 0.1]))


def test_an_array_of_words_is_refused():
    with pytest.raises(ValueError, match=r"array must hold numbers, not \[\['a'\]\]"):
        fit(Attributes(array=[["a"]]), Split(label=[0]))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"columns": ["red"], "key": "image"},
        {"file": "a.csv", "array": [[1]]},
        {"columns": ["red"], "k": 0},
        {"columns": ["red"], "missing": "own"},
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(given):
    with pytest.raises(
        ValueError, match=r"name the columns|key='image'|not both|1 or more|'ignore'"
    ):
        Attributes(**given)


def test_pickled_arrays_are_not_read(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(ValueError, match="no array of numbers"):
        fit(Attributes(file=tmp_path / "a.npy"), Split(label=torch.zeros(1)))
