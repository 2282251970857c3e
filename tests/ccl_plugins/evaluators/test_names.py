"""The names of metrics: what reports and tables read from them."""

from __future__ import annotations

import pytest

import ccl_plugins as ccl
from ccl_plugins.kinds import registry
from ccl_plugins.report.words import meaning, probed
from ccl_plugins.testing.evaluators import splits

NEEDED = {"fairness": {"column": "group"}}
BUILT_IN = [spec.name for spec in registry().specs("evaluator") if spec.plugin == "ccl-plugins"]


@pytest.fixture(scope="module")
def frozen():
    return splits()


@pytest.mark.parametrize("name", BUILT_IN)
def test_reports_say_what_every_metric_means(name, frozen):
    found = ccl.create("evaluator", name, **NEEDED.get(name, {}))(*frozen)
    assert [metric for metric in found if not meaning(metric)] == []


@pytest.mark.parametrize(
    "name", ["linear", "linear_sgd", "linear_adam", "knn", "few_shot", "fine_tune"]
)
def test_reports_know_of_which_column_a_probe_tells(name, frozen):
    few = {"samples": 0.5} if name in ("few_shot", "fine_tune") else {}
    for column in ("label", "digit"):
        (metric,) = ccl.create("evaluator", name, column=column, **few)(*frozen)
        assert probed(metric) == column
