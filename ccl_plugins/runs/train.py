"""From a pipeline to a run: the folder is checked before anything is done or lost, then trained into."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ccl_plugins.files.checkpoints import CHECKPOINTS, WEIGHTS
from ccl_plugins.kinds import registry
from ccl_plugins.pipeline.changes import other_run
from ccl_plugins.pipeline.composition import Pipeline
from ccl_plugins.pipeline.record import check_plugins, read_json, versions_of, write_json
from ccl_plugins.pipeline.requirements import check_columns, check_method
from ccl_plugins.runs.export import FOLDER as EXPORTED
from ccl_plugins.runs.run import BEFORE, METRICS, RECORD, Run, measure

FIGURES = "figures"


class RunExists(FileExistsError):
    """A folder already holds a run, and nobody said what is to become of it."""


class RunInterrupted(RuntimeError):
    """Training was stopped before its end, and can be resumed."""


def train(
    pipeline: Pipeline,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Iterable[Any] = (),
    progress: bool = True,
    before: Callable[[Mapping[str, float]], None] = lambda metrics: None,
) -> Run:
    """Train a pipeline into a folder; see `Pipeline.fit`.

    A run that was never begun is begun by ``resume`` too.  A backbone that says ``pretrained`` is
    measured first; ``before`` is told.

    Raises:
        RunExists: If the folder holds a run, and neither ``resume`` nor ``overwrite`` is given.
        RunInterrupted: If training was stopped before its end.
        ValueError: For a batch or a condition that the method cannot take; nothing was deleted or written.
    """
    from ccl_plugins.networks.devices import accelerator
    from ccl_plugins.training import fit
    from ccl_plugins.training.checkpointing import by_step
    from ccl_plugins.training.randomness import seed_everything, undisturbed
    from ccl_plugins.training.sampling import check_processes

    check_processes(pipeline.settings)
    begun = resume and bool(by_step(out / CHECKPOINTS))
    done = out / WEIGHTS
    if resume and done.exists() and not begun:
        raise RunExists(f"{done} is of a finished run, which has no checkpoint to go on from")
    if is_first():
        check_folder(out, pipeline, resume=resume, overwrite=overwrite)
    check_columns(pipeline.build_evaluators(), pipeline.dataset)
    seed_everything(pipeline.settings.seed)
    parts = pipeline.build()
    check_method(parts.method, pipeline.settings.batch_size, parts.conditions)
    hooked = registry().call("ccl_callbacks", pipeline=pipeline)
    callbacks = _callbacks(callbacks, hooked)
    record = {**pipeline.to_dict(), "callbacks": versions_of(name for name, _ in hooked)}
    if is_first():
        if overwrite:
            for split in ("train", "test"):
                parts.dataset(split)  # for data that cannot be read, no run is deleted
            _delete_run(out)
        if resume and not begun:
            _delete_events(out)  # of a run that was killed before its first checkpoint
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / RECORD, record)
        if getattr(parts.method.backbone, "pretrained", False) and not begun:
            parts.method.to(accelerator())
            with undisturbed():
                metrics = measure(parts, pipeline)
            parts.method.to("cpu")  # as a run that is not measured begins
            write_json(out / BEFORE, metrics)
            before(metrics)
    result = fit(
        parts,
        pipeline.settings,
        out,
        record,
        resume=begun,
        callbacks=callbacks,
        progress=progress,
    )
    if not result.finished:
        raise RunInterrupted(
            f"stopped at step {result.step}; {out} can be resumed (--resume, or resume=True)"
        )
    return Run(out, pipeline)


def _callbacks(own: Any, hooked: Iterable[tuple[str, Any]]) -> list[Any]:
    """The user's callbacks, and after them those of plug-ins.

    Raises:
        TypeError: For what is no list of callbacks, naming the plug-in.
    """
    from pytorch_lightning import Callback

    found: list[Any] = []
    for whose, given in (("", own), *((f"plugin {plugin}: ", answer) for plugin, answer in hooked)):
        some = list(given) if isinstance(given, Iterable) else [None]
        if not all(isinstance(each, Callback) for each in some):
            raise TypeError(
                f"{whose}callbacks must be a list of Lightning callbacks, not {given!r}"
            )
        found += some
    return found


def is_first() -> bool:
    """Whether this is the process that speaks for all: Lightning starts the same script for each."""
    from pytorch_lightning.utilities import rank_zero_only

    return getattr(rank_zero_only, "rank", 0) == 0


def check_folder(out: Path, pipeline: Pipeline, *, resume: bool, overwrite: bool) -> None:
    """Whether a pipeline can be trained into a folder; nothing is written or deleted.

    Raises:
        RunExists: If the folder holds a run, and neither ``resume`` nor ``overwrite`` is given.
        ValueError: If the run to be resumed is of another pipeline, saying what differs.
    """
    if resume and overwrite:
        raise ValueError("resume continues a run and overwrite deletes it: give one of them")
    if out.exists() and not out.is_dir():
        raise RunExists(f"{out} is a file; a run needs a folder")
    if not (out / RECORD).exists() and not (out / CHECKPOINTS).exists():
        return
    if not resume and not overwrite:
        raise RunExists(
            f"{out} already holds a run: --resume (resume=True) continues it, --overwrite"
            " (overwrite=True) deletes it, another output folder leaves it alone"
        )
    if resume and (out / RECORD).exists():
        saved = read_json(out / RECORD)
        if changed := other_run(saved, pipeline.to_dict()):
            raise ValueError(
                f"{out} holds a run of another pipeline, which this one cannot resume:"
                f" {'; '.join(changed)}"
            )


def check_offered(out: Path) -> None:
    """Whether what the run in a folder was made of is installed; of no effect without a run.

    Raises:
        PluginFailed: For a plug-in that is not installed, saying what to install.
    """
    if (out / RECORD).is_file():
        check_plugins(Run(out).record.get("plugins", {}))


def _delete_run(out: Path) -> None:
    """What a run wrote, and nothing else that may lie in the folder."""
    for name in (RECORD, BEFORE, METRICS, WEIGHTS):
        (out / name).unlink(missing_ok=True)
    _delete_events(out)
    for folder in (CHECKPOINTS, FIGURES, EXPORTED):
        if (out / folder).is_dir():
            shutil.rmtree(out / folder)


def _delete_events(out: Path) -> None:
    for events in out.glob("events.out.tfevents.*"):
        events.unlink()
