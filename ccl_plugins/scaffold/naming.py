"""The names in a new package, all of them made of one: that of its distribution."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass

from ccl_plugins._engine import engine

PREFIX = "ccl-"


@dataclass(frozen=True)
class Names:
    """What things are called in a package.

    Args:
        distribution: As ``pip install`` takes it.
        module: As ``import`` takes it.
        component: As ``ccl.<kind>`` takes it.
        class_name: The component's class.
        kind: Its kind.
    """

    distribution: str
    module: str
    component: str
    class_name: str
    kind: str


def read_names(registry: engine.Registry, distribution: str, kind: str) -> Names:
    """The names in a package: of ``ccl-my-ring``, ``ccl_my_ring``, ``my_ring`` and ``MyRing``.

    Args:
        registry: Knows the kinds and the built-ins.
        distribution: Lower-case words and digits with dashes between; ``ccl-`` before it is not part of the
            component's name.
        kind: The kind of its component.

    Raises:
        UnknownComponent: If there is no such kind.
        ValueError: For a name that cannot be a distribution, a module and a component, or that another
            module or a built-in has.
    """
    kind = registry.kind(kind).name
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", distribution) or len(distribution) > 60:
        wanted = re.sub(r"[^a-z0-9]+", "-", distribution.lower()).strip("-0123456789")[:60]
        like = wanted.rstrip("-") or "ccl-ring"
        raise ValueError(
            f"{distribution!r} cannot name a package: it must be lower-case letters, digits and single"
            f" dashes, starting with a letter, as in {like!r}"
        )
    module = distribution.replace("-", "_")
    component = distribution.removeprefix(PREFIX).replace("-", "_")
    if not re.fullmatch(r"[a-z]\w*", component) or keyword.iskeyword(component):
        raise ValueError(
            f"{distribution!r} would offer a component called {component!r}, which Python does not take"
            " for a name: add a word, as in 'ccl-my-ring'"
        )
    if module in sys.stdlib_module_names or importlib.util.find_spec(module) is not None:
        raise ValueError(
            f"{distribution!r} would hide the module {module!r}, which is there already: choose another"
            f" name, as {PREFIX + distribution!r}"
        )
    if any(s.name == component and s.plugin == registry.host for s in registry.specs(kind)):
        raise ValueError(
            f"{component!r} is a built-in {kind}, which the bare name would go on meaning: choose"
            f" another name, as {PREFIX + 'my-' + component.replace('_', '-')!r}"
        )
    class_name = "".join(word.capitalize() for word in component.split("_"))
    return Names(distribution, module, component, class_name, kind)
