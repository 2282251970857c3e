"""The pages of the experiments show what their results files hold."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
from scipy.stats import ttest_rel
from support.scripts import script

from ccl_plugins.protocols import Measurement
from ccl_plugins.sweep.cells import Cell, Sweep

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "evidence" / "reproduction"
RESULTS = ROOT / "examples" / "reproduction" / "results"

pages = script("docs/evidence/reproduction/pages.py")


def configuration(label, values, top1, **keys):
    by_seed = {str(seed): value for seed, value in enumerate(top1)}
    before = {str(seed): 0.5 for seed in range(len(top1))}
    return {
        "label": label,
        "values": keys,
        "seeds": [0, 1, 2],
        "before": {"linear/top1": pages.moments(before)},
        "test": {"linear/top1": pages.moments(by_seed)},
    }


A, B = [0.7, 0.72, 0.71], [0.8, 0.85, 0.81]
PAGE = """# A page
<!-- table toy: linear/top1; against A
A as the first | 84.1
B, scale 1 | 86.4 ± 0.9
-->
old
<!-- end -->
<!-- figure toy: y = linear/top1, x = objective.kernel.scale, log -->
<!-- end -->
<!-- table other: linear/top1 -->
kept
<!-- end -->
"""


@pytest.fixture
def toy():
    return {
        "experiment": "toy",
        "configurations": [
            configuration("A", {}, A),
            configuration("B, scale 1", {}, B, **{"objective.kernel.scale": 1}),
            configuration("B, scale 10", {}, B, **{"objective.kernel.scale": 10}),
        ],
    }


def test_a_table_has_the_papers_value_ours_and_the_paired_difference(toy, tmp_path):
    toy["tests"] = pages.tests_of(toy, PAGE)
    page = pages.write_page(PAGE, {"toy": toy}, tmp_path)
    half = 100 * ttest_rel(B, A).confidence_interval().high - 11
    assert "| untrained |  | 50 |\n" in page
    assert "| the first | 84.1 | 71.0 (68.5 to 73.5) |\n" in page
    difference = f"+11.0 ({11 - half:.1f} to {11 + half:.1f})"
    assert f"| B, scale 1 | 86.4 ± 0.9 | 82.0 (75.4 to 88.6); {difference} |\n" in page
    assert "scale 10 |" not in page
    assert "old" not in page
    assert "kept" in page
    assert "(toy-linear-top1-objective-kernel-scale.svg)" in page
    assert "<svg" in (tmp_path / "toy-linear-top1-objective-kernel-scale.svg").read_text()
    assert pages.write_page(page, {"toy": toy}, tmp_path) == page


def test_of_the_validation_part_there_is_no_test_and_nothing_before_training(toy, tmp_path):
    page = PAGE.replace("toy: linear/top1;", "toy: validation linear/top1, linear/top1;")
    for each in toy["configurations"]:
        each["validation"] = {"linear/top1": pages.moments({"0": 0.5, "1": 0.6, "2": 0.55})}
    toy["tests"] = pages.tests_of(toy, page)
    written = pages.write_page(page, {"toy": toy}, tmp_path)
    cells = {line.split(" | ")[0]: line.split(" | ") for line in written.splitlines()}
    assert cells["| untrained"][1:] == ["", "", "50 |"]
    _, _, validation, test = cells["| B, scale 1"]
    assert validation.startswith("55")
    assert ";" not in validation
    assert ";" in test


def test_a_configuration_that_is_not_there_is_named(toy, tmp_path):
    toy["tests"] = {}
    with pytest.raises(ValueError, match=r"no configuration is called 'C'; there are \['A', "):
        pages.write_page(PAGE.replace("A as the first | 84.1", "C | 84.1"), {"toy": toy}, tmp_path)


def test_results_need_every_cell(monkeypatch, tmp_path):
    (tmp_path / "toy.toml").write_text(
        'out = "runs"\nbase = {}\n[grid]\n"fit.seed" = [0, 1]\n', encoding="utf-8"
    )
    monkeypatch.setattr(pages, "EXPERIMENTS", tmp_path)
    cells = [
        Cell("000", {"fit.seed": 0}, "done", {}, {}, {"m": Measurement("m", 1.0)}),
        Cell("001", {"fit.seed": 1}, "waiting", {}, {}, {}),
    ]
    monkeypatch.setattr(pages, "cells_of", lambda sweep: cells)
    with pytest.raises(ValueError, match=r"cell 001 is waiting; 1 of 2 lack"):
        pages.measure("toy", "")


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.json")), ids=lambda file: file.stem)
def test_the_page_is_written_from_the_results(file, tmp_path):
    results = json.loads(file.read_text())
    texts = [p.read_text() for p in [ROOT / "README.md", *PAGES.glob("*.md")]]
    texts = [text for text in texts if f"<!-- table {file.stem}: " in text]
    assert texts
    results["tests"] = pages.tests_of(results, "\n".join(texts))
    for text in texts:
        assert pages.write_page(text, {file.stem: results}, tmp_path) == text
    for picture in tmp_path.iterdir():
        assert (PAGES / picture.name).exists()


@pytest.mark.parametrize(
    "file",
    [each for each in sorted(RESULTS.glob("*.csv")) if pages.sweep_of(each.stem).exists()],
    ids=lambda file: file.stem,
)
def test_the_results_are_those_of_the_rows(file):
    """Means by hand from the CSV file, and the configurations of the sweep's file."""
    results = json.loads(file.with_suffix(".json").read_text())
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    sweep = Sweep.from_toml(pages.sweep_of(file.stem))
    assert len(rows) == sweep.size == sum(len(c["seeds"]) for c in results["configurations"])
    assert all(len(c["seeds"]) >= 3 for c in results["configurations"])
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in sweep.values if key != "fit.seed"), []).append(
            row
        )
    for each, own in zip(results["configurations"], groups.values(), strict=True):
        assert [str(seed) for seed in each["seeds"]] == [row["fit.seed"] for row in own]
        for metric, found in each["test"].items():
            values = [float(row[f"test/{metric}"]) for row in own]
            assert math.isclose(found["mean"], sum(values) / len(values), rel_tol=1e-12)
