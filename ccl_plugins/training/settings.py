"""How a pipeline is trained: the ``[fit]`` table of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ccl_plugins.arguments import non_negative, number, one_of, positive, whole
from ccl_plugins.training.optimizers import complete_optimizer, complete_schedule

_WHOLE = {
    "epochs": 1,
    "batch_size": 1,
    "seed": 0,
    "devices": 1,
    "nodes": 1,
    "accumulate": 1,
    "checkpoint_every": 1,
    "keep_last": 1,
    "log_every": 1,
}
_WHOLE_OR_NONE = {"workers": 0, "micro_batch": 1, "checkpoint_every_steps": 1}

PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "64-true")


@dataclass(frozen=True)
class FitSettings:
    """What ``pipeline.fit`` takes, checked.

    Args:
        epochs: Passes over the training set.
        batch_size: Samples in a *global* batch, over all devices.
        seed: The seed of sample order, augmentation and everything else that is random in training.
        optimizer: ``{"name": "adamw" | "adam" | "sgd" | "lars", "lr": ..., "weight_decay": ...}``, with
            ``"momentum"`` for sgd and lars and ``"nesterov"`` for sgd.  ``"lr_per": 256`` says that
            ``lr`` is for a step of 256 samples, and grows with them; ``"decay": "all"`` decays biases
            and norms too; ``"layer_decay": 0.75`` multiplies the rate of each layer of the backbone by
            that of the next.  What is left out has the value in `OPTIMIZERS`.
        schedule: ``{"name": "cosine"}`` falls after the warm-up to the part ``"end"`` of the learning
            rate, ``"step"`` multiplies it by ``"factor"`` at each of ``"milestones"``, epochs, and
            ``"constant"`` leaves it; ``"per": "epoch"`` changes it between epochs only.  The warm-up
            begins at the part ``"start"``; with ``"overlap"`` it is a ceiling of a cosine over the whole
            run; with ``"reach_end"`` the last step, or epoch, has the end's rate.
        warmup_epochs: Epochs, or parts of one, in which the learning rate rises linearly.
        workers: Processes that load and augment; None chooses by machine and data.
        devices: GPUs, or CPU processes, that share each batch, on each node.
        nodes: Machines that train together.
        precision: ``"32-true"``, ``"bf16-mixed"``, ``"16-mixed"`` or ``"64-true"``; losses are computed
            in at least float32 whatever it is.
        accumulate: Batches whose gradients make one optimizer step.
        micro_batch: Samples of a batch that each device encodes at a time; None: all.  The gradient is
            that of the whole batch, in the memory of a part and with twice the forward passes.
        clip: Largest norm of the gradient; None leaves it.
        compile: Whether networks and objective are compiled, or with which backend of torch.compile.
        channels_last: Whether images and filters lie with channels last in memory, as GPUs with tensor
            cores prefer in mixed precision.
        checkpoint_every: Epochs between checkpoints; one is always written at the end.
        checkpoint_every_steps: Optimizer steps between further ones; None: none.
        keep_last: Checkpoints that are kept.
        log_every: Optimizer steps between logged values.
        detect_anomaly: Whether every step's loss is looked at, and autograd names the operation that
            made a NaN; slow.

    Raises:
        TypeError: For a value of another type.
        ValueError: For one out of range, and for unknown optimizers, schedules and settings of these.
    """

    epochs: int = 100
    batch_size: int = 256
    seed: int = 0
    optimizer: Mapping[str, Any] = field(default_factory=lambda: {"name": "adamw"})
    schedule: Mapping[str, Any] = field(default_factory=lambda: {"name": "cosine"})
    warmup_epochs: float = 0.0
    workers: int | None = None
    devices: int = 1
    nodes: int = 1
    precision: str = "32-true"
    accumulate: int = 1
    micro_batch: int | None = None
    clip: float | None = None
    compile: bool | str = False
    channels_last: bool = False
    checkpoint_every: int = 10
    checkpoint_every_steps: int | None = None
    keep_last: int = 2
    log_every: int = 10
    detect_anomaly: bool = False

    def __post_init__(self) -> None:
        for name, least in _WHOLE.items():
            whole(name, getattr(self, name), least)
        for name, least in _WHOLE_OR_NONE.items():
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least)
        non_negative("warmup_epochs", number("warmup_epochs", self.warmup_epochs))
        if self.warmup_epochs > self.epochs:
            raise ValueError(
                f"warmup_epochs must not be above epochs, {self.epochs}, not {self.warmup_epochs!r}"
            )
        if self.clip is not None:
            positive("clip", number("clip", self.clip))
        for name in ("channels_last", "detect_anomaly"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be true or false, not {getattr(self, name)!r}")
        if not isinstance(self.compile, bool | str):
            raise TypeError(
                "compile must be true, false or the name of a backend of torch.compile, not"
                f" {self.compile!r}"
            )
        one_of("precision", self.precision, PRECISIONS)
        object.__setattr__(self, "optimizer", complete_optimizer(self.optimizer))
        object.__setattr__(self, "schedule", complete_schedule(self.schedule))

    @property
    def processes(self) -> int:
        """Processes that share each batch, one per device on every node."""
        return self.devices * self.nodes

    def to_dict(self) -> dict[str, Any]:
        """Every setting as plain data."""
        return asdict(self)
