"""A variable knows which samples lack a value, by what its values are."""

from __future__ import annotations

import pytest
import torch
from support.condition_splits import Split

from ccl_plugins.metadata import Variable
from ccl_plugins.metadata.columns import variable_of

NAN = torch.nan


@pytest.mark.parametrize(
    ("value_type", "values", "numbers"),
    [
        ("categorical", torch.tensor([2, -1, 0]), [2, NAN, 0]),
        ("multi_label", torch.tensor([[1, 0], [-1, 1], [0, 1]]), [[1, 0], [NAN, 1], [0, 1]]),
        ("continuous", torch.tensor([-1.0, NAN, 3.0]), [-1, NAN, 3]),
    ],
)
def test_what_is_missing_depends_on_the_value_type(value_type, values, numbers):
    variable = Variable(values, value_type)
    assert variable.missing.tolist() == [False, True, False]
    assert variable.has_gaps
    torch.testing.assert_close(variable.present, values[[0, 2]])
    torch.testing.assert_close(variable.as_numbers(), torch.tensor(numbers), equal_nan=True)
    assert not Variable(values, value_type, complete=True).has_gaps


def test_a_column_of_a_split_has_its_type_and_its_words():
    split = Split(
        label=["b", "", "a"], age=torch.tensor([1.0, 2.0, 3.0]), k=torch.tensor([0, 2, 1])
    )
    label = variable_of(split, "label")
    assert (label.value_type, [*label.words]) == ("categorical", ["a", "b"])
    torch.testing.assert_close(label.values, torch.tensor([1, -1, 0]))
    split.vocabulary = {"k": ["x", "y", "z"]}
    assert [variable_of(split, "k").words[i] for i in variable_of(split, "k").values] == [*"xzy"]
    assert variable_of(split, "age").value_type == "continuous"
    assert variable_of(split, "k", "continuous").value_type == "continuous"
    with pytest.raises(ValueError, match="'depth'"):
        variable_of(split, "depth")
