from __future__ import annotations

import warnings

import pytest
import torch

from ccl_plugins.conditions import Column, Embedding, Instance, Label
from ccl_plugins.protocols import Embedded


class Split:
    metadata = {  # noqa: RUF012  # a constant of a test
        "label": torch.tensor([2, 0, 1]),
        "height": torch.tensor([1.0, 2.0, 6.0]),
        "same": torch.full((3,), 7.0),
    }

    def __len__(self):
        return 3


class Dataset:
    def schema(self):
        return {"label": "categorical", "height": "continuous", "same": "continuous"}


def fit(condition):
    return condition.fit(Split(), None, None)


def test_label_and_instance_are_class_ids():
    torch.testing.assert_close(fit(Label()), torch.tensor([2, 0, 1]))
    torch.testing.assert_close(fit(Instance()), torch.arange(3))
    assert Label().value_type == Instance().value_type == "categorical"


def test_a_column_s_measure_comes_from_the_schema():
    assert Column("height", dataset=Dataset()).value_type == "continuous"
    torch.testing.assert_close(fit(Column("height", dataset=Dataset())), torch.tensor([1.0, 2, 6]))


class Ages(Split):
    metadata = {"label": torch.arange(60) % 50, "age": 20 + torch.arange(60) % 40}  # noqa: RUF012

    vocabulary = {}  # noqa: RUF012

    def __len__(self):
        return 60

    def schema(self):
        return dict.fromkeys(self.metadata, "categorical")


@pytest.mark.parametrize("standardize", [False, True])
def test_a_missing_whole_number_is_no_number(standardize):
    ages = Ages()
    ages.metadata = {**Ages.metadata, "age": Ages.metadata["age"].clone()}
    ages.metadata["age"][7] = -1
    condition = Column("age", standardize, "continuous", "ignore", dataset=ages)
    z = condition.fit(ages, None, None)
    assert z.isnan().nonzero().tolist() == [[7]]
    expected = ages.metadata["age"][ages.metadata["age"] >= 0].float()
    if standardize:
        expected = (expected - expected.mean()) / expected.std(correction=0)
    torch.testing.assert_close(z[~z.isnan()], expected)


def test_many_whole_numbers_taken_for_class_ids_are_named_with_what_changes_it():
    with pytest.warns(
        UserWarning, match="'age' has 40 different whole numbers.*\"continuous\" of the"
    ):
        Column("age", dataset=Ages()).fit(Ages(), None, None)
    words = Ages()
    words.vocabulary = {"age": [*"abc"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Column("age", value_type="categorical", dataset=Ages()).fit(Ages(), None, None)
        Column("age", dataset=Ages()).fit(words, None, None)
        Column("label", dataset=Ages()).fit(Ages(), None, None)


def test_a_standardized_column_has_mean_0_and_deviation_1():
    z = fit(Column("height", standardize=True, dataset=Dataset()))
    torch.testing.assert_close(z.mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(z.std(correction=0), torch.tensor(1.0))
    assert fit(Column("same", standardize=True, dataset=Dataset())).eq(0).all()


def test_a_column_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ValueError, match="no column 'hight'; it has label, height, same"):
        Column("hight", dataset=Dataset())


def test_without_a_data_set_the_measure_must_be_given():
    with pytest.raises(ValueError, match="value_type="):
        Column("height")


def test_class_ids_are_not_standardized():
    with pytest.raises(ValueError, match="'label' is categorical"):
        Column("label", standardize=True, dataset=Dataset())


def test_embedding_is_without_gradient_and_one_per_view():
    features = torch.randn(2, 4, 3, requires_grad=True)
    embedded = Embedded(features=features, projections=features * 2, keys=features * 3)
    for of, factor in (("backbone", 1), ("projection", 2), ("key", 3)):
        z = Embedding(of)(embedded)
        assert not z.requires_grad
        torch.testing.assert_close(z, features.detach() * factor)


def test_keys_need_a_method_that_has_them():
    features = torch.randn(2, 4, 3)
    with pytest.raises(ValueError, match="momentum encoder"):
        Embedding("key")(Embedded(features=features, projections=features))
