"""Composed documentation: every argument of every component is documented once, somewhere."""

from __future__ import annotations

import inspect

import pytest

from ccl_plugins.commands.docstrings import arguments, documentation, entries, equation, sections
from ccl_plugins.kinds import registry

COMPONENTS = [spec for spec in registry().specs() if spec.plugin == registry().host]


@pytest.mark.parametrize("spec", COMPONENTS, ids=str)
def test_every_constructor_argument_of_a_built_in_component_is_documented(spec):
    target = spec.load()
    found = arguments(documentation(target))
    assert [*found] == [*inspect.signature(target).parameters]


class Base:
    """A base.

    Args:
        a: First, in two
            lines.

    Args of subclasses:
        b: Second.

    Raises:
        ValueError: For a mistake.
    """


class Leaf(Base):
    """A leaf.

    More of it.

    Source:
        A paper.

    Args:
        c: Third.
    """

    def __init__(self, c, b, a, d):
        pass


def test_arguments_come_in_the_order_of_the_signature_and_from_the_nearest_base():
    class Nearer(Base):
        """Nearer.

        Args:
            b: Nearest.
        """

    class Leaf2(Leaf, Nearer):
        """A leaf."""

    assert documentation(Leaf) == (
        "A leaf.\n\nMore of it.\n\nArgs:\n    c: Third.\n    b: Second.\n    a: First, in two\n"
        "        lines.\n\nRaises:\n    ValueError: For a mistake.\n\nSource:\n    A paper."
    )
    assert arguments(documentation(Leaf2))["b"] == "    b: Nearest."


def test_what_follows_a_section_is_no_part_of_its_last_entry():
    doc = "A thing.\n\nRaises:\n    torch.Odd: First.\n    ValueError: Then.\n\nMore of it."
    found = sections(doc)
    assert found[""] == "A thing.\n\nMore of it."
    assert entries(found["Raises:"]) == [
        ("torch.Odd", "    torch.Odd: First."),
        ("ValueError", "    ValueError: Then."),
    ]
    assert entries("    (n, m) rows and: columns.") == []


def test_a_function_keeps_its_docstring():
    assert documentation(arguments) == inspect.getdoc(arguments)


def test_formulas_in_tex_are_read_and_left_out_of_what_a_terminal_shows():
    class Halved:
        r"""Half of it.

        ``x / 2``.

        Equation:
            \ell = \frac{x}
                {2}
            x > 0

        Args:
            x: What is halved.
        """

        def __init__(self, x: int) -> None: ...

    assert equation(Halved) == [r"\ell = \frac{x} {2}", "x > 0"]
    assert documentation(Halved) == "Half of it.\n\n``x / 2``.\n\nArgs:\n    x: What is halved."
    assert equation(int) == []
