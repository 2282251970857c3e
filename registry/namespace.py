"""A kind as an object: its components are attributes, for tab completion and for reading aloud."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from .choice import Choice
from .errors import UnknownComponent
from .spec import ComponentSpec

if TYPE_CHECKING:
    from .catalog import Registry


class Offer:
    """A component on offer: call it with parameters to choose it."""

    def __init__(self, registry: Registry, spec: ComponentSpec) -> None:
        self.spec = spec
        self._registry = registry

    def __call__(self, **params: Any) -> Choice:
        """The choice with these parameters."""
        return self._registry.choose(self.spec.kind, self.spec.id, **params)

    def __repr__(self) -> str:
        parameters = self._registry.schema(self.spec).parameters
        return f"{self._registry.shown(self.spec)}({', '.join(map(str, parameters))})"


class Namespace:
    """The components of a kind: ``kernel("rbf", scale=0.1)`` is ``kernel.rbf(scale=0.1)``.

    Attributes:
        shadowed: A module of the same name, to be found through this where no component is.
    """

    def __init__(self, registry: Registry, kind: str) -> None:
        self._registry = registry
        self._kind = kind
        self.shadowed: ModuleType | None = None

    def __call__(self, name: str, /, **params: Any) -> Choice:
        """The choice of that name with these parameters."""
        return self._registry.choose(self._kind, name, **params)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what notebooks and copy ask of every object
            raise AttributeError(name)
        try:
            return Offer(self._registry, self._registry.find(self._kind, name))
        except UnknownComponent as error:
            if hasattr(self.shadowed, name):
                return getattr(self.shadowed, name)
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        return sorted({spec.name for spec in self._registry.specs(self._kind)})

    def __repr__(self) -> str:
        return f"<{self._kind}: {', '.join(dir(self))}>"
