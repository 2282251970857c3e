"""The papers' claims have a row each, and their statuses follow from the stored results by one rule."""

from __future__ import annotations

import csv
import math
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import bartlett, ttest_1samp
from support.scripts import script

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "evidence" / "reproduction"
PAGE = PAGES / "claims.md"
PAPERS = {"CCL-K": (8, 4), "Cl-InfoNCE": (6, 6), "H-SCL": (1, 4), "CACR": (21, 10)}
"""How many tables and figures each paper has."""


claims = script("docs/evidence/reproduction/claims.py")
errors = script("docs/evidence/reproduction/error_rates.py")
TESTED = {*claims.STATUSES} - {"exact", "not tested", "no claim"}
FILE = tomllib.loads((PAGES / "claims.toml").read_text())


@pytest.fixture(scope="module")
def decided():
    return claims.decide(FILE)


def rows_of(paper: str) -> list[list[str]]:
    """The cells of each row below a paper's heading."""
    _, _, below = PAGE.read_text().partition(f"\n## {paper}\n")
    lines = [line for line in below.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    rows = [re.split(r"(?<!\\)\|", line.strip()[1:-1]) for line in lines]
    stripped = [[cell.strip() for cell in row] for row in rows]
    return [row for row in stripped if row[1:3] != ["claim", "status"] and row[0] != "---"]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_of_a_paper_has_its_row(paper):
    tables, figures = PAPERS[paper]
    items = {
        match[0] for row in rows_of(paper) if (match := re.match(r"(Table|Figure) \d+", row[0]))
    }
    expected = {f"Table {i + 1}" for i in range(tables)} | {
        f"Figure {i + 1}" for i in range(figures)
    }
    assert items == expected


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_has_one_row_a_status_and_evidence(paper):
    rows = rows_of(paper)
    assert len({row[0] for row in rows}) == len(rows)
    for item, claim, status, difference, n, shows, p, evidence in rows:
        assert claim, item
        status = status.partition(" (")[0]
        assert status in claims.STATUSES, item
        targets = re.findall(r"\]\(([^)#]+)", evidence)
        assert all((PAGE.parent / target).is_file() for target in targets), item
        assert evidence, item
        if status in TESTED | {"exact"}:
            assert targets, f"{item}: a tested claim needs a link to its evidence"
        assert all(map(bool, (difference, n, shows, p))) == (status in TESTED), item


def test_the_pages_are_what_the_script_writes(decided):
    assert claims.write_claims(FILE, decided) == PAGE.read_text()
    named = {row.page for row in decided if row.page}
    for name in named:
        text = (PAGES / name).read_text()
        assert claims.BLOCK.search(text), f"{name} has no list of its claims"
        assert claims.write_block(text, decided, name) == text


def test_all_comparisons_are_in_the_file(decided):
    with (claims.RESULTS / "claims.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, found in zip(rows, claims.write_comparisons(decided), strict=True):
        for key, value in found.items():
            if isinstance(value, float):
                assert math.isclose(float(row[key]), value, rel_tol=1e-6, abs_tol=1e-9), row
            else:
                assert row[key] == ("" if value is None else str(value)), row


def test_statuses_follow_from_the_written_numbers():
    """Of each paper's table alone: the adjusted p, and on which side of the claim the interval lies."""
    seen = 0
    for item, _, status, difference, _, _, p, _ in (r for paper in PAPERS for r in rows_of(paper)):
        if status.partition(" (")[0] not in TESTED:
            continue
        seen += 1
        status = status.partition(" (")[0]
        assert (status == "inconclusive") == (not p.startswith("<") and float(p) >= 0.05), item
        found = re.search(
            r": (\S+) \((\S+) to (\S+)\)(?:; margin (\S+))?", difference.replace("−", "-")
        )
        assert found, item
        _, low, high, margin = (float(each) if each else None for each in found.groups())
        if status.startswith("supported"):
            assert low > 0 if margin is None else max(-low, high) < margin, item
        if status in ("contradicted", claims.EARLY["contradicted"]):
            assert high < 0 if margin is None else max(low, -high) > margin, item
    assert seen == len([r for r in FILE["row"] if "results" in r and r["paper"] != claims.OURS])


def test_no_page_has_the_old_words():
    for page in [ROOT / "README.md", *PAGES.glob("*.md")]:
        assert not re.search(r"does not hold|: holds\b|within the noise", page.read_text()), page


VALUES = {
    "A": {"0": 10.0, "1": 12.0, "2": 11.0},
    "B": {"0": 14.0, "1": 15.5, "2": 15.0},
    "C": {"0": 9.5, "1": 12.5, "2": 10.0},
}


def test_differences_are_taken_seed_by_seed():
    found = claims.estimate(VALUES, {"B": 1, "A": -1})
    test = ttest_1samp([4.0, 3.5, 4.0], 0.0)
    assert found[2:] == (2, 3)
    assert found[:2] == (pytest.approx(23 / 6), pytest.approx(23 / 6 / test.statistic, rel=1e-12))


def test_a_seed_that_some_configurations_lack_is_left_out():
    values = {**VALUES, "B": {**VALUES["B"], "3": 90.0}}
    weights = {"B": 1, "A": -1}
    assert claims.estimate(values, weights) == claims.estimate(VALUES, weights)


def test_seed_by_seed_a_test_errs_as_often_as_it_says_where_values_spread_differently():
    found = errors.rates(6, (2, 2, 1, 1, 1, 1), draws=20_000)
    assert found["seed by seed"][0] == pytest.approx(0.05, abs=0.006)
    assert found["earlier"][0] > 0.1


def test_bartlett_is_the_one_of_scipy():
    y = np.random.default_rng(0).normal(size=(3, 4, 5))
    assert np.allclose(errors.bartlett(y), [bartlett(*each).pvalue for each in y], rtol=1e-9)


def compared(estimate, error=1.0, df=20, within=None):
    return claims.Comparison("A − B", estimate, error, df, 3, within)


def test_three_pairs_need_differences_of_3_3_deviations():
    assert round(compared(0.0, 1 / math.sqrt(3), 2).shows(), 2) == 3.26


@pytest.mark.parametrize("level", [0.05, 0.001])
@pytest.mark.parametrize("within", [None, 2.0])
def test_what_is_shown_is_shown_in_four_of_five_experiments(within, level):
    draw = np.random.default_rng(0)
    size, df = 20_000, 10
    comparison = compared(0.0, 1.0, df, within)
    errors = np.sqrt(draw.chisquare(df, size) / df)
    shows = comparison.shows(level)
    means = draw.normal(0 if within else shows, 1, size)
    edge = claims.t.ppf(1 - level / 2, df) * errors
    found = np.abs(means) + edge < shows if within else means - edge > 0
    assert abs(found.mean() - 0.8) < 0.015


@pytest.mark.parametrize(
    ("comparisons", "status"),
    [
        ([compared(5.0)], "supported"),
        ([compared(-5.0)], "contradicted"),
        ([compared(1.0)], "inconclusive"),
        ([compared(5.0), compared(1.0)], "inconclusive"),
        ([compared(5.0), compared(-5.0)], "contradicted"),
        ([compared(0.0, within=5.0)], "supported"),
        ([compared(0.0, within=1.0)], "inconclusive"),
        ([compared(-9.0, within=1.0)], "contradicted"),
    ],
)
def test_a_claim_needs_all_comparisons_and_one_is_enough_against_it(comparisons, status):
    decision = claims.Decision(comparisons)
    assert decision.status(decision.p) == status
    assert decision.status(0.05) == "inconclusive"


def test_one_of_many_comparisons_counts_times_their_number_against_a_claim():
    alone, many = (claims.Decision([compared(-2.3)] + n * [compared(9.0)]) for n in (0, 3))
    assert many.p_contradicted == pytest.approx(4 * alone.p_contradicted)
    assert alone.status(alone.p) == "contradicted"
    assert many.status(many.p) == "inconclusive"
    assert many.decisive.estimate == -2.3


def test_a_status_is_called_by_the_length_and_the_baseline_of_its_experiment(monkeypatch):
    given = {
        "rules": {"early_below": 0.1, "baseline_within": 10},
        "baselines": {"far": {"configuration": "A", "paper": 84.1}},
        "epochs": {"short": [9, 100], "long": [10, 100]},
    }
    monkeypatch.setattr(claims, "load", lambda _: {"A": {"test": {"linear/top1": {"mean": mean}}}})
    early = {
        "supported": "supported early in training",
        "contradicted": "opposite early in training",
    }
    for status in ("supported", "contradicted"):
        assert claims.named(status, "short", given) == early[status]
        assert claims.named(status, "long", given) == status
        mean = 0.2
        assert claims.named(status, "far", given) == "baseline not reproduced"
        mean = 0.75
        assert claims.named(status, "far", given) == status
    assert claims.named("inconclusive", "short", given) == "inconclusive"


def test_seeds_that_were_added_or_ran_after_others_are_told():
    given = {"seen": {"x": [3, 8]}, "known": {"x": {"A": 2}}}
    assert claims._seeds(compared(1.0), "x", given) == "3, 1 added, after 3, 8"
    assert claims._seeds(compared(1.0), "y", given) == "3"


def test_the_same_numbers_contradict_the_claim_turned_round():
    row = {"item": "4a", "results": "hard_negatives"}
    both = ["InfoNCE", "HardNeg-CCLK, kernel rbf"]
    for names, status in ((both, "supported"), (both[::-1], "contradicted")):
        tests = [{"metric": "linear/top1", "above": [names]}]
        decision = claims.Decision([*claims.comparisons({**row, "tests": tests}, {})])
        assert decision.status(decision.p) == status


def test_a_setting_is_chosen_by_validation_and_not_by_the_test_split(monkeypatch):
    def cell(validation, test):
        return {"validation": {"linear/top1": {"mean": validation}}, "test": {"m": {"mean": test}}}

    monkeypatch.setattr(
        claims, "load", lambda name: {"at 1": cell(0.9, 0.2), "at 2": cell(0.3, 0.8)}
    )
    assert claims.choose("toy", ["at 1", "at 2"]) == "at 1"


def test_a_curve_is_compared_seed_by_seed_over_training_or_at_a_step(monkeypatch):
    logged = {"A": [[10, 0, 0, 0.1, 0.3], [20, 0, 0, 0.5, 0.5]], "B": [[10, 0, 0, 0.2, 0.2]]}
    found = {
        label: {"seeds": [3, 5], "curves": {"monitor/linear/top1": points}}
        for label, points in logged.items()
    }
    monkeypatch.setattr(claims, "load", lambda _: found)
    pairs = [["A", "B"], ["A @ 20", "A @ 10"]]
    row = {"item": "", "results": "", "tests": [{"curve": "monitor/linear/top1", "above": pairs}]}
    mean, rise = claims.comparisons(row, {})
    assert (mean.estimate, mean.error) == (pytest.approx(15), pytest.approx(5))
    assert (rise.estimate, rise.n, rise.df) == (pytest.approx(30), 2, 1)


def test_a_name_that_is_not_there_is_refused():
    tests = [{"metric": "linear/top1", "above": [["HCL", "SimCLR"]]}]
    row = {"item": "Table 9", "results": "hard_negatives", "tests": tests}
    with pytest.raises(ValueError, match=r"Table 9: hard_negatives has no 'SimCLR'; it has \['Inf"):
        list(claims.comparisons(row, {}))


def test_a_configuration_is_not_compared_with_itself():
    tests = [{"metric": "linear/top1", "above": [["best", "HCL"]]}]
    row = {"item": "Table 9", "results": "hard_negatives", "tests": tests}
    with pytest.raises(ValueError, match=r"Table 9: \['best', 'HCL'\] compares 'HCL' with itself"):
        list(claims.comparisons(row, {"best": ["HCL"]}))
