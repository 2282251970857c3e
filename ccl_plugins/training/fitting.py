"""Training of a pipeline's parts, from the start or a checkpoint to the end, and its preparation."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ccl_plugins.files.checkpoints import versions, write_checkpoint
from ccl_plugins.files.processes import is_first
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.numerics.generators import seed_everything
from ccl_plugins.objectives.base import reads_projections
from ccl_plugins.training.interrupt import Interrupt, Waiting
from ccl_plugins.training.loader import beside_workers
from ccl_plugins.training.parameter_groups import parameter_groups
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.sampling import Batches, Consumed, EpochSampler
from ccl_plugins.training.saved import ResumePoint, last_good
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.step_checks import NotFinite
from ccl_plugins.training.tables import Tables
from ccl_registry.errors import Mistake

if TYPE_CHECKING:
    from ccl_plugins.training.loss_log import LossLog


@dataclass(frozen=True)
class FitResult:
    """How a run ended.

    Args:
        finished: False if it was stopped on request and can be resumed; True also if a callback
            ended it early, such as ``EarlyStopping``.
        step: Optimizer steps taken, including those before a resume.
        total: Optimizer steps of the whole run.
    """

    finished: bool
    step: int
    total: int


class CannotBegin(Mistake):
    """Training cannot begin, because data, tables or settings do not match; the message says why."""


def fit(
    parts: Parts,
    split: Any,
    settings: FitSettings,
    record: Mapping[str, Any],
    *,
    run: RunFolder,
    resume: ResumePoint | None = None,
    callbacks: Sequence[Any] = (),
    progress: bool = True,
    loggers: Sequence[Any] = (),
) -> FitResult:
    """Train a pipeline's parts.

    A signal to stop finishes the step and writes a checkpoint; a run resumed from it continues exactly.

    Args:
        parts: The built parts; their weights are changed in place.
        split: The training split of their data set.
        settings: How to train.
        record: The record of the run, as plain data, whose ``"data"`` is the `fingerprint` of each split;
            kept in every checkpoint.
        run: The run's folder, which exists.
        resume: The checkpoint to continue from; the caller has checked that it is of the same run.
        callbacks: Lightning callbacks.
        progress: Show progress on standard error.
        loggers: Lightning loggers.

    Raises:
        CannotBegin: If a ValueError is raised before the first step, while the conditions' tables are
            fitted and the sampler is made; on several processes, if they are not of one run.
        NonFiniteLoss: If the loss becomes NaN or infinite; the message names step, samples and last
            checkpoint.
        NonFiniteWeights: If weights to be written are NaN or infinite; the message names step and
            last checkpoint.
        LostProcess: If another process ended or does not answer (the message names step, host and
            last checkpoint), or if a worker was ended, for example for lack of memory.
    """
    # Lightning takes seconds to import.
    from pytorch_lightning.callbacks import LambdaCallback

    from ccl_plugins.training.checkpointing import Checkpointing
    from ccl_plugins.training.loss_log import LossLog
    from ccl_plugins.training.module import TrainingModule
    from ccl_plugins.training.trainer import arithmetic, make_trainer, quiet

    waiting = Waiting(lambda: last_good(run))
    losses = LossLog(settings.log_every, settings.batch_size)
    with until_begun(losses), Interrupt() as interrupt, quiet(), arithmetic(settings):
        seed_everything(settings.seed)
        module = TrainingModule(parts, split, settings, record, resume, run)
        writer = Checkpointing(run, settings, record, interrupt, losses)
        noting = LambdaCallback(
            on_train_batch_end=lambda trainer, *_: waiting.note(trainer.global_step)
        )
        listed = [*callbacks, writer, noting]
        learn = reads_projections(parts.objective)
        trainer = make_trainer(settings, run, losses, listed, progress, loggers, learn)
        launcher = trainer.strategy.launcher
        launching = nullcontext() if launcher is None else interrupt.launching(launcher.kill)

        def launched() -> Any:
            return getattr(launcher, "procs", ())

        try:
            several = waiting.watching(settings.processes > 1, launched)
            workers = waiting.telling_of_workers()
            with beside_workers(settings, trainer), several, launching, workers:
                trainer.fit(module, ckpt_path=str(resume.path) if resume else None)
            writer.check_weights(parts.networks, trainer.global_step)
        except NotFinite as error:
            raise type(error)(f"{error}. {last_good(run)}") from error
        except SystemExit as error:
            # Lightning ends the whole process at a second Ctrl-C; a notebook should live on.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            raise
        finally:
            module.close()
    steps = trainer.global_step
    finished = not writer.stopped or steps >= module.length.steps
    if finished and is_first():
        networks = {name: network.state_dict() for name, network in parts.networks.items()}
        about = {"step": steps, "record": json.dumps(record), "versions": versions()}
        write_checkpoint(run.claim(run.weights), {**networks, **about})
    return FitResult(finished, steps, module.length.steps)


@contextmanager
def until_begun(losses: LossLog | None = None) -> Iterator[None]:
    """Report a ValueError as `CannotBegin` if the log of losses has not reached the first step."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, OSError) or (losses is not None and losses.begun):
            raise
        raise CannotBegin(str(error)) from error


def rehearse(parts: Parts, split: Any, settings: FitSettings) -> None:
    """Fit the tables that do not depend on the networks, and make the sampler and the groups of parameters.

    Warnings are left to the training itself.

    Raises:
        ValueError: For missing values, and for settings that do not suit data or networks.
    """
    for each in rehearsals(parts, split, settings):
        each()


def rehearsals(parts: Parts, split: Any, settings: FitSettings) -> list[Callable[[], Any]]:
    """The independent calls of `rehearse`."""
    return [
        partial(_batches, parts, split, settings),
        partial(
            parameter_groups, parts.method, parts.objective, settings.decay, settings.layer_decay
        ),
        lambda: settings.compilation,
    ]


def fixed_tables(conditions: Mapping[str, Any], split: Any, settings: FitSettings) -> Tables:
    """The tables of conditions that do not depend on the networks."""
    made = Tables(conditions, len(split), settings.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.keep_once(split)
    return made


def _batches(parts: Parts, split: Any, settings: FitSettings) -> None:
    made = fixed_tables(parts.conditions, split, settings)
    if all(c.refresh == "batch" or name in made for name, c in parts.conditions.items()):
        sampler = EpochSampler(parts, made, settings, split)
        batches = Batches(sampler, Consumed(), settings.batch_size, 0, settings.processes)
        settings.check_accumulate(len(batches))
