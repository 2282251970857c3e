"""The origin of an error: which of a pipeline's components raised it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ccl_plugins.pipeline.composition import Composition
from ccl_plugins.pipeline.record import nested


@contextmanager
def naming(composition: Composition) -> Iterator[None]:
    """Add a note with the component's kind and name to an error that one of them raises."""
    try:
        yield
    except Exception as error:
        if choice := origin(error, composition):
            error.add_note(f"raised by {choice.kind} {choice.spec.id}")
        raise


def origin(error: BaseException, composition: Composition) -> Any:
    """The chosen component, nested ones included, whose code raised an error; None for other code.

    It is the one in whose method, or else in whose module, the innermost frame of the traceback lies.
    """
    chosen = [
        (choice, _class_of(choice))
        for choice in nested(
            [
                *composition.choices.values(),
                *composition.conditions.values(),
                *composition.evaluators,
            ]
        )
    ]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        instance = frame.f_locals.get("self")
        module = frame.f_globals.get("__name__")
        matches = [
            choice for choice, cls in chosen if isinstance(cls, type) and type(instance) is cls
        ]
        matches += [choice for choice, cls in chosen if cls.__module__ == module]
        if matches:
            return matches[0]
    return None


def _class_of(choice: Any) -> Any:
    """The class or function of a choice."""
    target = choice.spec.load()
    return target if inspect.isroutine(target) or isinstance(target, type) else type(target)
