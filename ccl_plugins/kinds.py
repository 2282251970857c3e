"""The kinds of component, the project that has them, and its registry."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import ccl_registry as engine
from ccl_plugins.hooks import NAME, Hooks

_P = "ccl_plugins.protocols"
_kind = functools.partial(engine.Kind, check=f"{_P}.traits:wrong_traits")
_BATCHES = ("size", "batch_size", "seed", "condition", "split")

KINDS = (
    _kind("objective", "A loss on pairs.", f"{_P}.objective:Objective"),
    _kind(
        "kernel", "A similarity on the conditioning variable.", f"{_P}.kernel:Kernel", ("dataset",)
    ),
    _kind("condition", "A conditioning variable.", f"{_P}.condition:Condition", ("dataset",)),
    _kind("sampler", "The order of samples.", f"{_P}.sampler:Sampler", _BATCHES),
    _kind("transform", "The augmentations.", f"{_P}.transform:Transform"),
    _kind(
        "method",
        "A backbone, its heads and how they make pairs.",
        f"{_P}.method:Method",
        ("backbone", "modalities"),
    ),
    _kind("backbone", "A network from images to features.", f"{_P}.backbone:Backbone"),
    _kind("dataset", "A data set with its columns.", f"{_P}.dataset:Dataset"),
    _kind("evaluator", "A measurement of features.", f"{_P}.evaluator:Evaluator", ("dataset",)),
    _kind("optimizer", "How gradients change weights.", f"{_P}.optimizer:Optimizer"),
    _kind("schedule", "How the learning rate changes.", f"{_P}.schedule:Schedule"),
    _kind("logger", "Where the numbers of a run go.", f"{_P}.logger:Logger"),
    _kind("figure", "A picture of runs.", f"{_P}.figure:Figure"),
    _kind("command", "A command of ccl.", f"{_P}.command:Command"),
)

FOLDERS = {kind.name: f"{kind.name}s" for kind in KINDS}
"""The sub-package of each kind's components, and the module of its laws in ``testing``."""

PROJECT = engine.Project(NAME, "ccl", KINDS, Hooks, host="ccl-plugins")

HEAVY = ("torch", "torchvision", "lightly", "timm", "pytorch_lightning", "sklearn", "matplotlib")
"""Modules that are slow to import; a hooks module imports them only inside its functions."""


def protocol(kind: str) -> type:
    """The protocol that components of a kind satisfy; this imports torch."""
    imported: type = engine.import_target(registry().kind(kind).protocol)
    return imported


def new_registry(disable: Iterable[str] | None = None) -> engine.Registry:
    """A registry that shares nothing with `registry()`.

    Args:
        disable: Plug-ins to leave out; by default those in the environment variable
            ``CCL_DISABLE``.
    """
    return engine.Registry(PROJECT, disable)


@functools.cache
def registry() -> engine.Registry:
    """The registry of this process; it reads the installed plug-ins at the first look-up."""
    return new_registry()
