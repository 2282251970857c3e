"""A hierarchy of classes: who is above whom, along which path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Path = tuple[str, ...]
"""From a root, which is level 1, down to a class."""


class Hierarchy:
    """Nodes with their parents.

    Args:
        parents: The parents of each node, in their order; a root has none.  A node that is only named
            as a parent is a root.

    Raises:
        ValueError: On use, for a node that is not there, and where a node is above itself.
    """

    def __init__(self, parents: Mapping[str, Sequence[str]]) -> None:
        self.parents = parents
        self._above = {parent for above in parents.values() for parent in above}

    def __contains__(self, node: object) -> bool:
        return node in self.parents or node in self._above

    def paths(self, node: str) -> list[Path]:
        """All paths from a root to a node; along first parents first."""
        return self._paths(node, ())

    def first_path(self, node: str) -> Path:
        """The path along each node's first parent."""
        path = [node]
        while above := self.parents.get(path[-1], ()):
            path.append(self._next(above[0], path[::-1]))
        return tuple(reversed(path))

    def above(self, nodes: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The part of the hierarchy that holds some nodes and all above them."""
        found: dict[str, tuple[str, ...]] = {}
        todo = [*nodes]
        while todo:
            node = todo.pop(0)
            if node not in found:
                found[node] = tuple(self.parents.get(node, ()))
                todo += found[node]
        return found

    def _paths(self, node: str, below: Path) -> list[Path]:
        below = (node, *below)
        above = self.parents.get(node, ())
        if not above:
            return [below]
        return [p for parent in above for p in self._paths(self._next(parent, below), below)]

    def _next(self, parent: str, seen: Sequence[str]) -> str:
        if parent in seen:
            raise ValueError(f"{parent!r} is above itself: {' > '.join([parent, *seen])}")
        return parent


def ancestor(path: Path, level: int) -> str:
    """The node of a path at a level; the class itself where it is not that deep."""
    return path[min(level, len(path)) - 1]


def tree_paths(
    hierarchy: Hierarchy, classes: Sequence[str], parents: str
) -> dict[str, Path | None]:
    """One path from a root to each class.

    Args:
        hierarchy: Holds the classes.
        classes: Its nodes.
        parents: Where there are several paths: ``"prune"`` keeps each node's edge to its first parent;
            ``"drop"`` gives None; ``"error"`` refuses them.

    Raises:
        ValueError: For classes of several paths under ``"error"``.
    """
    if parents == "prune":
        return {name: hierarchy.first_path(name) for name in classes}
    found: dict[str, Path | None] = {}
    several = {}
    for name in classes:
        paths = hierarchy.paths(name)
        found[name] = paths[0] if len(paths) == 1 else None
        if len(paths) > 1:
            several[name] = paths
    if several and parents == "error":
        name, (one, other, *_) = next(iter(several.items()))
        raise ValueError(
            f"{len(several)} of {len(classes)} classes have several paths to a root; {name!r} has"
            f" {' > '.join(one)} and {' > '.join(other)}: parents='prune' keeps first parents,"
            " 'drop' leaves such classes out"
        )
    return found
