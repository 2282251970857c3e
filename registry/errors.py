"""The errors of the registry: `RegistryError` and its subclasses."""

from __future__ import annotations


class RegistryError(Exception):
    """The base class of all errors of the registry."""

    def __str__(self) -> str:
        # KeyError would show the repr of its argument.
        return str(self.args[0]) if self.args else ""


class UnknownComponent(RegistryError, KeyError):
    """No component, kind or plugin has this name."""


class AmbiguousName(RegistryError):
    """Several plugins offer this name and none of them is the host."""


class InvalidSpec(RegistryError, ValueError):
    """A plugin declares something that cannot be offered."""


class PluginFailed(RegistryError, ImportError):
    """A plugin or a component cannot be imported; the cause is chained."""


class InvalidParameter(RegistryError, TypeError):
    """A component does not accept this parameter or this value."""


class InvalidConfig(RegistryError, ValueError):
    """A configuration cannot be read, or a choice cannot be written to one."""


def one_line(error: BaseException) -> str:
    """The message of an error; errors from outside the registry are preceded by their type."""
    return str(error) if isinstance(error, RegistryError) else f"{type(error).__name__}: {error}"
