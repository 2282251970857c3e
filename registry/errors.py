"""What can go wrong, as one tree.

```
RegistryError
├── UnknownComponent   (KeyError)     no such component, kind or plugin
├── AmbiguousName                     several plugins offer the name; say which
├── InvalidSpec        (ValueError)   a plugin declares what cannot be offered
├── PluginFailed       (ImportError)  a plugin, or one of its components, cannot be imported
├── InvalidParameter   (TypeError)    a component does not take that parameter or value
└── InvalidConfig      (ValueError)   a file or record cannot be read or written
```
"""

from __future__ import annotations


class RegistryError(Exception):
    """What every error of the registry is."""

    def __str__(self) -> str:
        # KeyError would show the repr of its argument.
        return str(self.args[0]) if self.args else ""


class UnknownComponent(RegistryError, KeyError):
    """No component, kind or plugin has this name."""


class AmbiguousName(RegistryError):
    """Several plugins offer this name and none of them is built in."""


class InvalidSpec(RegistryError, ValueError):
    """A plugin declares something that cannot be offered."""


class PluginFailed(RegistryError, ImportError):
    """A plugin or a component cannot be imported; the cause is chained."""


class InvalidParameter(RegistryError, TypeError):
    """A component does not take this parameter, or not this value."""


class InvalidConfig(RegistryError, ValueError):
    """A configuration cannot be read, or a choice cannot be written to one."""
