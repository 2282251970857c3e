"""Parameters that are declared once, as fields of a dataclass that check what they are set to.

``temperature: Scalar = ScalarAttribute(positive, default=0.5)`` is a parameter's name, hint, check and
default; `dataclasses.dataclass` writes the constructor.  A subclass with another default repeats the check:
a plain ``temperature: Scalar = 0.2`` would take its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING
from functools import partial
from typing import Any, Self

from torch import nn

from ccl_plugins.arguments import one_of


class Module(nn.Module):
    """A module whose fields may be assigned: it is one before its constructor runs."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """A module without parameters, buffers or members."""
        module = super().__new__(cls)
        super(Module, module).__init__()
        return module


class Checked:
    """An attribute that is checked when it is set.  Its value on the class is the default, if it has one.

    Args:
        check: Takes the attribute's name and the value, and returns what is held.
        default: The default; None also allows None.
    """

    def __init__(self, check: Callable[[str, Any], Any], *, default: Any = MISSING) -> None:
        self.check, self.default = check, default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: nn.Module | None, owner: type | None = None) -> Any:
        if module is not None:
            return module.__dict__[self.name]
        if self.default is MISSING:
            raise AttributeError(self.name)
        return self.default

    def __set__(self, module: nn.Module, given: Any) -> None:
        allowed = given is None and self.default is None
        module.__dict__[self.name] = given if allowed else self.check(self.name, given)


def checked(check: Callable[[str, Any], Any], *, default: Any = MISSING) -> Any:
    """`Checked`, as the value of a field that is annotated with the type of the value."""
    return Checked(check, default=default)


def word(*words: str) -> Any:
    """A field that is one of several words, by default the first."""
    return Checked(partial(one_of, choices=words), default=words[0])
