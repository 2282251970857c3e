"""The help of each command, which the site adds to the page of the command line."""

from __future__ import annotations

import os
import re
from unittest import mock

from ccl_plugins.cli import read_command

PAGE = "reference/cli.md"


def with_help(text: str) -> str:
    """The page with the help of each command at the end of its section."""
    first, *sections = re.split(r"^(?=## ccl )", text, flags=re.MULTILINE)
    return first + "\n".join(map(_with_help, sections))


def _with_help(section: str) -> str:
    command = section.removeprefix("## ccl ").partition("\n")[0]
    return f"{section.rstrip()}\n\n```text\n{_help(command)}```\n"


def _help(command: str) -> str:
    _, parser = read_command(command)
    with mock.patch.dict(os.environ, {"COLUMNS": "100"}):
        return parser.format_help()
