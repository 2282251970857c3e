"""The WordNet ancestor of each sample's class as conditioning variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import DEEPEST, did_you_mean, wholes, word
from ccl_plugins.files.reading import naming_files, reading
from ccl_plugins.files.tables import choose, read_table, row_of
from ccl_plugins.metadata.matching import sample_names
from ccl_plugins.metadata.variable import check_policy
from ccl_plugins.protocols import Embedder, Missing, Refresh, Table, ValueType

SHIPPED = "imagenet1k"
NOUNS = "data.noun"
HYPERNYMS = ("@", "@i")
"""WordNet's pointers from a noun to its hypernyms, and from an instance to its class."""

Lineage = tuple[str, ...]
"""The nodes from a root, which is level 1, down to a class."""

Parents = Mapping[str, tuple[str, ...]]
"""A hierarchy: the parents of each node, in their order; a root has none."""


@dataclass(eq=False, repr=False)
class WordNet:
    """The ancestor of each sample's class at a level of a hierarchy, such as WordNet.

    The root is level 1; a class above the level is its own ancestor.  With ``levels``, every sample has one
    class id for each.

    Shape:
        N samples -> (N,) class ids; with ``levels`` (N, number of levels)

    Args:
        level: The level, 1 or more.
        levels: Several levels, instead of ``level``; one column each in this order, so that an ascending
            list goes from coarse to fine.
        source: ``"imagenet1k"``: WordNet 3.0 above the 1,000 ImageNet classes, which is part of this
            package; a folder with WordNet's ``data.noun``; or a ``.csv`` or ``.parquet`` table of edges
            with the columns ``parent`` and ``child``.
        column: The metadata column of classes: words that are nodes of the hierarchy (synsets such
            as ``n01440764``), or class ids.
        classes: The node of each class id; words have ids in sorted order, as in every column.
            ``"imagenet1k"``: the 1,000 ImageNet classes in their usual order.
        parents: What to do with a class that has several paths to a root: ``"prune"`` keeps each node's
            edge to the parent that is listed first; ``"drop"`` leaves the class out, as the released code
            does; ``"error"`` refuses it.
        missing: What to do with samples without a class (-1, an empty word), and with samples of
            classes that are left out; None: ``"drop"`` if ``parents="drop"``, else ``"error"``.

    Raises:
        ValueError: For a level below 1 or deeper than the tree, a class that is not in the
            hierarchy, and edges in a circle; the message names them.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), appendix B.1;
        Princeton University, WordNet 3.0 (2006).
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"level": 5, "classes": "imagenet1k"}
    refresh: ClassVar[Refresh] = "never"
    value_type: ClassVar[ValueType] = "categorical"

    level: int | None = None
    levels: Sequence[int] | None = None
    source: str = SHIPPED
    column: str = "label"
    classes: Sequence[str] | Literal["imagenet1k"] | None = None
    parents: Literal["prune", "drop", "error"] = word("prune", "drop", "error")
    missing: Missing | None = None

    def __post_init__(self) -> None:
        if (self.level is None) == (not self.levels):
            raise ValueError("give level=, or levels=[...] with at least one")
        levels = self.levels if self.level is None else [self.level]
        self.levels = wholes("levels", levels, 1, DEEPEST)
        if self.missing is None:
            self.missing = "drop" if self.parents == "drop" else "error"
        check_policy(self.missing, self.value_type)

    @property
    def hierarchy(self) -> bool:
        """Whether samples have several class ids."""
        return self.level is None

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Tensor:
        """The ancestors of the training split's classes."""
        names = self._names(split)
        paths = self._paths(names)
        deepest = max(map(len, paths.values()), default=0)
        columns = []
        for level in self.levels or ():
            if level > deepest:
                raise ValueError(
                    f"level {level} is deeper than the tree: the deepest class is at level {deepest} of"
                    f" source={self.source!r}"
                )
            above = {name: path[min(level, len(path)) - 1] for name, path in paths.items()}
            numbers = {node: i for i, node in enumerate(sorted(set(above.values())))}
            ids: dict[str | None, int] = {name: numbers[node] for name, node in above.items()}
            columns.append(torch.tensor([ids.get(name, -1) for name in names]))
        return torch.stack(columns, 1) if self.hierarchy else columns[0]

    def _names(self, split: Any) -> list[str | None]:
        """(N,) the node of each sample's class; None for a sample without one."""
        if self.classes is None:
            nodes = sample_names(split, self.column)
            for value in nodes:
                if value is not None and not isinstance(value, str):
                    raise ValueError(
                        f"column {self.column!r} holds class ids such as {value!r}, not words: give"
                        " classes=, the synset of each, or classes='imagenet1k'"
                    )
            return [value or None for value in nodes]
        classes = shipped()[1] if isinstance(self.classes, str) else self.classes
        words = getattr(split, "vocabulary", {}).get(self.column)
        if words is not None and (isinstance(self.classes, str) or len(words) != len(classes)):
            listed = ", ".join(words[:20]) + (", ..." if len(words) > 20 else "")
            raise ValueError(
                f"classes= has {len(classes)} nodes, but column {self.column!r} has {len(words)} "
                f"words: give one node for each of {listed}, in this order"
            )
        values = choose(split.metadata, [self.column], "the data set")[self.column]
        names: list[str | None] = []
        for row, value in enumerate(values.tolist() if isinstance(values, Tensor) else values):
            if not isinstance(value, int) or value >= len(classes):
                raise ValueError(
                    f"column {self.column!r} has {value!r} in row {row} (from 0), but there are "
                    f"{len(classes)} classes: ids must be from 0 to {len(classes) - 1}"
                )
            names.append(classes[value] if value >= 0 else None)
        return names

    def _paths(self, names: Sequence[str | None]) -> dict[str, Lineage]:
        """One path from a root to each class of the samples, except for classes that are left out."""
        path = Path(self.source).expanduser()
        path = path / NOUNS if path.is_dir() else path
        with naming_files(None if self.source == SHIPPED else path):
            return self._in(read_hierarchy(self.source), names)

    def _in(self, parents: Parents, names: Sequence[str | None]) -> dict[str, Lineage]:
        classes = sorted({name for name in names if name is not None})
        if unknown := [name for name in classes if name not in parents]:
            raise ValueError(self._no_node(unknown, classes, names, parents))
        if self.parents == "prune":
            return {name: next(lineages(parents, name)) for name in classes}
        paths = {name: [*lineages(parents, name)] for name in classes}
        several = {name: its_paths for name, its_paths in paths.items() if len(its_paths) > 1}
        if several and self.parents == "error":
            name, (one, other, *_) = next(iter(several.items()))
            raise ValueError(
                f"{len(several)} of {len(classes)} classes have several paths to a root; {name!r} has"
                f" {' > '.join(one)} and {' > '.join(other)}: parents='prune' keeps the first "
                "parents, 'drop' leaves such classes out"
            )
        return {name: its_paths[0] for name, its_paths in paths.items() if name not in several}

    def _no_node(
        self,
        unknown: Sequence[str],
        classes: Sequence[str],
        names: Sequence[str | None],
        parents: Parents,
    ) -> str:
        """The message for classes that are not nodes of the hierarchy."""
        name = unknown[0]
        place = f"row {names.index(name)}, from 0, of the column {self.column!r}"
        given = () if self.classes is None or isinstance(self.classes, str) else [*self.classes]
        if name in given:
            place = f"classes[{given.index(name)}]; {place}"
        digits = "".join(c for c in name if c.isdigit())
        near = [node for node in (f"n{digits:>08}",) if digits and node in parents]
        near += get_close_matches(name, parents, n=3, cutoff=0.8)
        means = f"did you mean {', '.join(map(repr, dict.fromkeys(near)))}? " if near else ""
        example = next(iter(parents), "none")
        return (
            f"{len(unknown)} of {len(classes)} classes are not nodes of source={self.source!r}; "
            "the first"
            f" is {name!r} ({place}): {means}its nodes are written as {example!r}; give"
            " classes=[...], the node of each class id (words have the ids of their sorted order), or"
            " another source=: a folder with WordNet's"
            f" {NOUNS}, or a table of the columns parent and child"
        )


def lineages(parents: Parents, node: str, below: Lineage = ()) -> Iterator[Lineage]:
    """All paths from a root to a node; the path along first parents comes first.

    Args:
        parents: The hierarchy.
        node: The node.
        below: The path from the node's child down, which every path ends with.

    Raises:
        ValueError: If the node is its own ancestor.
    """
    path = (node, *below)
    if node in below:
        raise ValueError(f"{node!r} is above itself: {' > '.join(path)}")
    above = parents.get(node, ())
    if not above:
        yield path
    for parent in above:
        yield from lineages(parents, parent, path)


def read_hierarchy(source: str) -> Parents:
    """The hierarchy of a ``source`` of `WordNet`; nodes that occur only as parents are roots.

    Raises:
        FileNotFoundError: If there is no such file or folder.
        ValueError: If it holds no hierarchy; the message names the row.
    """
    path = Path(source).expanduser()
    if source == SHIPPED:
        parents = shipped()[0]
    elif path.is_dir():
        parents = read_nouns(path)
    elif path.suffix in (".csv", ".parquet"):
        parents = _read_edges(path)
    else:
        what = "ends neither in .csv nor in .parquet" if path.is_file() else "is not there"
        near = did_you_mean(source, [SHIPPED], otherwise="")
        raise FileNotFoundError(
            f"source={source!r} {what}.{near} Give {SHIPPED!r}, a folder with WordNet's {NOUNS}, or a"
            " table (.csv, .parquet) with the columns parent and child"
        )
    roots: Parents = {parent: () for above in parents.values() for parent in above}
    return {**roots, **parents}


def read_nouns(folder: Path) -> Parents:
    """The hypernyms of each noun synset of a WordNet database, in file order; ids are like ``n01440764``.

    Raises:
        FileNotFoundError: If the folder has no ``data.noun``.
        ValueError: For a line of another format; the message quotes the line.
    """
    path = folder / NOUNS
    if not path.is_file():
        raise FileNotFoundError(
            f"source={str(folder)!r} is not a WordNet database: it has no {NOUNS}; Debian's "
            "package wordnet-base installs one in /usr/share/wordnet"
        )
    hypernyms = {}
    with reading(path, "list of synsets"), path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("  "):  # the license
                continue
            try:
                synset, above = _parse(line)
            except (IndexError, ValueError) as error:
                raise ValueError(
                    f"{path}, line {number} is not a synset: {line[:60]!r}; a synset begins like"
                    " '01440764 05 n 01 tench 0 001 @ ...', and its id is 'n01440764'"
                ) from error
            hypernyms[synset] = above
    return hypernyms


def _parse(line: str) -> tuple[str, tuple[str, ...]]:
    fields = line.split(" | ")[0].split()
    offset, _, kind, words = fields[:4]
    if kind != "n" or len(offset) != 8 or not offset.isdigit():
        raise ValueError
    at = 4 + 2 * int(words, 16)  # a number follows each word
    pointers = fields[at + 1 : at + 1 + 4 * int(fields[at])]
    above = [
        f"n{target}"
        for symbol, target in zip(pointers[::4], pointers[1::4], strict=True)
        if symbol in HYPERNYMS
    ]
    return f"n{offset}", tuple(above)


def shipped() -> tuple[Parents, list[str]]:
    """The hypernyms of the 1,000 ImageNet classes and their ancestors, and the classes in their order."""
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


def _read_edges(path: Path) -> Parents:
    columns = ("parent", "child")
    edges = choose(read_table(path, words=columns), columns, str(path))
    parents: dict[str, tuple[str, ...]] = {}
    for row, (parent, child) in enumerate(zip(*edges.values(), strict=True)):
        if parent is None or child is None:
            raise ValueError(f"{path}, {row_of(path, row)}: an edge needs a parent and a child")
        above = parents.get(str(child), ())
        if str(parent) in above:
            raise ValueError(
                f"{path}, {row_of(path, row)}: the edge {parent} to {child} occurs twice"
            )
        parents[str(child)] = (*above, str(parent))
    return parents
