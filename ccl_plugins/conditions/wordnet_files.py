"""Hierarchies in files: WordNet's own, a table of edges, and the one that is shipped."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from ccl_plugins.conditions.hierarchy import Hierarchy
from ccl_plugins.tabular import read_table

SHIPPED = "imagenet1k"
NOUNS = "data.noun"
HYPERNYMS = ("@", "@i")
"""WordNet's pointers to what a noun is a kind of, and what it is an instance of."""


def read_hierarchy(source: str) -> Hierarchy:
    """A hierarchy by its source.

    Args:
        source: ``"imagenet1k"``; a folder with WordNet's ``data.noun``; or a ``.csv`` or ``.parquet``
            table with the columns ``parent`` and ``child``.

    Raises:
        FileNotFoundError: If there is no such file or folder.
        ValueError: If it holds no hierarchy, naming the row.
    """
    if source == SHIPPED:
        return Hierarchy(shipped()[0])
    path = Path(source)
    if path.is_dir():
        return Hierarchy(read_nouns(path))
    if path.suffix not in (".csv", ".parquet"):
        raise FileNotFoundError(
            f"there is no hierarchy {source!r}: give {SHIPPED!r}, a folder with WordNet's {NOUNS}, or a"
            " table (.csv, .parquet) with the columns parent and child"
        )
    return Hierarchy(_read_edges(path))


def read_nouns(folder: Path) -> dict[str, tuple[str, ...]]:
    """The hypernyms of every noun synset of a WordNet database, as listed; synsets as ``n01440764``.

    Raises:
        FileNotFoundError: If the folder has no ``data.noun``.
        ValueError: For a line that is not of its format, naming it.
    """
    path = folder / NOUNS
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is no WordNet database: there is no {NOUNS} in it")
    found = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("  "):  # the licence
                continue
            try:
                synset, above = _parse(line)
            except (IndexError, ValueError) as error:
                raise ValueError(f"{path}, line {number} is no synset: {line[:60]!r}") from error
            found[synset] = above
    return found


def _parse(line: str) -> tuple[str, tuple[str, ...]]:
    fields = line.split(" | ")[0].split()
    offset, _, kind, words = fields[:4]
    if kind != "n" or len(offset) != 8 or not offset.isdigit():
        raise ValueError
    at = 4 + 2 * int(words, 16)  # each word has a number behind it
    pointers = fields[at + 1 : at + 1 + 4 * int(fields[at])]
    above = [
        f"n{target}"
        for symbol, target in zip(pointers[::4], pointers[1::4], strict=True)
        if symbol in HYPERNYMS
    ]
    return f"n{offset}", tuple(above)


def shipped() -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The hypernyms above the 1,000 ImageNet classes, and these in their order."""
    text = resources.files(__package__).joinpath(f"{SHIPPED}.tsv").read_text(encoding="utf-8")
    parents: dict[str, tuple[str, ...]] = {}
    classes = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        is_class, node, above = line.split("\t")
        parents[node] = tuple(above.split())
        if is_class == "class":
            classes.append(node)
    return parents, classes


def _read_edges(path: Path) -> dict[str, tuple[str, ...]]:
    table = read_table(path, words=("parent", "child"))
    for name in ("parent", "child"):
        if name not in table:
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(table)}")
    found: dict[str, tuple[str, ...]] = {}
    for row, (parent, child) in enumerate(zip(table["parent"], table["child"], strict=True)):
        if parent is None or child is None:
            raise ValueError(f"{path}, row {row}: an edge needs a parent and a child")
        above = found.get(str(child), ())
        if str(parent) in above:
            raise ValueError(f"{path}, row {row}: the edge {parent} to {child} is there twice")
        found[str(child)] = (*above, str(parent))
    return found
