from __future__ import annotations

import pytest

from ccl_plugins.metadata.matching import match_rows


def test_each_sample_is_given_the_row_that_names_it():
    assert match_rows(["b", 7, "c"], ["7", "a", "b"], "a.csv", "name") == [1, -1, 0]


def test_a_sample_without_a_name_has_no_row_not_even_one_of_that_name():
    assert match_rows(["None", "a"], [None, "a"], "a.csv", "name") == [-1, 1]


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (["a", "b", "a"], r"names the sample 'a' in row 2 and row 4 \(column 'name'\)"),
        (["a", None], "row 3 names no sample in its column 'name'"),
        (["x"], "of another data set: its column 'name' names 'x' .* 'a'"),
    ],
)
def test_a_file_that_does_not_fit_is_named(named, words):
    with pytest.raises(ValueError, match=words):
        match_rows(named, ["a", "b"], "a.csv", "name")
