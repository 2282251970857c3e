"""Results side by side: means over seeds, intervals of single runs, differences seed by seed."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest

from ccl_plugins.commands.batch import compared
from ccl_plugins.experiments.results import (
    Result,
    compare_results,
    groups_of,
    holm,
    judged_by,
    paired,
    spread,
    visible,
)
from ccl_plugins.protocols import Measurement


def measured(*measurements):
    return {each.name: each for each in measurements}


def knn(value, **about):
    about = {"column": "label", "role": "label", "direction": "higher", "chance": 0.1, **about}
    return Measurement("knn/top1", value, "the share of neighbors", **about)


def result(name, seed, value, *, dataset="digits", objective="infonce", interval=None, **options):
    record = {"dataset": dataset, "objective": objective, "fit": {"seed": seed}}
    after = {} if value is None else measured(knn(value, interval=interval))
    return Result(Path(name), measured(knn(0.5)), after, record=record, **options)


def two(first, second, **options):
    """Two configurations with a run for each value."""
    return [
        *(result(f"a-{seed}", seed, value) for seed, value in enumerate(first)),
        *(
            result(f"b-{seed}", seed, value, objective="fair", **options)
            for seed, value in enumerate(second)
        ),
    ]


def test_the_paired_test_is_the_one_of_the_textbook():
    """Differences 1, 2, 3: t = 2 / (1 / sqrt(3)) with two degrees of freedom, where p has a closed form."""
    test = paired({0: 0.0, 1: 5.0, 2: 1.0}, {2: 4.0, 0: 1.0, 1: 7.0})
    t = 2 * math.sqrt(3)
    assert (test.n, test.difference, test.deviation) == (3, 2, 1)
    assert test.p == pytest.approx(1 - t / math.sqrt(2 + t**2), rel=1e-9)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_what_is_visible_with_n_seeds_has_a_p_of_a_twentieth(n):
    spread = [(-1) ** i * (1 + i) for i in range(n)]
    mean, deviation = statistics.fmean(spread), statistics.stdev(spread)
    shifted = [x - mean + visible(n) * deviation for x in spread]
    test = paired(dict.fromkeys(range(n), 0.0), dict(enumerate(shifted)))
    assert test.p == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "n", "difference", "note"),
    [
        ({0: 1.0}, {1: 2.0}, 0, None, "no seed in common"),
        ({None: 1.0}, {None: 2.0}, 0, None, "no seed in common"),
        ({0: 1.0, 1: 1.0}, {0: 3.0}, 1, 2.0, "one seed in common"),
        ({0: 1.0, 1: 2.0}, {0: 2.0, 1: 3.0}, 2, 1.0, "the same difference with every seed"),
        ({0: 0.1, 1: 0.2}, {0: 0.4, 1: 0.5}, 2, 0.3, "the same difference with every seed"),
        ({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}, 2, 0.0, "the same difference with every seed"),
        ({0: 1.0, 1: math.nan}, {0: 1.0, 1: 2.0}, 2, None, "not finite with every seed"),
    ],
)
def test_a_test_that_is_undefined_says_why(first, second, n, difference, note):
    test = paired(first, second)
    assert (test.n, test.p, test.note) == (n, None, note)
    assert test.difference == (None if difference is None else pytest.approx(difference))


def test_groups_of_are_compared_with_the_first_over_common_seeds():
    first, second = compare_results(two([0.7, 0.8, 0.9], [0.75, 0.9, 0.92]))
    assert first["test"] is None
    assert (second["test"]["against"], second["test"]["n"]) == ("a-*", 3)
    expected = paired({0: 0.7, 1: 0.8, 2: 0.9}, {0: 0.75, 1: 0.9, 2: 0.92})
    assert second["test"]["p"] == expected.p
    assert second["test"]["difference"] == pytest.approx(0.17 / 3)
    json.dumps([first, second], allow_nan=False)


def test_seeds_that_begin_alike_are_not_called_a_run_of_one_seed():
    """What 10 and 11 have in common is no seed 1."""
    runs = [
        result(f"runs/{name}-seed-{seed}", seed, 0.7, objective=name)
        for name in ("fair", "plain")
        for seed in (10, 11)
    ]
    assert [row["run"] for row in compare_results(runs)] == [
        "runs/fair-seed-*",
        "runs/plain-seed-*",
    ]
    assert [group.name for group in groups_of(runs)] == ["fair", "plain"]


def test_runs_of_other_data_sets_and_unfinished_runs_are_not_compared():
    other = two([0.7, 0.8], [0.75, 0.9], dataset="faces")
    assert [row["test"] for row in compare_results(other)] == [None, None]
    stopped = [result("s", 0, 0.1, state="step 1 of 2"), *two([0.7, 0.8], [0.75, 0.9])]
    tests = [row["test"] for row in compare_results(stopped)]
    assert tests[:2] == [None, None]
    assert tests[2]["against"] == "a-*"


def test_a_single_run_has_its_interval_and_seeds_have_their_deviation():
    (one,) = compare_results([result("a", 0, 0.7, interval=(0.6, 0.8))])
    assert (one["interval"], one["after_deviation"]) == ([0.6, 0.8], None)
    runs = [result(f"a-{seed}", seed, 0.7 + seed, interval=(0.6, 0.8)) for seed in (0, 1)]
    (both,) = compare_results(runs)
    assert both["interval"] is None
    assert both["after_deviation"] == pytest.approx(math.sqrt(0.5))


def test_a_row_says_what_its_measurement_is():
    (row,) = compare_results([result("a", 0, 0.7)])
    about = ("sentence", "column", "role", "direction", "chance")
    assert [row[name] for name in about] == [
        "the share of neighbors",
        "label",
        "label",
        "higher",
        0.1,
    ]
    (empty,) = compare_results([Result(Path("a"), state="not begun")])
    assert (empty["metric"], empty["sentence"], empty["chance"]) == (None, None, None)


def test_a_column_is_judged_by_its_first_measurement_with_a_direction():
    color = {"column": "color", "direction": "higher"}
    one = measured(
        Measurement("dependence-color/dcor_level", 0.3, column="color"),
        Measurement("color/r2", 0.1, **color, role="other"),
        Measurement("gap", 0.1, direction="lower"),
        Measurement("size/r2", 0.2, column="size", direction="higher", role="other"),
        Measurement("color/mse", 0.1, column="color", direction="lower", role="other"),
        knn(0.9),
    )
    assert [*judged_by([Result(Path("a"), after=one)]).items()] == [
        ("label", "knn/top1"),
        ("color", "color/r2"),
        ("size", "size/r2"),
    ]
    other = measured(
        Measurement("size/r2", 0.2, column="size", direction="higher", role="condition")
    )
    results = [Result(Path("a"), after=one), Result(Path("b"), before=other)]
    assert [*judged_by(results)] == ["label", "size", "color"], "a condition of one of them"


def test_a_column_beside_the_label_is_judged_by_what_is_held_of_it():
    """Which is defined, where training lacks the values that are measured."""
    site = {"column": "site", "direction": "higher", "role": "other"}
    one = measured(
        knn(0.9),
        Measurement("held/top1", 0.5, column="label", direction="higher", within=True),
        Measurement("linear-site/top1", 0.1, **site),
        Measurement("held-site/top1", 1.0, **site, within=True),
        Measurement("held-site/balanced", 0.9, **site, within=True),
    )
    only = measured(Measurement("linear-site/top1", 0.1, **site))
    results = [Result(Path("a"), before=only), Result(Path("b"), after=one)]
    assert judged_by(results) == {"label": "knn/top1", "site": "held-site/top1"}
    assert judged_by(results[:1]) == {"site": "linear-site/top1"}


def test_the_table_says_n_and_p_and_when_there_are_too_few_seeds():
    text = str(compared(two([0.7, 0.8, 0.9], [0.75, 0.9, 0.92])))
    p = paired({0: 0.7, 1: 0.8, 2: 0.9}, {0: 0.75, 1: 0.9, 2: 0.92}).p
    assert f"+0.05667 (p {p:.2g})" in text
    assert "n = 3 common seeds: p < 0.05 needs a mean difference of 2.48 standard" in text
    one = str(compared(two([0.7], [0.8], interval=(0.76, 0.84))))
    assert "0.8 (0.76 to 0.84)" in one
    assert "+0.1\n" in one
    assert "(p " not in one
    assert "n = 1: with one seed in common, a difference cannot be told from chance" in one
    alone = str(compared(two([0.7, 0.8], [])))
    assert "DIFFERENCE" not in alone


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((0.94777, 0.01312), "0.948 ± 0.013"),
        ((1135.2, 301.0), "1135 ± 301"),
        ((0.5, 0.0), "0.5 ± 0"),
        ((0.123456, 1e-7), "0.12345600 ± 0.00000010"),
        ((0.5, math.nan), "0.5 ± nan"),
        ((0.12345, None, (0.1, 0.2)), "0.1235 (0.1 to 0.2)"),
        ((0.12345,), "0.1235"),
        ((None,), ""),
    ],
)
def test_a_mean_has_as_many_places_as_its_deviation(given, text):
    assert spread(*given) == text
