"""A run from its start, or its checkpoint, to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.training.parts import Parts
from ccl_plugins.training.settings import FitSettings

if TYPE_CHECKING:
    from ccl_plugins.training.loader import Loader
    from ccl_plugins.training.module import TrainingModule


@dataclass(frozen=True)
class FitResult:
    """How a run ended.

    Args:
        finished: False where it was stopped on request and can be resumed.
        step: Optimizer steps taken, those before a resume too.
    """

    finished: bool
    step: int


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoint that a run continues from, with everything in it that Lightning does not restore.

    Args:
        path: The checkpoint's file.
        step: Optimizer steps taken until then.
        record: The record of the run, as plain data.
        consumed: Global batches consumed until then.
        tables: The state of the conditions' tables.
        generators: The states of the random generators of each process.
    """

    path: Path
    step: int
    record: Mapping[str, Any]
    consumed: int
    tables: Mapping[str, Any]
    generators: Sequence[Mapping[str, Any]]

    @classmethod
    def newest(cls, folder: Path) -> ResumePoint:
        """The newest readable checkpoint in a folder.

        Raises:
            FileNotFoundError: If there is none.
            DamagedCheckpoint: If none can be read.

        Warns:
            UserWarning: Naming the damaged file where an older one is used.
        """
        from ccl_plugins.training.checkpointing import OURS, newest

        path, saved = newest(folder)
        state = saved[OURS]
        names = ("consumed", "tables", "generators")
        record = json.loads(state["record"])
        return cls(path, saved["global_step"], record, **{name: state[name] for name in names})


class CannotBegin(ValueError):
    """Training cannot begin: data, tables or settings do not go together; the message says why."""


def fit(
    parts: Parts,
    split: Any,
    settings: FitSettings,
    record: Mapping[str, Any],
    *,
    events: Path,
    checkpoints: Path,
    weights: Path,
    resume: ResumePoint | None = None,
    callbacks: Sequence[Any] = (),
    progress: bool = True,
) -> FitResult:
    """Train a pipeline's parts.

    Ctrl-C and SIGTERM finish the step and write a checkpoint; a run resumed from it continues exactly.

    Args:
        parts: The built parts; their weights are changed in place.
        split: The training split of their data set.
        settings: How to train.
        record: The record of the run, as plain data; kept in every checkpoint.
        events: The folder for TensorBoard events, which exists.
        checkpoints: The folder for checkpoints.
        weights: The file for the final weights.
        resume: The checkpoint to continue from; the caller has checked that it is of the same run.
        callbacks: Lightning callbacks.
        progress: Show progress on standard error.

    Raises:
        CannotBegin: If a ValueError is raised before the first step, while the conditions' tables are
            fitted and the sampler is made.
        NonFiniteLoss: If the loss becomes NaN or infinite, naming step, samples and last checkpoint.
    """
    from pytorch_lightning.callbacks import LambdaCallback

    from ccl_plugins.files.checkpoints import write_checkpoint
    from ccl_plugins.training.checkpointing import Checkpointing, Interrupt, last_good
    from ccl_plugins.training.loader import beside_workers
    from ccl_plugins.training.module import TrainingModule
    from ccl_plugins.training.monitor import Monitor, NonFiniteLoss
    from ccl_plugins.training.randomness import seed_everything
    from ccl_plugins.training.sampling import Consumed
    from ccl_plugins.training.tables import Tables
    from ccl_plugins.training.trainer import make_trainer, quiet

    begun: list[bool] = []
    begin = LambdaCallback(on_train_start=lambda *_: begun.append(True))
    monitor = Monitor(settings.log_every, settings.batch_size)
    with _until(begun), Interrupt() as interrupt, quiet():
        tables, consumed = Tables(parts.conditions, len(split), settings.seed), Consumed()
        step, generators, path = None, [], None
        if resume is not None:
            tables.load_state_dict(resume.tables)
            consumed.batches, generators = resume.consumed, list(resume.generators)
            step, path = resume.step, str(resume.path)
        seed_everything(settings.seed)
        module = TrainingModule(parts, split, tables, settings, _make_loader, consumed, generators)
        writer = Checkpointing(checkpoints, settings, record, interrupt, monitor)
        trainer = make_trainer(
            settings, events, monitor, [begin, *callbacks, writer], progress, step
        )
        try:
            with beside_workers(settings, trainer):
                trainer.fit(module, ckpt_path=path)
        except NonFiniteLoss as error:
            raise NonFiniteLoss(f"{error}. {last_good(checkpoints)}") from error
        except SystemExit as error:
            # Lightning ends the whole process at a second Ctrl-C; a notebook should live on.
            raise KeyboardInterrupt from error
        finally:
            module.close()
    steps = trainer.global_step
    finished = not writer.stopped or steps >= module.total_steps
    if finished and trainer.is_global_zero:
        write_checkpoint(weights, _final_state(parts, record, steps))
    return FitResult(finished, steps)


@contextmanager
def _until(begun: Sequence[bool]) -> Iterator[None]:
    """Report a ValueError as `CannotBegin` while ``begun`` is empty."""
    try:
        yield
    except ValueError as error:
        if begun:
            raise
        raise CannotBegin(str(error)) from error


def _final_state(parts: Parts, record: Mapping[str, Any], step: int) -> dict[str, Any]:
    """The weights of the networks with the record and the versions of the libraries."""
    from ccl_plugins.files.checkpoints import versions

    networks = {name: network.state_dict() for name, network in parts.networks.items()}
    return {**networks, "step": step, "record": json.dumps(record), "versions": versions()}


def _make_loader(module: TrainingModule) -> Loader:
    from ccl_plugins.training.loader import Items, Loader, count_workers
    from ccl_plugins.training.sampling import Batches, EpochSampler

    settings, parts, trainer = module.settings, module.parts, module.trainer
    batches = Batches(
        EpochSampler(parts, module.tables, settings),
        module.consumed,
        settings.batch_size,
        trainer.global_rank,
        trainer.world_size,
    )
    items = Items(module.split, parts.views, settings.seed)
    on_gpu = trainer.strategy.root_device.type == "cuda"
    return Loader(items, batches, count_workers(settings, trainer), pin_memory=on_gpu)
