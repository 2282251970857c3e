"""Toy kinds, toy components, and their registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal as Precise
from pathlib import Path
from typing import Any, Literal, Optional, Protocol

import pluggy

from ccl_registry import ComponentSpec, Kind, Project, Registry, may_reject


class Kernel(Protocol):
    """A kernel."""

    def __call__(self, a: float) -> float:
        """A number."""
        ...


class Objective(Protocol):
    """A loss."""


class Sampler(Protocol):
    """An order."""


class Identity:
    """Has the members that the protocol of kernels declares."""

    def __call__(self, a: float) -> float:
        """The number itself."""
        return a


class RBF(Identity):
    """A kernel of one parameter."""

    def __init__(self, scale: float | Literal["median"] = 1.0) -> None:
        self.scale = scale


class Bare(Kernel):
    """A kernel that has no constructor and inherits a protocol's."""


class Many(Identity):
    """A parameter of every sort."""

    def __init__(
        self,
        number: int,
        flag: bool = False,
        *,
        name: str = "a",
        rate: float = None,  # type: ignore[assignment]  # noqa: RUF013  as authors do write it
        mode: Literal["weak", "fair"] | None = None,
        path: Path | None = None,
        sizes: Sequence[int] = (1, 2),
        pair: tuple[float, float] = (0.0, 1.0),
        options: Mapping[str, float] | None = None,
        either: int | float = 1,
        free: Any = None,
        unhinted=None,
        late: Precise | None = None,
    ) -> None:
        self.values = {k: v for k, v in locals().items() if k != "self"}


class Composed:
    """Components inside a component."""

    def __init__(
        self,
        kernel: Kernel = "rbf",  # type: ignore[assignment]  # a name, as a config has it
        other: Optional[Kernel] = None,  # noqa: UP045  the older spelling must work too
        several: Sequence[Kernel] = (),
        named: Mapping[str, Kernel] | None = None,
        scale: Kernel | Literal["median"] = "median",
        free: Any = None,
    ) -> None:
        self.kernel, self.other, self.several = kernel, other, several
        self.named, self.scale, self.free = named, scale, free


class Shuffle:
    """Takes values that a pipeline supplies."""

    def __init__(self, buffer: int = 8, *, size: int, seed: int = 0, kernel: Kernel | None = None):
        self.buffer, self.size, self.seed, self.kernel = buffer, size, seed, kernel


class Picked:
    """Takes a component that a pipeline supplies."""

    def __init__(self, *, base: Kernel, seed: int) -> None:
        self.base = base


class Picky(Identity):
    """Rejects a value in its constructor."""

    def __init__(self, scale: float = 1.0) -> None:
        if scale <= 0:
            raise ValueError(f"scale must be above 0, not {scale}")


class Variadic:
    """Hides its parameters."""

    def __init__(self, scale: float = 1.0, **options: Any) -> None:
        self.scale = scale


def factory(scale: float = 2.0) -> RBF:
    """A function can be a component too."""
    return RBF(scale)


class Hooks:
    """The hooks of the toy project."""

    @pluggy.HookspecMarker("toy")
    def toy_components(self) -> Iterable[ComponentSpec]:
        """Offer components that no entry point can name."""
        raise NotImplementedError

    @pluggy.HookspecMarker("toy")
    def toy_told(self, first: Any, second: Any, options: Any) -> Any:
        """Answer."""
        raise NotImplementedError

    @pluggy.HookspecMarker("toy")
    @may_reject
    def toy_judged(self, first: Any) -> None:
        """Raise, or not."""


KINDS = (
    Kind("kernel", "A kernel.", f"{__name__}:Kernel"),
    Kind("objective", "A loss.", f"{__name__}:Objective"),
    Kind("sampler", "An order.", f"{__name__}:Sampler", ("size", "batch_size", "seed", "base")),
)

ENTRY_POINTS = {
    "toy_host": f"""
[toy.kernel]
rbf = {__name__}:RBF
soft_rbf = {__name__}:factory
many = {__name__}:Many
picky = {__name__}:Picky
[toy.objective]
composed = {__name__}:Composed
bare = {__name__}:Bare
variadic = {__name__}:Variadic
[toy.sampler]
shuffle = {__name__}:Shuffle
picked = {__name__}:Picked
""",
    "toy_a": f"[toy.kernel]\nring = {__name__}:RBF\nrbf = {__name__}:RBF\n",
    "toy_b": f"[toy.kernel]\nring = {__name__}:RBF\n",
}


def write_metadata(folder: Path, name: str, version: str, entry_points: str) -> None:
    """Write the metadata of a distribution, for cases that no installer produces."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    heading = f"Metadata-Version: 2.1\nName: {name.lstrip('~')}\nVersion: {version}\n"
    (info / "METADATA").write_text(heading)
    (info / "entry_points.txt").write_text(entry_points)


def new_registry(disable: Iterable[str] | None = (), strict: bool | None = None) -> Registry:
    """A registry of the toy kinds."""
    return Registry(Project("toy", "toy", KINDS, Hooks, "toy-host"), disable, strict)
