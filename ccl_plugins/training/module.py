"""The LightningModule: the training step in the hands of Lightning's loops."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn

from ccl_plugins.training import ranks
from ccl_plugins.training.features import embed_split
from ccl_plugins.training.kernel_check import check_kernel
from ccl_plugins.training.loader import Batch, Loader
from ccl_plugins.training.micro_batches import piecewise_statistics
from ccl_plugins.training.monitor import refuse_non_finite
from ccl_plugins.training.optimizers import make_optimizer, make_schedule, parameter_groups
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.randomness import restore_generators, seed_everything
from ccl_plugins.training.sampling import Consumed
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.step import take_step
from ccl_plugins.training.tables import Tables


def prepare(method: nn.Module, objective: Any, settings: FitSettings) -> Callable[[Any], Tensor]:
    """Lay out the method's weights and compile its networks, as the settings say.

    Returns:
        ``objective.loss``, compiled where that is asked for.

    Raises:
        ValueError: For a backend that torch.compile does not have.

    Warns:
        UserWarning: Where a batch is embedded in pieces and norms take their statistics from those.
    """
    local = settings.batch_size // settings.processes
    if said := piecewise_statistics(method, settings.micro_batch, local):
        warnings.warn(said, stacklevel=2)
    if settings.channels_last:
        method.to(memory_format=torch.channels_last)
    if settings.compile is False:
        return objective.loss
    backend = "inductor" if settings.compile is True else settings.compile
    if backend not in torch.compiler.list_backends(exclude_tags=()):
        usual = ", ".join(torch.compiler.list_backends())
        raise ValueError(f"torch.compile has no backend {backend!r}; it has {usual}")
    for network in method.children():
        # In place, so that names in the state dict stay as they are.
        network.compile(backend=backend)
    return torch.compile(objective.loss, backend=backend)


def in_format(batch: Batch) -> Batch:
    """A batch whose images lie with channels last; what is no image stays as it is."""
    views = [
        view.contiguous(memory_format=torch.channels_last) if view.ndim == 4 else view
        for view in batch.views
    ]
    return Batch(views, batch.index)


class TrainingModule(LightningModule):
    """Trains the parts of a pipeline.

    Args:
        parts: The pipeline's parts.
        split: The training split.
        tables: The conditions' tables; those loaded from a checkpoint are not fitted again.
        settings: The run's settings.
        make_loader: Makes the loader; called when the processes exist and the tables are fitted.
        consumed: Counts the batches.
        generators: The random generators' states of each process in a resumed run.
    """

    def __init__(
        self,
        parts: Parts,
        split: Any,
        tables: Tables,
        settings: FitSettings,
        make_loader: Callable[[TrainingModule], Loader],
        consumed: Consumed,
        generators: list[Mapping[str, Any]],
    ) -> None:
        super().__init__()
        self.method = parts.method
        self.objective = parts.objective
        self.parts = parts
        self.split = split
        self.tables = tables
        self.settings = settings
        self.consumed = consumed
        self.used_lr = 0.0
        """The learning rate of the last optimizer step."""
        self._generators = generators
        self._make_loader = make_loader
        self._loader: Loader | None = None
        self._pairs: Any = None
        self._unseen = True
        self._loss: Callable[[Any], Tensor] = self.objective.loss

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole run; an epoch's last one may be of fewer batches."""
        return self.settings.epochs * self._steps_per_epoch

    @property
    def _steps_per_epoch(self) -> int:
        return -(-len(self.train_dataloader()) // self.settings.accumulate)

    def setup(self, stage: str) -> None:
        """Fit the conditions, from which the objective may make parameters of its own."""
        self._refresh(0)
        if hasattr(self.objective, "setup"):
            # Without the samples that are left out: what they lack is no class.
            self.objective.setup({name: self.tables.present(name) for name in self.tables})
        if hasattr(self.objective, "statistics") and hasattr(self.method, "keep_statistics"):
            self.method.keep_statistics(self.objective.statistics())
        self._loss = prepare(self.method, self.objective, self.settings)

    def train_dataloader(self) -> Loader:
        """The loader of this process's batches."""
        if self._loader is None:
            self._loader = self._make_loader(self)
        return self._loader

    def close(self) -> None:
        """End the loader's workers."""
        if self._loader is not None:
            self._loader.close()

    def configure_optimizers(self) -> Any:
        """The optimizer, and its learning rate's schedule."""
        settings, given = self.settings, self.settings.optimizer
        groups = parameter_groups(self.method, self.objective, given["decay"], given["layer_decay"])
        optimizer = make_optimizer(groups, given, settings.batch_size * settings.accumulate)
        factor = make_schedule(
            settings.schedule,
            settings.epochs,
            self.total_steps // settings.epochs,
            settings.warmup_epochs,
        )
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def on_fit_start(self) -> None:
        """Refresh the tables where a run is resumed at the start of an epoch."""
        # Before the loader's first iteration, whose sampler may read the tables.
        epoch = self.consumed.batches // len(self.train_dataloader())
        if epoch < self.settings.epochs:
            self._refresh(epoch)

    def on_train_start(self) -> None:
        """Set the random generators, when nothing is left that draws from them but training."""
        if self.global_rank < len(self._generators):
            restore_generators(self._generators[self.global_rank])
        else:
            seed_everything(self.settings.seed, self.consumed.batches, self.global_rank)
        self._generators = []

    def on_train_epoch_start(self) -> None:
        """Refresh the tables, which the queue reads again."""
        self._refresh(self.current_epoch)
        in_the_midst = self.consumed.batches % len(self.train_dataloader())  # of a resumed epoch
        if hasattr(self.method, "read_conditions") and not in_the_midst:
            self.method.read_conditions(self.tables.look_up)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        if self._unseen:  # once an epoch, as it waits for the device
            ranks.require_equal(len(batch.views[0]))
            self._unseen = False
        if hasattr(self.objective, "progress"):
            self.objective.progress(self.global_step, self.total_steps)
        loss, self._pairs = take_step(
            self.parts, self.tables, batch, self.settings.micro_batch, self._loss
        )
        if self.settings.detect_anomaly:
            step = self.global_step + 1
            refuse_non_finite(loss, self.objective, self._pairs, batch.index, step)
        return loss

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Bring images into the memory format of the filters."""
        return in_format(batch) if self.settings.channels_last else batch

    def on_after_backward(self) -> None:
        """Fill the queue, which the backward pass has read, and count the batch."""
        self.method.enqueue(self._pairs)
        self._pairs = None
        self.consumed.batches += 1

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: Any,
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        """One step of the optimizer, and what follows each: momentum encoders, the objective's own."""
        step = self.global_step
        self.used_lr = optimizer.param_groups[0]["lr"]
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        self.method.after_step(step, self.total_steps)
        if hasattr(self.objective, "after_step"):
            self.objective.after_step()

    def _refresh(self, epoch: int) -> None:
        for name in self.tables.refresh(epoch, self.split, self._embed):
            self._log_condition(name, epoch, self.tables.describe(name).metrics())
            for kernel in self._kernels(name) if ranks.rank() == 0 else ():
                found = check_kernel(kernel, self.tables.present(name), name)
                self._log_condition(name, epoch, found)

    def _log_condition(self, name: str, epoch: int, found: Mapping[str, float]) -> None:
        if self.logger is not None and found and ranks.rank() == 0:
            logged = {f"condition/{name}/{k}": v for k, v in found.items()}
            # Of the first step that reads it, so that what is after a checkpoint has a later step;
            # Lightning's own count is not yet restored where a resumed run begins.
            step = epoch * self._steps_per_epoch if epoch else 0
            self.logger.log_metrics(logged, step=step + 1)

    def _kernels(self, name: str) -> list[Any]:
        """The kernels through which the objective, or those it is made of, reads a condition."""
        readers = [each for each in self.objective.modules() if hasattr(each, "kernel")]
        return [
            r.kernel for r in readers if name in r.conditions and getattr(r, "on", name) == name
        ]

    def _embed(self) -> Tensor:
        # Conditions are first fitted before Lightning has moved the model.
        self.method.to(self.trainer.strategy.root_device)
        return embed_split(self.method, self.split, self.parts.views)
