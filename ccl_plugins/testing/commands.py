"""The laws of commands."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from typing import Any
from unittest import SkipTest

from torch import Tensor

from ccl_plugins.kinds import HEAVY
from ccl_plugins.protocols import trait
from ccl_plugins.testing.assertions import letters, require
from ccl_plugins.testing.subject import Subject


def parser_of(command: Any) -> argparse.ArgumentParser:
    """A parser with the arguments of a command."""
    parser = argparse.ArgumentParser(prog="ccl")
    command.add_arguments(parser)
    return parser


def observe(subject: Subject, command: Any) -> Tensor:
    """Its arguments, as its help shows them."""
    return letters(parser_of(command).format_help())


def check_is_built_without_parameters(subject: Subject) -> None:
    """``ccl`` must be able to build it without parameters."""
    subject.target()


def check_every_argument_has_a_help_text(subject: Subject) -> None:
    """Every argument must say what it is: ``ccl COMMAND --help`` teaches."""
    arguments = parser_of(subject.build())._actions
    bare = [each.dest for each in arguments if not each.help]
    require(not bare, f"no help text for {', '.join(bare)}")


def check_its_example_is_a_call_of_it(subject: Subject) -> None:
    """The example in its help must be a call that its parser takes."""
    command = subject.build()
    if not (example := trait(command, "example")):
        raise SkipTest("it declares no example")
    program, name, *words = shlex.split(example)
    right = program == "ccl" and name.replace("-", "_") in (subject.spec.name, subject.spec.id)
    require(right, f"{example!r} is no call of {subject.spec.name}")
    try:
        parser_of(command).parse_args(words)
    except SystemExit as error:
        raise AssertionError(f"its parser refuses {example!r}") from error


def check_its_help_waits_for_no_large_library(subject: Subject) -> None:
    """The module of a command must not import torch or another slow library: ``run`` imports these."""
    module = subject.target.__module__
    if getattr(sys.modules[module], "__spec__", None) is None:
        raise SkipTest("it is of this session, and of no module that can be imported")
    code = (
        f"import sys; sys.path[:] = {sys.path}\nimport {module}\n"
        f"print(*({{*{HEAVY}}} & {{*sys.modules}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    require(done.returncode == 0, f"it cannot be imported alone: {done.stderr[-300:]}")
    loaded = done.stdout.split()
    require(not loaded, f"importing {module} imports {', '.join(sorted(loaded))}")
