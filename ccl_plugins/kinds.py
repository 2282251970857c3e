"""The kinds of component, one line each, and the one registry of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ccl_plugins._engine import engine
from ccl_plugins.hooks import PROJECT, Hooks

_P = "ccl_plugins.protocols:"

KINDS = (
    engine.Kind("objective", "A loss on pairs.", f"{_P}Objective"),
    engine.Kind("kernel", "A similarity on the conditioning variable.", f"{_P}Kernel"),
    engine.Kind("condition", "A conditioning variable.", f"{_P}Condition", ("dataset",)),
    engine.Kind(
        "sampler",
        "The order of samples.",
        f"{_P}Sampler",
        ("size", "batch_size", "seed", "condition"),
    ),
    engine.Kind("views", "The augmentations.", f"{_P}Views"),
    engine.Kind(
        "method", "A backbone, its heads and how they make pairs.", f"{_P}Method", ("backbone",)
    ),
    engine.Kind("backbone", "A network from images to features.", f"{_P}Backbone"),
    engine.Kind("dataset", "A data set with its columns.", f"{_P}Dataset"),
    engine.Kind("evaluator", "A measurement on frozen features.", f"{_P}Evaluator", ("dataset",)),
)

FOLDERS = {kind.name: kind.name.removesuffix("s") + "s" for kind in KINDS}
"""The sub-packages: the components of each kind are in one, and its laws in one of ``testing``."""


def protocol(kind: str) -> type:
    """What components of a kind must satisfy; this imports torch."""
    from ccl_plugins import protocols

    asked: type = getattr(protocols, registry().kind(kind).protocol.partition(":")[2])
    return asked


def new_registry(disable: Iterable[str] | None = None) -> engine.Registry:
    """A registry of its own.

    Args:
        disable: Plug-ins to leave out; by default those in the variable ``CCL_DISABLE``.
    """
    return engine.Registry(
        PROJECT,
        "ccl_plugins",
        KINDS,
        Hooks,
        "ccl_",
        host="ccl-plugins",
        disable=disable,
        env_prefix="CCL",
    )


@functools.cache
def registry() -> engine.Registry:
    """The registry; it reads nothing before it is first asked."""
    return new_registry()
