"""The documentation of a component, completed from the docstrings of its base classes."""

from __future__ import annotations

import inspect
import re
from typing import Any

_TITLE = re.compile(r"[A-Z][\w ]*:")
_ENTRY = re.compile(r"(?m)^ {4}(\*{0,2}[\w.]+)(?: \(.*?\))?:(?:\s|$)")
_EQUATION = "Equation:"
_LAST = ("Args:", "Raises:", "Source:")
"""The sections at the end of a composed docstring, in this order."""


def documentation(target: Any) -> str:
    """The docstring of a class or function.

    Constructor arguments that a class does not document itself have the entry of its nearest base that
    documents them, under ``Args`` or ``Args of subclasses``.  ``Raises`` is inherited as a whole.  The
    TeX under ``Equation`` is left out: the text has the equation as a terminal shows it.
    """
    doc = _doc(target)
    if not isinstance(target, type):
        return doc
    own, known, raises = sections(doc), dict[str, str](), ""
    for each in (doc, *(_doc(base, inherited=False) for base in target.__mro__[1:-1])):
        known = {**arguments(each), **known}
        raises = raises or sections(each).get("Raises:", "")
    names = [name for name in inspect.signature(target).parameters if name in known]
    own |= {"Args:": "\n".join(known[name] for name in names), "Raises:": raises}
    left_out = (_EQUATION, *_LAST)
    titles = [each for each in own if each not in left_out and not each.startswith("Args")]
    return "\n\n".join(
        f"{title}\n{text}".lstrip() for title in (*titles, *_LAST) if (text := own.get(title))
    )


def equation(target: Any) -> list[str]:
    """The formulas in TeX under ``Equation`` in the docstring of a class itself, each on one line."""
    formulas: list[str] = []
    for line in sections(_doc(target, inherited=False)).get(_EQUATION, "").splitlines():
        if line.startswith(8 * " "):
            formulas[-1] += f" {line.strip()}"  # longer than a line
        else:
            formulas.append(line.strip())
    return formulas


def _doc(target: Any, inherited: bool = True) -> str:
    doc = inspect.getdoc(target) if inherited else target.__doc__
    return doc if isinstance(doc, str) else ""  # a property, read from the class


def arguments(doc: str) -> dict[str, str]:
    """The entries of the arguments that a docstring documents, by name."""
    parts = sections(doc).items()
    return dict(each for title, text in parts if title.startswith("Args") for each in entries(text))


def sections(doc: str) -> dict[str, str]:
    """The text of each section by its title line; text outside of sections has the title ""."""
    texts: dict[str, str] = {}
    title, lines = "", inspect.cleandoc(doc).splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if _TITLE.fullmatch(line) and following.startswith("    "):
            title = line
        else:
            title = title if line[:1] in ("", " ") else ""
            texts[title] = f"{texts.get(title, '')}{line}\n"
    return {title: text.strip("\n") for title, text in texts.items()}


def entries(text: str) -> list[tuple[str, str]]:
    """The entries of a section such as ``Args``, unchanged, each with its name.

    Args:
        text: A section of `sections`; a section that begins with other words has no entries.
    """
    heads = [*_ENTRY.finditer(text)]
    if not heads or heads[0].start():
        return []
    ends = [*(each.start() for each in heads[1:]), len(text)]
    return [
        (each[1], text[each.start() : end].rstrip()) for each, end in zip(heads, ends, strict=True)
    ]
