"""The laws of loggers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import SkipTest

from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.sums import SUMS
from ccl_plugins.protocols import trait
from ccl_plugins.testing.assertions import require
from ccl_plugins.testing.subject import Subject
from ccl_plugins.watching.logging import is_name

HYPERPARAMETERS = {
    "pipeline": {"objective": {"use": "infonce", "temperature": 0.5}, "loggers": [], "fit": None},
    "code": {"torch": "2.0"},
}


@contextmanager
def folder() -> Iterator[Path]:
    """The folder of a run."""
    with TemporaryDirectory(prefix="ccl-check-") as made:
        path = Path(made) / "run"
        path.mkdir()
        yield path


def opened(logger: Any, path: Path, done: int | None = None) -> Any:
    """The logger of a run, if what it needs is installed."""
    try:
        trait(logger, "check")()
    except ValueError as error:
        raise SkipTest(str(error)) from error
    return logger.open(path, done)


def log(made: Any, *steps: int) -> None:
    """Log as a run does, to its end; what is measured before training is logged at step 0."""
    if not getattr(made, "continues_run", False):
        made.log_hyperparams(HYPERPARAMETERS)
    if steps[0] == 1:
        getattr(made, "log_evaluation", made.log_metrics)({"evaluation/knn/top1": 0.5}, step=0)
    for step in steps:
        made.log_metrics(
            {"loss": 1 / (1 + step), "lr": 1e-3, "objective/scale": float("nan")}, step
        )
    made.save()
    made.finalize("success")


def contents(path: Path) -> dict[str, str]:
    """Every file in a folder and its checksum."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    return {str(f.relative_to(path)): sha256(f.read_bytes()).hexdigest() for f in files}


def sizes(path: Path) -> dict[str, int]:
    """Every file in a folder and its bytes."""
    return {file: (path / file).stat().st_size for file in contents(path)}


def observe(subject: Subject, logger: Any) -> Any:
    """Which of the files that it names are there after a run."""
    with folder() as path:
        log(opened(logger, path), 1, 2)
        return {name: float(any(path.glob(name))) for name in trait(logger, "files")}


def check_opens_a_lightning_logger(subject: Subject) -> None:
    """``open(folder, done)`` must return a Lightning logger, which takes numbers and hyperparameters."""
    from pytorch_lightning.loggers import Logger

    with folder() as path:
        made = opened(subject.build(), path)
        require(isinstance(made, Logger), f"it returned {made!r}")
        log(made, 1, 2)


def check_leaves_what_it_names(subject: Subject) -> None:
    """``files`` must name all that it leaves in the run's folder, for a run that is deleted."""
    logger = subject.build()
    names = list(trait(logger, "files"))
    for name in names:
        require(is_name(name), f"{name!r} is no name or pattern of some files in the folder")
    with folder() as path:
        log(opened(logger, path), 1, 2)
        for left in (
            each
            for each in path.iterdir()
            if each.name not in (RunFolder(path).inventory.name, SUMS)
        ):
            named = any(fnmatch(left.name, name) for name in names)
            require(named, f"it leaves {left.name}, and names {names}")
        if trait(logger, "on_disk"):
            require(any(path.iterdir()), "it is on_disk, and leaves nothing")


def check_keeps_what_it_logged_when_it_is_resumed(subject: Subject) -> None:
    """Opened with ``done``, it must go on with what it began, and write no file anew that it began."""
    logger = subject.build()
    with folder() as path:
        log(opened(logger, path), 1, 2, 3)
        before = sizes(path)
        log(opened(logger, path, done=3), 4)
        for file, size in before.items():
            now = sizes(path).get(file, -1)
            # A service writes notes of its own beside what it logs.
            kept = now >= size or (now >= 0 and not trait(logger, "on_disk"))
            require(kept, f"{file} had {size} bytes, and has {now} after one more step")


def check_repeats_no_step_when_it_is_resumed(subject: Subject) -> None:
    """Steps after ``done`` are logged again: what was logged of them must go, or be hidden.

    Examined by the sizes of files, of a logger that is ``on_disk``.
    """
    logger = subject.build()
    if not trait(logger, "on_disk") or any("*" in name for name in trait(logger, "files")):
        return  # its files have other names each time, or are not here
    with folder() as path, folder() as other:
        log(opened(logger, path), 1, 2)
        log(opened(logger, path, done=1), 2)
        log(opened(logger, other), 1)
        log(opened(logger, other, done=1), 2)
        logged_twice, right = sizes(path), sizes(other)
        require(
            logged_twice == right,
            f"with step 2 logged before the resume too, {right} became {logged_twice}",
        )


def check_ends_with_its_run(subject: Subject) -> None:
    """After ``finalize`` it must write no more into the folder, so that the next run has its own."""
    logger = subject.build()
    with folder() as first, folder() as second:
        log(opened(logger, first), 1, 2)
        before = contents(first)
        log(opened(logger, second), 1, 2)
        require(contents(first) == before, "the next run changed the folder of the one before")
