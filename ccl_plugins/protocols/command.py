"""The contract of commands."""

from __future__ import annotations

import argparse
from typing import Protocol

from ccl_plugins.protocols.traits import traits_of


class Command(Protocol):
    """A command of ``ccl``, which is called by its name: ``find_lr`` by ``ccl find-lr``.

    Its docstring is its help, and the first sentence is shown in ``ccl --help``. Its module is
    imported when the command is called; import slow modules, such as torch, where they are used.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments, each with a help text, to the parser of the command."""

    def run(self, arguments: argparse.Namespace) -> int | None:
        """Run the command and return its exit status: 0 or None, 1 for a failure found, 2 for a mistake.

        Raises:
            Mistake: ``ccl_plugins.Mistake``: the message is printed as one line, and the status is
                2.
        """


@traits_of("command")
class CommandTraits:
    """The optional members of a command."""

    example: str = ""
    """Read when its help is shown. An example call, such as `"ccl ring --size 3"`."""
