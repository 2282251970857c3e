"""The loggers of a run: opened, kept from ending the training, and given what is measured around it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.messages import printable
from ccl_plugins.files.sums import WrongSum, check_sum, forget_sums, has_sum, write_sums
from ccl_plugins.protocols import trait

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

LEFT = "loggers.json"
"""The file in a run's folder that lists what its loggers leave there: it says so without them."""

CONTAINED = (
    "log_metrics",
    "log_evaluation",
    "log_hyperparams",
    "save",
    "finalize",
    "after_save_checkpoint",
)
"""What is called while a run trains."""


def check(loggers: Mapping[str, Any]) -> None:
    """Let loggers check that they can be opened.

    Raises:
        ValueError: For a package that is missing, and for an unknown option.
    """
    for number, logger in enumerate(loggers.values()):
        try:
            trait(logger, "check")()
        except ValueError as error:
            raise ValueError(f"loggers[{number}]: {error}") from error


def opened(
    loggers: Mapping[str, Any], folder: Path, done: int | None, training: bool = True
) -> list[Logger]:
    """Open the loggers of the run in a folder, on its first process.

    Args:
        loggers: The loggers by name.
        folder: The run's folder, which exists.
        done: The step of the checkpoint to resume from: loggers continue what they began; None: a new run.
        training: Whether files and services are opened now, as Lightning does where errors end a training.

    Returns:
        Lightning's loggers of those that could be opened; a warning names each other.
    """
    _note_files(folder, [name for each in loggers.values() for name in trait(each, "files")])
    unseal(folder)
    made = []
    for name, logger in loggers.items():
        try:
            each = logger.open(folder, done)
            if training:
                _ = getattr(each, "experiment", None)
            made.append(contained(each, name))
        except Exception as error:  # a service or a full disk must not keep a run from training
            _warn(name, "cannot be opened", error)
    return made


def contained(logger: Logger, name: str = "") -> Logger:
    """The same logger, whose errors are one warning and end its logging, not the training."""
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
        services: Whether those that are not ``on_disk`` are opened again.
    """
    again = {n: each for n, each in loggers.items() if services or trait(each, "on_disk")}
    made = opened(again, folder, step, training=False)
    log_evaluation(made, metrics, step)
    for logger in made:
        logger.finalize("success")
    seal(folder)


def seal(folder: Path) -> None:
    """Write the checksums of what the loggers of the run in a folder left there.

    Files that still have one are those that `unseal` found damaged, and stay so.
    """
    write_sums(folder, [each.name for each in _logged(folder) if not has_sum(each)])


def unseal(folder: Path) -> None:
    """Delete the checksums of what loggers left, before they write more; but of damaged files, keep them.

    Warns:
        UserWarning: For a file that does not have its checksum; it is continued as it is.
    """
    whole = []
    for file in _logged(folder):
        try:
            check_sum(file)
            whole.append(file.name)
        except WrongSum as error:
            warnings.warn(f"{error}; it is continued as it is, and stays damaged", stacklevel=3)
    forget_sums(folder, whole)


def _logged(folder: Path) -> list[Path]:
    files = {file for name in _files(folder) for file in folder.glob(name)}
    return sorted(file for file in files if file.is_file())


def delete_files(folder: Path) -> None:
    """Delete what the loggers of the run in a folder left there."""
    for name in _files(folder):
        for file in folder.glob(name):
            if file.is_dir() and not file.is_symlink():
                shutil.rmtree(file)
            else:
                file.unlink()
    (folder / LEFT).unlink(missing_ok=True)


def _files(folder: Path) -> list[str]:
    """The names and patterns in a folder's list; what is no name in the folder itself is left out."""
    try:
        listed = json.loads((folder / LEFT).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return []
    return [name for name in listed if is_name(name)] if isinstance(listed, list) else []


def is_name(name: Any) -> bool:
    """Whether it is a name or a pattern of files in one folder, and not of all files in it."""
    return isinstance(name, str) and name == os.path.basename(name) and bool(name.strip(".*? "))


def _note_files(folder: Path, names: Iterable[str]) -> None:
    known = _files(folder)
    listed = [*dict.fromkeys([*known, *filter(is_name, names)])]
    if listed != known:
        with atomic_write(folder / LEFT) as temporary:
            temporary.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")


def _containing(call: Callable[..., Any], name: str, state: dict[str, bool]) -> Callable[..., Any]:
    @functools.wraps(call)
    def contained_call(*args: Any, **kwargs: Any) -> Any:
        if state["failed"]:
            return None
        try:
            return call(*args, **kwargs)
        except Exception as error:  # a full disk, a service that is away
            state["failed"] = True
            _warn(name, "failed", error)
            return None

    return contained_call


def _warn(name: str, what: str, error: Exception) -> None:
    text = printable(str(error))[:300]
    warnings.warn(
        f"the logger {name} {what}, and logs no more; training goes on ({type(error).__name__}: {text})",
        stacklevel=3,
    )
