"""The five hooks: they let a plug-in do more than offer components.

A plug-in names one module in the entry-point group ``ccl_plugins.hooks``, and marks functions in it
with ``hookimpl``.  The module is imported at every start, so it must not import torch at its top.
A function may omit arguments that it does not need.  ``options`` is the plug-in's own table
``[plugins.NAME]`` of the configuration; it is empty without one.

An error of a plug-in is recorded, a warning names the plug-in, and its result is left out. Only an
error in ``ccl_pipeline_composed`` rejects the pipeline.

Example:
    ```python
    from ccl_plugins import hookimpl

    @hookimpl
    def ccl_callbacks(pipeline):
        from my_package.callbacks import Fairness
        return [Fairness()]
    ```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

import ccl_registry as engine

if TYPE_CHECKING:
    from ccl_plugins.protocols import ComposedPipeline

NAME = "ccl_plugins"
"""The project's name in pluggy and in groups of entry points."""

hookspec = pluggy.HookspecMarker(NAME)
hookimpl = pluggy.HookimplMarker(NAME)
"""Marks a function of a hooks module as the implementation of the hook with the same name."""


class Hooks:
    """The hooks that a plug-in may implement."""

    @hookspec
    def ccl_components(self) -> Iterable[engine.ComponentSpec]:
        """Offer components that no entry point can name, such as a computed family.

        Returns:
            ``ComponentSpec(kind, name, "module:Class")``, whose plug-in and version are filled in.
        """
        raise NotImplementedError

    @hookspec
    @engine.may_reject
    def ccl_pipeline_composed(self, pipeline: ComposedPipeline, options: Mapping[str, Any]) -> None:
        """Inspect a pipeline, once, when it is composed and checked; raise an error to reject it.

        Args:
            pipeline: The pipeline, with the settings of the configuration that it was composed from.
            options: The plug-in's own table of the configuration.
        """

    @hookspec
    def ccl_callbacks(
        self, pipeline: ComposedPipeline, options: Mapping[str, Any]
    ) -> Iterable[Any]:
        """Offer Lightning callbacks for the training of a pipeline.

        Args:
            pipeline: The pipeline about to be trained.
            options: The plug-in's own table of the configuration.

        Returns:
            Instances of ``pytorch_lightning.Callback``; they follow the user's own.
        """
        raise NotImplementedError

    @hookspec
    def ccl_symptoms(self, pipeline: ComposedPipeline, options: Mapping[str, Any]) -> Iterable[Any]:
        """Offer symptoms that a run looks for while it trains, in addition to those of the library.

        Args:
            pipeline: The pipeline about to be trained.
            options: The plug-in's own table of the configuration.

        Returns:
            Instances of ``ccl_plugins.watching.Symptom``.
        """
        raise NotImplementedError

    @hookspec
    def ccl_loggers(self, pipeline: ComposedPipeline, options: Mapping[str, Any]) -> Iterable[Any]:
        """Offer Lightning loggers for the training of a pipeline.

        Args:
            pipeline: The pipeline about to be trained.
            options: The plug-in's own table of the configuration.

        Returns:
            Instances of ``pytorch_lightning.loggers.Logger``; they follow those of the pipeline.
        """
        raise NotImplementedError
