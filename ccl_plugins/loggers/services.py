"""Shared by loggers of services: checks of packages and options, and the name of a run at a service."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ccl_plugins.arguments import did_you_mean
from ccl_plugins.files.atomic import atomic_write


def check_package(name: str) -> None:
    """Check that the package of a service is installed.

    Raises:
        ValueError: If it is not; the message says what to install.
    """
    if find_spec(name) is None:
        raise ValueError(
            f'the logger {name} needs the package {name}: pip install "ccl-plugins[{name}]"'
        )


def check_options(
    name: str,
    options: Mapping[str, Any],
    targets: Iterable[Callable[..., Any]],
    taken: Collection[str],
) -> None:
    """Check that the targets of a logger take all of its options.

    Args:
        name: The logger.
        options: The options by name.
        targets: The functions or classes that take the options.
        taken: Parameters that are set elsewhere.

    Raises:
        ValueError: For an unknown option.
    """
    parameters = {each for target in targets for each in inspect.signature(target).parameters}
    known = sorted(parameters - {*taken, "experiment", "kwargs"})
    for key in options:
        if key not in known:
            raise ValueError(f"{name} has no option {key!r}.{did_you_mean(key, known)}")


def kept(file: Path) -> str | None:
    """The name under which a service knows the run, from the file that has it."""
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except (OSError, ValueError):  # damaged: the service gets another run
        return None


def keep(file: Path, name: str) -> None:
    """Write the name under which a service knows the run."""
    with atomic_write(file) as temporary:
        temporary.write_text(f"{name}\n", encoding="utf-8")
