"""The loggers of a run: opened, kept from stopping the training, and given the measurements."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.files.checkpoints import versions
from ccl_plugins.files.fingerprints import MOST_IN_MEMORY, of_parts, of_tensors
from ccl_plugins.files.lock import is_owned
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.protocols import Table, trait
from ccl_registry.errors import errors_as_warning

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

CONTAINED = (
    "log_metrics",
    "log_evaluation",
    "log_hyperparams",
    "save",
    "finalize",
    "after_save_checkpoint",
)
"""The methods that are called while a run trains."""


def check_loggers(loggers: Mapping[str, Any]) -> None:
    """Let loggers check that they can be opened.

    Raises:
        ValueError: For a package that is missing, and for an unknown option.
    """
    for number, logger in enumerate(loggers.values()):
        try:
            trait(logger, "check")()
        except ValueError as error:
            raise ValueError(f"loggers[{number}]: {error}") from error


def names_of(loggers: Iterable[Any]) -> list[str]:
    """The names and patterns of the files that loggers declare."""
    return [
        *filter(is_name, dict.fromkeys(name for each in loggers for name in trait(each, "files")))
    ]


@contextmanager
def opened(
    loggers: Mapping[str, Any], folder: Path, done: int | None, training: bool = True
) -> Iterator[list[Logger]]:
    """The loggers of the run in a folder, and the one that keeps its curves, on its first process.

    Their files are noted as the run's, and get checksums when the block ends. Files that existed
    before and are not the run's are left alone, whatever their names.

    Args:
        loggers: The loggers by name.
        folder: The run's folder, which exists, and which this process owns.
        done: The step of the checkpoint to resume from: loggers continue from there; None: a new
            run.
        training: Whether files and services are opened now, and not later by Lightning, where
            errors stop the training.

    Yields:
        Lightning's loggers that could be opened; a warning names each other one.
    """
    from ccl_plugins.loggers.history import History

    run = RunFolder(folder)
    names = [run.history.name, *names_of(loggers.values())]
    others = _found(folder, names) - {folder / each for each in run.own_names()}
    run.unseal(names)
    made: list[Any] = []

    def add(name: str, open: Callable[[], Any], files: Iterable[str]) -> None:
        exact = exact_files(folder, files)
        with errors_as_warning(_lost(name, "cannot be opened")):  # by a service, or on a full disk
            run.refuse_others(*exact)
            run.note(*exact)
            each = open()
            if training:
                _ = getattr(each, "experiment", None)
            made.append(contained(each, name))

    def close() -> None:
        if is_owned(folder):  # it may have been moved or deleted
            run.note(*sorted(_found(folder, names) - others))
            run.seal(names)

    for name, logger in loggers.items():
        add(name, partial(logger.open, folder, done), names_of([logger]))
    if not any(isinstance(each, History) for each in made):
        add("history", partial(History, run.history, done=done), [run.history.name])
    run.note(*sorted(_found(folder, names) - others))
    try:
        yield made
    except BaseException:
        with suppress(OSError):  # the first error says what is wrong
            close()
        raise
    close()


def contained(logger: Logger, name: str = "") -> Logger:
    """The same logger, whose first error is a warning and stops its logging, but not the training."""
    if getattr(logger, "_contained", False):
        return logger
    state = {"failed": False}
    label = name or type(logger).__name__
    for method in CONTAINED:
        # On the instance, so that callbacks still see a logger of its class.
        if hasattr(logger, method):
            setattr(logger, method, _containing(getattr(logger, method), label, state))
    logger._contained = True  # type: ignore[attr-defined]
    return logger


def log_hyperparameters(
    loggers: Iterable[Any],
    record: Mapping[str, Any],
    tables: Mapping[str, Table],
    resumed: bool,
) -> None:
    """Give the record, the versions of the code, and a fingerprint of each table to Lightning's loggers.

    Args:
        loggers: The loggers.
        record: The record of the run.
        tables: The tables of its conditions.
        resumed: Whether a run is continued. A logger that already has its hyperparameters gets
            none.
    """
    values = {
        "pipeline": dict(record),
        "code": versions(),
        "tables": {name: _fingerprint(table) for name, table in tables.items()},
    }
    for logger in loggers:
        # MLflow refuses a second value; a logger that continues no run has none yet.
        if not (resumed and getattr(logger, "continues_run", False)):
            logger.log_hyperparams(values)


def _fingerprint(table: Table) -> str:
    if table.values.nbytes > MOST_IN_MEMORY:
        return of_parts(table.values)
    return of_tensors({"values": table.values, **table.extras})


def log_evaluation(loggers: Iterable[Any], metrics: Mapping[str, float], step: int) -> None:
    """Give metrics to Lightning's loggers, as ``evaluation/<name>`` of a step; 0 is before training."""
    values = {f"evaluation/{name}": float(value) for name, value in metrics.items()}
    for logger in loggers:
        getattr(logger, "log_evaluation", logger.log_metrics)(values, step=step)


def log_again(
    loggers: Mapping[str, Any],
    folder: Path,
    metrics: Mapping[str, float],
    step: int,
    services: bool,
) -> None:
    """Give metrics to the loggers of a run whose training has ended.

    Args:
        loggers: The pipeline's loggers by name.
        folder: The run's folder.
        metrics: The metrics.
        step: The step of the weights that were measured.
        services: Whether loggers that are not ``on_disk`` are opened again.
    """
    again = {n: each for n, each in loggers.items() if services or trait(each, "on_disk")}
    with opened(again, folder, step, training=False) as made:
        log_evaluation(made, metrics, step)
        for logger in made:
            logger.finalize("success")


def _found(folder: Path, names: Iterable[str]) -> set[Path]:
    """The files with some names, and the files in folders with such a name; links are not followed."""
    found = set()
    for place in (each for name in names for each in folder.glob(name)):
        if place.is_symlink() or not place.is_dir():
            found.add(place)
        for parent, folders, files in os.walk(place) if place not in found else ():
            inside = (Path(parent, each) for each in (*folders, *files))
            found |= {each for each in inside if each.is_symlink() or not each.is_dir()}
    return found


def is_name(name: Any) -> bool:
    """Whether a text is a name or a pattern of some files in one folder, but not of all."""
    if not isinstance(name, str) or name != os.path.basename(name):
        return False
    return bool(re.sub(r"\[[^]]*\]|[*?.]", "", name))


def exact_files(folder: Path, names: Iterable[str]) -> list[Path]:
    """The files of the names that are not patterns, without folders, which get more files."""
    files = [folder / name for name in names if not re.search(r"[*?[]", name)]
    return [file for file in files if file.is_symlink() or not file.is_dir()]


def _containing(call: Callable[..., Any], name: str, state: dict[str, bool]) -> Callable[..., Any]:
    @wraps(call)
    def contained_call(*args: Any, **kwargs: Any) -> Any:
        if not state["failed"]:  # by a full disk, or a service that is away
            with errors_as_warning(_lost(name, "failed"), then=partial(state.update, failed=True)):
                return call(*args, **kwargs)
        return None

    return contained_call


def _lost(name: str, what: str) -> str:
    return f"the logger {name} {what}, and logs no more; training goes on"
