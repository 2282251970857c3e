"""The origin of an error: the component of a pipeline that raised it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ccl_registry as engine
from ccl_plugins.experiments.components import Components
from ccl_plugins.experiments.record import nested


@contextmanager
def naming_component(pipeline: Components) -> Iterator[None]:
    """Add a note with the component's kind and name to an error that a component raises.

    Raises:
        PluginFailed: For a component that ends the program, because its status would be taken for
            the run's.
    """
    try:
        yield
    except SystemExit as error:
        choice = origin(error, pipeline)
        who = f"{choice.kind} {choice.spec.id}" if choice else "a component"
        raise engine.PluginFailed(f"{who} ends the program ({engine.one_line(error)})") from error
    except Exception as error:
        if choice := origin(error, pipeline):
            note = f"raised by {choice.kind} {choice.spec.id}"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
        raise


def origin(error: BaseException, pipeline: Components) -> Any:
    """The choice whose component raised an error or its cause, by the innermost frame in one."""
    classes = [(choice, _class_of(choice)) for choice in nested(pipeline.all_choices)]
    for raised in (error.__cause__, error):
        frames = [frame for frame, _ in traceback.walk_tb(raised.__traceback__)] if raised else []
        for frame in reversed(frames):
            caller, module = type(frame.f_locals.get("self")), frame.f_globals.get("__name__")
            raising = [choice for choice, cls in classes if cls is caller]
            raising += [choice for choice, cls in classes if cls.__module__ == module]
            if raising:
                return raising[0]
    return None


def _class_of(choice: Any) -> Any:
    """The class of a choice, or its function."""
    target = choice.spec.load()
    return target if inspect.isroutine(target) or isinstance(target, type) else type(target)
