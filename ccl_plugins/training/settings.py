"""The settings of training: the ``[fit]`` table of a configuration, checked and completed."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from ccl_plugins.arguments import MOST, fraction, non_negative, number, one_of, positive, whole
from ccl_plugins.optimizers import AdamW
from ccl_plugins.protocols import Optimizer, Schedule
from ccl_plugins.schedules import Cosine

PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "64-true")

COMPONENTS = ("optimizer", "schedule")
"""The settings that are components, by kind."""

DECAY = ("matrices", "all")

FROM_ZERO = ("seed", "workers")
"""The whole numbers that may be 0; the others are 1 or more."""

LARGEST = {"workers": 1024, "devices": 1024, "nodes": 1024, "seed": 2**63 - 1}
"""The largest whole numbers: a mistyped one must not take the machine down; of the others `MOST`."""


@dataclass(frozen=True)
class FitSettings:
    """The settings of ``pipeline.fit``.

    Args:
        epochs: Passes over the training set.
        max_steps: Optimizer steps at which training ends, if that is before the end of the epochs; None: at
            their end.
        batch_size: Samples in a *global* batch, over all devices.
        seed: The seed of sample order, augmentation and all other random numbers in training.
        optimizer: How gradients change the parameters, a `ccl_plugins.protocols.Optimizer`.
        schedule: How the learning rate changes, a `ccl_plugins.protocols.Schedule`.
        lr_per: The samples in a step that the optimizer's ``lr`` is for: it scales linearly with their
            number, and with 256 a step of 512 has twice the rate; None: it does not scale.
        decay: ``"matrices"``: biases, norms and what the backbone names have no weight decay; ``"all"``:
            all parameters of the method decay.
        layer_decay: Each layer of the backbone has this factor of the next layer's learning rate.
        warmup_epochs: Epochs, or parts of one, in which the learning rate rises linearly.
        workers: Processes that load and augment; None chooses by machine and data.
        devices: GPUs, or CPU processes, that share each batch, on each node.
        nodes: Machines that train together.
        precision: ``"32-true"``, ``"bf16-mixed"``, ``"16-mixed"`` or ``"64-true"``; losses are always
            computed in at least float32.
        accumulate: Batches whose gradients make one optimizer step, by their mean, at most those of an
            epoch; the last step of an epoch may have fewer.
        micro_batch: Samples of a batch that each device encodes at a time; None: all.  The gradient is
            that of the whole batch, in the memory of a part and with twice the forward passes.
        anchors_at_once: Anchors that each device compares with all keys at a time; None: all.  The loss
            and its gradient are the same, in the memory of a part.
        clip: Largest norm of the gradient; None: no limit.
        compile: Whether networks and objective are compiled, or the backend of torch.compile.
        channels_last: Whether images and filters are stored with channels last, as GPUs with tensor
            cores prefer in mixed precision.
        checkpoint_every: Epochs between checkpoints; one is always written at the end.
        checkpoint_every_steps: Optimizer steps between further ones; None: none.
        keep_last: Checkpoints that are kept.
        log_every: Optimizer steps between logged values.
        detect_anomaly: Whether every step's loss is checked and autograd names the operation that
            made a NaN; slow.

    Raises:
        TypeError: For a value of another type.
        ValueError: For a value out of range.
    """

    epochs: int = 100
    batch_size: int = 256
    seed: int = 0
    optimizer: Optimizer = field(default_factory=AdamW)
    schedule: Schedule = field(default_factory=Cosine)
    lr_per: int | None = None
    decay: str = "matrices"
    layer_decay: float = 1.0
    warmup_epochs: float = 0.0
    workers: int | None = None
    devices: int = 1
    nodes: int = 1
    precision: str = "32-true"
    accumulate: int = 1
    micro_batch: int | None = None
    anchors_at_once: int | None = None
    clip: float | None = None
    compile: bool | str = False
    channels_last: bool = False
    checkpoint_every: int = 10
    checkpoint_every_steps: int | None = None
    keep_last: int = 2
    log_every: int = 10
    detect_anomaly: bool = False
    max_steps: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            name, value = each.name, getattr(self, each.name)
            if each.type == "bool":
                _check_bool(name, value)
            elif each.type == "int" or (each.type == "int | None" and value is not None):
                whole(name, value, int(name not in FROM_ZERO), LARGEST.get(name, MOST))
        non_negative("warmup_epochs", number("warmup_epochs", self.warmup_epochs))
        if self.warmup_epochs > self.epochs:
            raise ValueError(
                f"warmup_epochs must not be above epochs, {self.epochs}, not {self.warmup_epochs!r}"
            )
        if self.clip is not None:
            positive("clip", number("clip", self.clip))
        if not isinstance(self.compile, bool | str):
            raise TypeError(
                "compile must be true, false or the name of a backend of torch.compile, not"
                f" {self.compile!r}"
            )
        one_of("precision", self.precision, PRECISIONS)
        one_of("decay", self.decay, DECAY)
        fraction("layer_decay", number("layer_decay", self.layer_decay))

    def check_accumulate(self, batches: int) -> None:
        """Refuse an optimizer step of more batches than an epoch has: it would never have so many.

        The rate that `lr_per` scales would be that of a larger step.

        Raises:
            ValueError: Naming both numbers.
        """
        if self.accumulate > batches:
            raise ValueError(
                f"accumulate must be 1 to {batches}, not {self.accumulate}: an epoch has {batches} batches"
                f" of batch_size {self.batch_size}, and an optimizer step none of the next epoch"
            )

    @property
    def processes(self) -> int:
        """Processes that share each batch, one per device on every node."""
        return self.devices * self.nodes

    def to_dict(self) -> dict[str, Any]:
        """Every setting but optimizer and schedule, as plain data."""
        plain = (each.name for each in fields(self) if each.name not in COMPONENTS)
        return {name: getattr(self, name) for name in plain}


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false, not {value!r}")
