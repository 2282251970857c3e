"""A complete package around one component: rendered from templates, then written."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date
from importlib import resources
from pathlib import Path
from string import Template

from ccl_plugins.scaffold.naming import Names

FILES = {
    "pyproject.toml": "pyproject",
    "README.md": "readme",
    "LICENSE": "license",
    ".gitignore": "gitignore",
    ".github/workflows/ci.yml": "ci",
    "src/$module/__init__.py": "package",
    "src/$module/py.typed": "typed",
    "src/$module/$component.py": "$kind",
    "tests/test_$component.py": "test_$kind",
}
"""The files of a package and the templates they are made from."""


def render(names: Names, *, author: str = "", version: str) -> dict[str, str]:
    """The text of every file of a package, by path.

    Args:
        names: What things are called.
        author: Whose package it is, as the license says; by default ``The <distribution> authors``.
        version: The version of this library that the package is written for.

    Raises:
        ValueError: For an author of several lines.
    """
    author = author or f"The {names.distribution} authors"
    if not author.isprintable():
        raise ValueError(f"the author must be one line of text, not {author!r}")
    values = {
        **asdict(names),
        "author": author,
        "author_toml": json.dumps(author, ensure_ascii=False),  # quoted as TOML quotes it
        "title": names.component.replace("_", " ").capitalize(),
        "kind_title": names.kind.capitalize(),
        "year": str(date.today().year),
        "release": ".".join(version.split(".")[:2]),
    }
    folder = resources.files("ccl_plugins.scaffold") / "templates"
    texts = {}
    for path, source in FILES.items():
        template = folder / f"{Template(source).substitute(values)}.txt"
        filled = Template(template.read_text(encoding="utf-8")).substitute(values)
        texts[Template(path).substitute(values)] = filled
    return texts


def write(folder: Path, texts: dict[str, str]) -> None:
    """Write the files of a package into a new folder.

    Raises:
        FileExistsError: If there is something of that name; it is left as it is.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise FileExistsError(f"{folder} is there already, and nothing was written") from None
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
