"""The table of the papers' claims has every table and figure, and a status and evidence for each claim."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "reproduction" / "claims.md"
PAPERS = {"CCL-K": (8, 4), "Cl-InfoNCE": (6, 6), "H-SCL": (1, 4), "CACR": (21, 10)}
"""How many tables and figures each paper has."""

STATUSES = {"holds", "does not hold", "not tested", "no claim"}


def claims(paper: str) -> list[list[str]]:
    """Item, claim, status and evidence of each row below a paper's heading."""
    _, _, below = PAGE.read_text().partition(f"\n## {paper}\n")
    lines = [line for line in below.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    rows = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines]
    return [
        cells
        for row in rows
        if (cells := [cell.strip() for cell in row])[1:3] != ["claim", "status"]
    ]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_of_a_paper_has_its_row(paper):
    tables, figures = PAPERS[paper]
    items = {
        match[0] for row in claims(paper) if (match := re.match(r"(Table|Figure) \d+", row[0]))
    }
    expected = {f"Table {i + 1}" for i in range(tables)} | {
        f"Figure {i + 1}" for i in range(figures)
    }
    assert items == expected


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_has_one_row_a_status_and_evidence(paper):
    rows = claims(paper)
    assert len({item for item, *_ in rows}) == len(rows)
    for item, claim, status, evidence in rows:
        assert claim, item
        assert status in STATUSES, item
        targets = re.findall(r"\]\(([^)#]+)", evidence)
        assert all((PAGE.parent / target).is_file() for target in targets), item
        assert evidence, item
        if status in ("holds", "does not hold"):
            assert targets, f"{item}: a tested claim needs a link to its evidence"
