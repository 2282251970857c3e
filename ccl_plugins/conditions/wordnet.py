"""The WordNet ancestor of each sample's class as conditioning variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ccl_plugins.conditions.hierarchy import Path, ancestor, tree_paths
from ccl_plugins.conditions.wordnet_files import SHIPPED, read_hierarchy, shipped
from ccl_plugins.matching import sample_names
from ccl_plugins.missing import Missing, check_policy
from ccl_plugins.protocols import Life, Measure, Table
from ccl_plugins.ranges import one_of


class WordNet:
    """The ancestor of each sample's class at a level of a hierarchy.

    The root is level 1; a class above the level is its own ancestor.  With ``levels``, every sample has one
    class id for each.

    Shape:
        N samples -> (N,) class ids; with ``levels`` (N, number of levels)

    Args:
        level: The level, 1 or more.
        levels: Several levels, instead of ``level``.
        source: ``"imagenet1k"``: WordNet 3.0 above the 1,000 ImageNet classes, which is part of this
            package; a folder with WordNet's ``data.noun``; or a ``.csv`` or ``.parquet`` table of edges
            with the columns ``parent`` and ``child``.
        column: The metadata column of classes: words that are nodes of the hierarchy (synsets as
            ``n01440764``), or class ids.
        classes: The node of each class id, where they are not words; ``"imagenet1k"``: the 1,000
            ImageNet classes in their usual order.
        parents: What to do with a class that has several paths to a root: ``"prune"`` keeps each node's
            edge to the parent that is listed first; ``"drop"`` leaves the class out, as the released code
            does; ``"error"`` refuses it.
        missing: What to do with samples without a class (-1, an empty word) or of a class that is left
            out; None: ``"drop"`` if ``parents="drop"``, else ``"error"``.

    Raises:
        ValueError: For a level that is below 1 or deeper than the tree, a class that is not in the
            hierarchy, and edges in a circle, naming them.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), appendix B.1;
        WordNet 3.0, Princeton University (2006).
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"level": 5, "classes": "imagenet1k"}
    life: Life = "static"
    measure: Measure = "categorical"

    def __init__(
        self,
        level: int | None = None,
        levels: Sequence[int] | None = None,
        source: str = SHIPPED,
        column: str = "label",
        classes: Sequence[str] | Literal["imagenet1k"] | None = None,
        parents: Literal["prune", "drop", "error"] = "prune",
        missing: Missing | None = None,
    ) -> None:
        if (level is None) == (not levels):
            raise ValueError("give level=, or levels=[...] with at least one")
        self.levels = [level] if level is not None else list(levels or ())
        if min(self.levels) < 1:
            raise ValueError(f"levels are counted from the root, which is 1, not {self.levels}")
        self.level = level
        self.source = source
        self.column = column
        self.classes = classes
        self.parents = one_of("parents", parents, ("prune", "drop", "error"))
        default: Missing = "drop" if parents == "drop" else "error"
        self.missing = check_policy(default if missing is None else missing, self.measure)

    @property
    def hierarchy(self) -> bool:
        """Whether samples have several class ids."""
        return self.level is None

    def fit(self, dataset: Any, embed: Callable[[], Tensor], previous: Table | None) -> Tensor:
        """The ancestors of the training split's classes."""
        names = self._names(dataset)
        paths = self._paths(names)
        deepest = max((len(path) for path in paths.values() if path), default=0)
        columns = []
        for level in self.levels:
            if level > deepest:
                raise ValueError(
                    f"level {level} is deeper than the tree: the deepest class is at level {deepest}"
                )
            above = {name: ancestor(path, level) for name, path in paths.items() if path}
            numbers = {node: i for i, node in enumerate(sorted(set(above.values())))}
            ids: dict[str | None, int] = {name: numbers[node] for name, node in above.items()}
            columns.append(torch.tensor([ids.get(name, -1) for name in names]))
        return columns[0] if self.level is not None else torch.stack(columns, 1)

    def _paths(self, names: Sequence[str | None]) -> dict[str, Path | None]:
        """The path to each class that a sample has."""
        hierarchy = read_hierarchy(self.source)
        present = sorted({name for name in names if name is not None})
        for name in present:
            if name not in hierarchy:
                raise ValueError(
                    f"the class {name!r} (row {names.index(name)}) has no synset in {self.source}"
                )
        return tree_paths(hierarchy, present, self.parents)

    def _names(self, dataset: Any) -> list[str | None]:
        """(N,) the node of each sample's class; None where it has none."""
        found = sample_names(dataset, self.column)
        if self.classes is None:
            for value in found:
                if value is not None and not isinstance(value, str):
                    raise ValueError(
                        f"column {self.column!r} holds class ids such as {value!r}, not words: give"
                        " classes=, the synset of each, or classes='imagenet1k'"
                    )
            return [value or None for value in found]
        classes = shipped()[1] if isinstance(self.classes, str) else self.classes
        names: list[str | None] = []
        for row, value in enumerate(found):
            if not isinstance(value, int) or value >= len(classes):
                raise ValueError(
                    f"column {self.column!r} has {value!r} in row {row}, and there are"
                    f" {len(classes)} classes: ids from 0 to {len(classes) - 1} are right"
                )
            names.append(classes[value] if value >= 0 else None)
        return names
