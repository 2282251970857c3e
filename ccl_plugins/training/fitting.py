"""A run from its start, or its checkpoint, to its end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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


def fit(
    parts: Parts,
    settings: FitSettings,
    out: Path,
    record: Mapping[str, Any],
    *,
    resume: bool = False,
    callbacks: Sequence[Any] = (),
    progress: bool = True,
) -> FitResult:
    """Train a pipeline's parts.

    Writes TensorBoard events to ``out``, checkpoints to ``out/checkpoints``, and the final weights
    to ``out/weights.pt``.  Ctrl-C and SIGTERM finish the step and write a checkpoint; a run resumed
    from it goes on exactly.

    Args:
        parts: The built parts; their weights are changed in place.
        settings: How to train.
        out: The run's folder, which exists.
        record: What the run is, as plain data; kept in every checkpoint.
        resume: Go on from the newest readable checkpoint in ``out``.
        callbacks: Lightning callbacks.
        progress: Show progress on standard error.

    Raises:
        FileNotFoundError: If there is nothing to resume.
        ValueError: If the checkpoint is of a run with other settings, or is damaged; for a batch
            that the devices cannot share.
        NonFiniteLoss: If the loss becomes NaN or infinite, naming step, samples and last checkpoint.
    """
    from ccl_plugins.files.checkpoints import CHECKPOINTS, WEIGHTS, write_checkpoint
    from ccl_plugins.pipeline.changes import other_run
    from ccl_plugins.training.checkpointing import OURS, Checkpointing, Interrupt, last_good, newest
    from ccl_plugins.training.loader import beside_workers
    from ccl_plugins.training.module import TrainingModule
    from ccl_plugins.training.monitor import Monitor, NonFiniteLoss
    from ccl_plugins.training.randomness import seed_everything
    from ccl_plugins.training.sampling import Consumed, check_processes
    from ccl_plugins.training.tables import Tables
    from ccl_plugins.training.trainer import make_trainer, quiet

    check_processes(settings)
    split = parts.dataset("train")
    tables, consumed = Tables(parts.conditions, len(split), settings.seed), Consumed()
    source, generators, done = None, [], None
    folder = out / CHECKPOINTS
    if resume:
        source, saved = newest(folder)
        changed = other_run({"fit": saved[OURS]["settings"]}, {"fit": settings.to_dict()})
        if changed:
            raise ValueError(f"{source} is of a run with other settings: {'; '.join(changed)}")
        tables.load_state_dict(saved[OURS]["tables"])
        consumed.batches, generators = saved[OURS]["consumed"], saved[OURS]["generators"]
        done = saved["global_step"]
    seed_everything(settings.seed)
    module = TrainingModule(parts, split, tables, settings, _make_loader, consumed, generators)
    monitor = Monitor(settings.log_every, settings.batch_size)
    with Interrupt() as interrupt, quiet():
        writer = Checkpointing(folder, settings, record, interrupt, monitor)
        trainer = make_trainer(settings, out, monitor, [*callbacks, writer], progress, done)
        try:
            with beside_workers(settings, trainer):
                trainer.fit(module, ckpt_path=None if source is None else str(source))
        except NonFiniteLoss as error:
            raise NonFiniteLoss(f"{error}. {last_good(folder)}") from error
        except SystemExit as error:
            # Lightning ends the whole process at a second Ctrl-C; a notebook should live on.
            raise KeyboardInterrupt from error
        finally:
            module.close()
    step = trainer.global_step
    finished = not writer.stopped or step >= module.total_steps
    if finished and trainer.is_global_zero:
        write_checkpoint(out / WEIGHTS, weights(parts, record, step))
    return FitResult(finished, step)


def weights(parts: Parts, record: Mapping[str, Any], step: int) -> dict[str, Any]:
    """A trained pipeline as plain data: the networks' weights, what they are, and with what made."""
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
