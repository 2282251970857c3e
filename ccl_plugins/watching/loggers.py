"""Where a run's numbers go: loggers by name, with tables of options.

``loggers = ["tensorboard", "csv", {use = "wandb", project = "digits", mode = "offline"}]``
"""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import os
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.messages import printable

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

Chosen = dict[str, Any]
"""A chosen logger: ``{"use": name, **options}``."""

DEFAULT = ("tensorboard",)
PACKAGES = {"tensorboard": "", "csv": "", "wandb": "wandb", "mlflow": "mlflow"}
"""The loggers by name, and the package that each needs beside those of this library."""


def read(given: Any) -> list[Chosen]:
    """The chosen loggers, each a name or a table of options.

    Args:
        given: A list of names and tables with ``use``; None: TensorBoard.

    Raises:
        TypeError: For another form, and for options that are no plain data.
        ValueError: For an unknown name, and for one given twice.
    """
    if given is None:
        given = DEFAULT
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f'loggers must be a list, as ["tensorboard", "csv"], not {given!r}')
    found: list[Chosen] = []
    for number, each in enumerate(given):
        place = f"loggers[{number}]"
        table = {"use": each} if isinstance(each, str) else each
        if not isinstance(table, Mapping) or not isinstance(table.get("use"), str):
            raise TypeError(
                f'{place} must be a name or a table as {{use = "wandb", project = "digits"}}, not'
                f" {each!r}; an object goes to fit(logger=...)"
            )
        name = table["use"]
        if name not in PACKAGES:
            raise ValueError(f"{place}: there is no logger {name!r}{_suggest(name, [*PACKAGES])}")
        if name in [other["use"] for other in found]:
            raise ValueError(f"{place}: {name} is given twice")
        try:
            found.append(json.loads(json.dumps(dict(table), allow_nan=False)))
        except (TypeError, ValueError) as error:
            raise TypeError(f"{place}: the options of {name} must be plain data: {error}") from None
    return found


def check(chosen: Iterable[Chosen]) -> None:
    """Check that the packages of chosen loggers are installed, and that they take the options.

    Raises:
        ValueError: For a package that is missing, saying what to install, and for an unknown option.
    """
    for number, each in enumerate(chosen):
        name, options = each["use"], [key for key in each if key != "use"]
        package = PACKAGES[name]
        if package and find_spec(package) is None:
            raise ValueError(
                f"loggers[{number}]: the logger {name} needs the package {package}: pip install"
                f' "ccl-plugins[{name}]"'
            )
        known = _options(name) if options else []
        for key in options:
            if key not in known:
                raise ValueError(
                    f"loggers[{number}]: {name} has no option {key!r}{_suggest(key, known)}"
                )


def build(chosen: Iterable[Chosen], folder: Path, done: int | None) -> list[Logger]:
    """Build loggers for the run in a folder, on its first process.

    Args:
        chosen: What `read` returned.
        folder: The run's folder, which exists.
        done: The step of the checkpoint to resume from: loggers continue what they began; None: a new run.

    Returns:
        Those that could be built; a warning names each other.
    """
    found = []
    for each in chosen:
        options = {key: value for key, value in each.items() if key != "use"}
        try:
            found.append(contained(_BUILDERS[each["use"]](folder, done, options), each["use"]))
        except Exception as error:  # a service or a full disk must not keep a run from training
            _warn(each["use"], "cannot be built", error)
    return found


def contained(logger: Logger, name: str = "") -> Logger:
    """The same logger, whose errors are one warning and end its logging, not the training."""
    if getattr(logger, "_contained", False):
        return logger
    state = {"failed": False}
    label = name or type(logger).__name__
    for method in ("log_metrics", "log_hyperparams", "save", "finalize", "after_save_checkpoint"):
        # On the instance, so that callbacks still see a logger of its class.
        setattr(logger, method, _containing(getattr(logger, method), label, state))
    logger._contained = True  # type: ignore[attr-defined]
    return logger


def close(loggers: Iterable[Any]) -> None:
    """End what loggers keep open beyond a run: a wandb run would take the values of the next one."""
    for each in loggers:
        if type(each).__name__ == "WandbLogger" and getattr(each, "_experiment", None) is not None:
            try:
                each.experiment.finish()
            except Exception as error:  # as in `contained`
                _warn("wandb", "cannot be closed", error)
            each._experiment = None


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


def _options(name: str) -> list[str]:
    """The options of a logger: the parameters of what is built, without those that the run sets."""
    if name == "csv":
        return []
    if name == "tensorboard":
        return ["flush_secs", "max_queue"]
    from pytorch_lightning.loggers import MLFlowLogger, WandbLogger

    targets: dict[str, list[Callable[..., Any]]] = {
        "mlflow": [MLFlowLogger],
        "wandb": [WandbLogger],
    }
    if name == "wandb":
        import wandb

        targets["wandb"].append(wandb.init)
    taken = {"experiment", "kwargs", "version", "save_dir", "dir", "anonymous", "reinit"}
    return sorted(
        {p for target in targets[name] for p in inspect.signature(target).parameters} - taken
    )


def _tensorboard(folder: Path, done: int | None, options: Chosen) -> Logger:
    from ccl_plugins.training.trainer import Events

    logger = Events(folder, done, **options)
    logger.continues_run = done is not None  # type: ignore[attr-defined]
    return logger


def _csv(folder: Path, done: int | None, options: Chosen) -> Logger:
    from ccl_plugins.watching.history import History

    return History(folder / "history.csv", folder / "hyperparameters.json", done)


def _wandb(folder: Path, done: int | None, options: Chosen) -> Logger:
    from pytorch_lightning.loggers import WandbLogger

    close_stray_run()
    number = _kept(folder, "wandb") if done is not None else None
    number = options.pop("id", None) or number or uuid.uuid4().hex[:8]
    _keep(folder, "wandb", number)
    settings = {"silent": True, "console": "off", **options.pop("settings", {})}
    given = {
        "project": os.environ.get("WANDB_PROJECT", "ccl-plugins"),
        "name": folder.name,
        **options,
    }
    return WandbLogger(
        save_dir=folder, id=number, resume=given.pop("resume", "allow"), settings=settings, **given
    )


def close_stray_run() -> None:
    """End the wandb run of an earlier training in this process."""
    import wandb

    if wandb.run is not None:
        wandb.finish()


def _mlflow(folder: Path, done: int | None, options: Chosen) -> Logger:
    uri = options.get("tracking_uri") or os.environ.get("MLFLOW_TRACKING_URI")
    uri = uri or (folder / "mlflow").absolute().as_uri()
    if uri.startswith("file:") or "://" not in uri:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    from pytorch_lightning.loggers import MLFlowLogger

    number = _kept(folder, "mlflow") if done is not None else None
    given = {"experiment_name": "ccl-plugins", "run_name": folder.name, "run_id": number, **options}
    logger = MLFlowLogger(**{**given, "tracking_uri": uri})
    logger.continues_run = number is not None  # type: ignore[attr-defined]
    if logger.run_id is not None:
        _keep(folder, "mlflow", logger.run_id)
    return logger


_BUILDERS: Mapping[str, Callable[[Path, int | None, Chosen], Any]] = {
    "tensorboard": _tensorboard,
    "csv": _csv,
    "wandb": _wandb,
    "mlflow": _mlflow,
}


def _kept(folder: Path, name: str) -> str | None:
    """The id under which a service knows the run."""
    file = folder / "loggers.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except ValueError:  # damaged: the service gets another run
        return None
    number = found.get(name) if isinstance(found, dict) else None
    return number if isinstance(number, str) else None


def _keep(folder: Path, name: str, number: str) -> None:
    file = folder / "loggers.json"
    known = {each: _kept(folder, each) for each in PACKAGES}
    known = {each: value for each, value in {**known, name: number}.items() if value}
    with atomic_write(file) as temporary:
        temporary.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


def _suggest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there are {', '.join(known)}" if known else "; it has none"
