"""A plug-in that uses every door: an entry point and the four hooks."""

from typing import ClassVar

from ccl_plugins import ComponentSpec, hookimpl


class Ring:
    """A ring around the origin.

    Args:
        radius: Above 0.
    """

    positive_definite = False
    OLD_PARAMETERS: ClassVar = {"width": "radius"}

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = radius

    def __call__(self, a, b):
        return (a.norm(dim=1)[:, None] - b.norm(dim=1)).abs() < self.radius


class DoubleRing(Ring):
    """Two rings around the origin."""


@hookimpl
def ccl_components():
    yield ComponentSpec("kernel", "double_ring", "ccl_good:DoubleRing")


@hookimpl
def ccl_pipeline_composed(pipeline, options):
    if options:
        raise ValueError(f"not with {dict(options)}")
    if pipeline == "rejected":
        raise ValueError("not this one")
    if pipeline == "ends the program":
        raise SystemExit(0)


@hookimpl
def ccl_callbacks(options):
    return ["a callback"] if not options else 1 / options["divisor"]
