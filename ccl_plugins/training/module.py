"""The LightningModule: the training step inside Lightning's loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn

from ccl_plugins.files.processes import is_first
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.numerics.distributed import require_equal_batches
from ccl_plugins.numerics.generators import restore_generators, seed_everything
from ccl_plugins.objectives.base import reads_projections
from ccl_plugins.objectives.scalars import count_epochs
from ccl_plugins.protocols import (
    Length,
    Sizes,
    trait,
)
from ccl_plugins.training import ranks
from ccl_plugins.training.features import embed_split, widths
from ccl_plugins.training.findings import Findings
from ccl_plugins.training.first_use import check_gradients, warn_of_unread_queue
from ccl_plugins.training.kernel_check import check_kernel, kernel_readings
from ccl_plugins.training.loader import Batch, Items, Loader, augment, default_workers
from ccl_plugins.training.loss_log import publish
from ccl_plugins.training.parameter_groups import parameter_groups, scaled
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.sampling import Batches, Consumed, EpochSampler
from ccl_plugins.training.saved import ResumePoint
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.step import take_step, warn_about_statistics
from ccl_plugins.training.step_checks import nothing_counts, nothing_reaches, refuse_non_finite
from ccl_plugins.training.tables import Embedding, Tables


class TrainingModule(LightningModule):
    """Trains the parts of a pipeline.

    Args:
        parts: The pipeline's parts.
        split: The training split.
        settings: The run's settings.
        record: The record of the run; processes with another record are refused.
        resume: The checkpoint to continue from; its tables are not fitted again.
        run: The run's folder, for large tables.
    """

    def __init__(
        self,
        parts: Parts,
        split: Any,
        settings: FitSettings,
        record: Mapping[str, Any],
        resume: ResumePoint | None,
        run: RunFolder | None = None,
    ) -> None:
        super().__init__()
        self.method = parts.method
        self.objective = parts.objective
        self.parts = parts
        self.split = split
        self.settings = settings
        self.record = record
        self.tables = Tables(parts.conditions, len(split), settings.seed, run)
        self.consumed = Consumed()
        self._generators: Sequence[Mapping[str, Any]] = ()
        self._from_step = None if resume is None else resume.step
        if resume is not None:
            self.tables.load_state_dict(resume.tables)
            self.consumed.batches = resume.consumed
            self._generators = resume.generators
        self.used_lr = 0.0
        """The learning rate of the last optimizer step."""
        self.described: dict[str, float] = {}
        """The logged values of the tables and of the kernels on them."""
        self.findings = Findings()
        """The findings of the run."""
        self.pairs: Any = None
        """The last pairs, from the forward pass to the end of the backward pass."""
        self._loader: Loader | None = None
        self._begun = self._queue_compared = False
        self._checks_gradients = reads_projections(self.objective)
        """Whether to check at the first step that each parameter has a gradient."""
        self.may_count_nothing = True
        """Whether to check that an anchor counts: at the first step, and after a loss of 0."""
        self._counts_nothing = False
        self._may_reach_nothing = True
        """Whether to check that a gradient reaches the networks: at the first loss that is not 0."""
        self._loss: Callable[[Any], Tensor] = self.objective.loss

    @property
    def length(self) -> Length:
        """The length of the run."""
        return self.settings.length(len(self.train_dataloader()))

    def setup(self, stage: str) -> None:
        """Fit the conditions, then create the objective's parameters that depend on sizes.

        First, processes of another run, or with other data, are refused.
        """
        ranks.require_same_run({**self.record, "resumed from step": self._from_step})
        self._refresh(0)
        # Samples that are left out, or have no value, may have classes that no trained sample has.
        tables = {name: self.tables.with_values(name) for name in self.tables}
        features, embedding = widths(self.parts, self.split, self.settings)
        sizes = Sizes(len(self.split), embedding, features, self.length.steps)
        trait(self.objective, "setup")(tables, sizes)
        count_epochs(self.objective, self.length.steps_per_epoch)
        trait(self.method, "keep_statistics")(trait(self.objective, "statistics")())
        # Lightning does so later, and would read the weights of a checkpoint into narrower ones.
        self.trainer.precision_plugin.convert_module(self)
        self._loss = prepare(self.method, self.objective, self.settings)

    def train_dataloader(self) -> Loader:
        """The loader of this process's batches, made once the tables are fitted."""
        if self._loader is None:
            settings, device = self.settings, self.trainer.strategy.root_device.type
            batches = Batches(
                EpochSampler(self.parts, self.tables, settings, self.split),
                self.consumed,
                settings.batch_size,
                self.trainer.global_rank,
                self.trainer.world_size,
            )
            settings.check_accumulate(len(batches))
            batched = bool(trait(self.parts.transform, "batch_transforms"))
            masking = trait(self.method, "masking")
            items = Items(self.split, self.parts.transform, settings.seed, batched, masking)
            pin = device == "cuda"
            self._loader = Loader(items, batches, self._workers, pin, self.tables.read)
        return self._loader

    def close(self) -> None:
        """End the loader's workers."""
        if self._loader is not None:
            self._loader.close()

    def configure_optimizers(self) -> Any:
        """The optimizer and the schedule of its learning rate."""
        settings = self.settings
        groups = parameter_groups(self.method, self.objective, settings.decay, settings.layer_decay)
        samples = settings.batch_size * settings.accumulate
        optimizer = settings.optimizer(
            scaled(groups, settings.optimizer.lr, samples, settings.lr_per)
        )
        length = self.length
        if length.warmup_steps > length.steps:
            raise ValueError(
                f"max_steps is {settings.max_steps}, within the warm-up of {settings.warmup_epochs} epochs"
                f" of {length.steps_per_epoch} steps: the learning rate would not reach its value"
            )

        def factor(step: int) -> float:
            # A function: the number of steps is no part of its state, and a resumed run may be longer.
            return settings.schedule(step, length)

        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def on_fit_start(self) -> None:
        """Refresh the tables if a run is resumed at the start of an epoch."""
        # Before the loader's first iteration, whose sampler may read the tables.
        length = self.length
        epoch = self.consumed.batches // length.batches_per_epoch
        if epoch * length.steps_per_epoch < length.steps:
            self._refresh(epoch)

    def on_train_start(self) -> None:
        """Set the random generators; from here on only training draws from them."""
        if self.global_rank < len(self._generators):
            restore_generators(self._generators[self.global_rank])
        else:
            seed_everything(self.settings.seed, self.consumed.batches, self.global_rank)
        self._generators = ()
        if self.consumed.batches % self.length.batches_per_epoch:
            self._read_conditions()  # Lightning does not start an epoch that is resumed

    def on_train_epoch_start(self) -> None:
        """Refresh the tables, and the queue's condition values from them."""
        self._refresh(self.current_epoch)
        self._read_conditions()

    def _read_conditions(self) -> None:
        if read := trait(self.method, "read_conditions"):
            read(self.tables.look_up)

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Draw views that are drawn on the device, and bring images into the filters' memory format."""
        if batch.seeds is not None:
            drawn = augment(self.parts.transform, batch)
            # The loader's batches were brought to the precision before the transfer.
            batch = self.trainer.precision_plugin.convert_input(drawn)
        if not self.settings.channels_last:
            return batch
        views = [
            view.contiguous(memory_format=torch.channels_last) if view.ndim == 4 else view
            for view in batch.views
        ]
        return batch._replace(views=views)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        first, self._begun = not self._begun, True
        if first:  # it waits for the device
            require_equal_batches(len(batch.views[0]), batch.views[0].device)
        trait(self.objective, "progress")(self.global_step, self.length.steps)
        loss, self.pairs = take_step(
            self.parts,
            self.tables,
            batch,
            self.settings.micro_batch,
            self._loss,
            first,
            self.settings.anchors_at_once,
        )
        if not first and not self._queue_compared:
            warn_of_unread_queue(self.objective, self.method, self.pairs)
            self._queue_compared = True
        if self.settings.detect_anomaly:
            step = self.global_step + 1
            refuse_non_finite(loss, self.objective, self.pairs, batch.index, step)
        if self.may_count_nothing and not self._counts_nothing:
            self.may_count_nothing = False
            self._counts_nothing = nothing_counts(
                loss.detach(), self.objective, self.pairs, self.global_step + 1, self.findings
            )
        return loss

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Compute gradients; a step uses their mean over its batches.

        Lightning divides by ``accumulate``; the last step of an epoch may have fewer batches.
        """
        length = self.length
        count = length.batches_of_step(length.steps_after(self.consumed.batches))
        if count < length.accumulate:
            loss = loss * (length.accumulate / count)
        super().backward(loss, *args, **kwargs)
        if self._may_reach_nothing and bool(loss):
            self._may_reach_nothing = False
            networks = self.parts.networks.values()
            nothing_reaches(networks, self.objective, self.global_step + 1, self.findings)

    def on_after_backward(self) -> None:
        """Fill the queue, which the backward pass has read, and count the batch."""
        if self._checks_gradients and ranks.world_size() > 1:
            check_gradients(self.parts.networks)
            self._checks_gradients = False
        self.method.enqueue(self.pairs)
        self.pairs = None
        self.consumed.batches += 1

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: Any,
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        """Take an optimizer step, then move momentum encoders and the objective's state."""
        step = self.global_step
        self.used_lr = optimizer.param_groups[0]["lr"]
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        self.method.after_step(step, self.length.steps)
        trait(self.objective, "after_step")()

    def _refresh(self, epoch: int) -> None:
        refreshed = self.tables.refresh(
            epoch, self.split, self._embed, self.trainer.strategy.root_device
        )
        # The first step that reads the tables: a resumed run hides events of later steps only.
        # Lightning's own count is not yet restored when a resumed run begins.
        step = epoch * self.length.steps_per_epoch if epoch else 0
        for name, metrics in ranks.of_first(self._describe(refreshed, step)).items():
            logged = {f"condition/{name}/{key}": value for key, value in metrics.items()}
            self.described |= logged
            publish(self.trainer, logged, step + 1)

    def _describe(self, refreshed: list[str], step: int) -> dict[str, dict[str, float]]:
        """The values of refreshed tables and of their kernels, by condition; on the first process."""
        if not is_first():
            return {}
        described = {name: self.tables.describe(name).metrics() for name in refreshed}
        fitted = set(self.tables)
        for reading in kernel_readings(self.objective):
            names = reading.names
            if fitted.issuperset(names) and not set(names).isdisjoint(refreshed):
                tables = {name: self.tables.with_values(name, *names) for name in names}
                checked = check_kernel(reading, tables, self.findings, step)
                described[reading.name] = described.get(reading.name, {}) | checked
        return described

    def _embed(self, of: Embedding = "projection") -> Tensor:
        # Conditions are first fitted before Lightning has moved the model.
        self.method.to(self.trainer.strategy.root_device)
        return embed_split(
            self.method,
            self.split,
            self.parts.transform,
            of=of,
            workers=self._workers,
            file=None if self.tables.run is None else self.tables.run.embeddings[of],
        )

    @property
    def _workers(self) -> int:
        if self.settings.workers is not None:
            return self.settings.workers
        return default_workers(
            self.settings.devices, self.trainer.strategy.root_device.type != "cpu"
        )


def prepare(method: nn.Module, objective: Any, settings: FitSettings) -> Callable[[Any], Tensor]:
    """Set the memory format of the method's weights and compile its networks.

    Returns:
        ``objective.loss``, compiled if the settings say so and it can be.

    Raises:
        ValueError: For a backend that torch.compile does not have.
    """
    warn_about_statistics(method, settings.micro_batch, settings.batch_size // settings.processes)
    if settings.channels_last:
        method.to(memory_format=torch.channels_last)
    options: dict[str, Any] | None = settings.compilation
    if options is None:
        return objective.loss
    for network in _networks(method):
        # In place, so that names in the state dict stay as they are.
        network.compile(**options)
    loss: Callable[[Any], Tensor] = objective.loss
    if not trait(objective, "compiles"):
        return loss
    return torch.compile(loss, **options)


def _networks(method: nn.Module) -> Iterator[nn.Module]:
    """The modules of a method that are called; modules in a list or a dictionary one by one."""
    for child in method.children():
        if isinstance(child, nn.ModuleDict | nn.ModuleList):
            yield from _networks(child)
        else:
            yield child
