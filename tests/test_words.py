"""The pages stay short: docs/words.py counts their words, and ``MOST`` bounds them."""

from __future__ import annotations

import pytest
from support.scripts import script

MOST = {
    "decisions": 6_900,
    "evidence": 17_850,
    "explanation": 2_580,
    "how-to": 12_300,
    "reference": 4_950,
    "tutorial": 760,
    ".": 520,
}
"""The most words of prose in each folder of docs/; "." is what lies beside the folders."""
MOST_OF_A_DECISION = 180
"""The most words of a page about a decision, with tables and code."""
MOST_OF_EVIDENCE = 600
"""The most words of prose of a page of evidence.  Protocols have no bound, because a protocol was
committed before its runs and is never changed."""
MOST_OF_ALL = 102_000
"""The most words of all pages, with tables and code."""


@pytest.fixture(scope="module")
def words():
    return script("docs/words.py")


def test_every_folder_is_within_its_bound(words):
    prose = {name: found.prose for name, found in words.of_folders(words.of_pages()).items()}
    assert prose.keys() == MOST.keys(), "give each folder its bound in MOST"
    assert {name: n for name, n in prose.items() if n > MOST[name]} == {}


def test_all_pages_are_within_their_bound(words):
    assert sum(each.all for each in words.of_pages().values()) <= MOST_OF_ALL


def test_a_decision_is_short(words):
    pages = words.of_pages()
    decisions = {page: each.all for page, each in pages.items() if page.startswith("decisions/")}
    assert {page: n for page, n in decisions.items() if n > MOST_OF_A_DECISION} == {}


def test_a_page_of_evidence_is_short(words):
    pages = words.of_pages(words.DOCS / "evidence")
    prose = {p: each.prose for p, each in pages.items() if not p.endswith("-protocol.md")}
    assert {p: n for p, n in prose.items() if n > MOST_OF_EVIDENCE} == {}


@pytest.mark.parametrize(
    ("text", "prose", "every"),
    [
        ("three words here\n", 3, 3),
        ("# A title\n\ntext\n", 4, 4),
        ("before\n\n```python\nx = 1\n```\n\nafter\n", 2, 7),
        ("- item\n\n  ~~~\n  code `x`\n  ~~~\n", 2, 6),
        ("| a | b |\n|---|---|\n| c | d |\n\nend\n", 1, 12),
        ("[a link](../to/a-page.md#part), text\n", 3, 3),
        ("<!-- a note -->\ntext\n", 1, 5),
    ],
)
def test_what_is_counted(words, text, prose, every):
    assert words.of_text(text) == (prose, every)


def test_the_script_shows_pages_folders_and_the_sum(words, tmp_path):
    (tmp_path / "how-to").mkdir()
    (tmp_path / "index.md").write_text("one two\n")
    (tmp_path / "how-to/sweep.md").write_text("one\n\n| two |\n")
    lines = [line.split() for line in words.table(words.of_pages(tmp_path))]
    assert lines[1:] == [
        ["1", "4", "how-to/sweep.md"],
        ["2", "2", "index.md"],
        ["1", "4", "how-to/"],
        ["2", "2", "./"],
        ["3", "6", "all", "pages"],
    ]
