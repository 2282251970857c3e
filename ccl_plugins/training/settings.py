"""The settings of training: the ``[fit]`` table of a configuration, checked and completed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from ccl_plugins.arguments import below_one, non_negative, number, one_of, positive, whole

PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "64-true")

_SHARED = {"lr_per": None, "decay": "matrices", "layer_decay": 1.0}

OPTIMIZERS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "adam": {"lr": 1e-3, "weight_decay": 0.0, **_SHARED},
        "adamw": {"lr": 3e-3, "weight_decay": 1e-4, **_SHARED},
        "sgd": {"lr": 0.06, "weight_decay": 5e-4, "momentum": 0.9, "nesterov": False, **_SHARED},
        "lars": {"lr": 0.3, "weight_decay": 1e-6, "momentum": 0.9, **_SHARED},
    }
)
"""The optimizers, and the defaults of their settings."""

SCHEDULES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "cosine": {"per": "step", "start": 0.0, "end": 0.0, "overlap": False, "reach_end": False},
        "step": {"per": "epoch", "start": 0.0, "milestones": [], "factor": 0.1},
        "constant": {"per": "step", "start": 0.0},
    }
)
"""The schedules of the learning rate, and the defaults of their settings."""

_CHOICES = {"decay": ("matrices", "all"), "per": ("step", "epoch")}

FROM_ZERO = ("seed", "workers")
"""The whole numbers that may be 0; the others are 1 or more."""

MOST_WORKERS = 1024
"""Processes that load: a mistyped number must not take the machine down."""


@dataclass(frozen=True)
class FitSettings:
    """The settings of ``pipeline.fit``.

    Args:
        epochs: Passes over the training set.
        batch_size: Samples in a *global* batch, over all devices.
        seed: The seed of sample order, augmentation and all other random numbers in training.
        optimizer: ``{"name": "adamw" | "adam" | "sgd" | "lars", "lr": ..., "weight_decay": ...}``, with
            ``"momentum"`` for sgd and lars and ``"nesterov"`` for sgd.  ``"lr_per": 256``: ``lr`` is for
            a step of 256 samples and scales linearly with their number.  ``"decay": "all"``: biases and
            norms decay too.  ``"layer_decay": 0.75``: each layer of the backbone has that factor of the
            next layer's rate.  `OPTIMIZERS` has the defaults.
        schedule: ``{"name": "cosine"}`` falls after the warm-up to ``"end"`` times the learning rate,
            ``"step"`` multiplies it by ``"factor"`` at each epoch of ``"milestones"``, and
            ``"constant"`` leaves it; ``"per": "epoch"`` changes it between epochs only.  The warm-up
            begins at ``"start"`` times the rate; with ``"overlap"`` the cosine spans the whole run and
            the warm-up limits it; with ``"reach_end"`` the last step, or epoch, has the end's rate.
        warmup_epochs: Epochs, or parts of one, in which the learning rate rises linearly.
        workers: Processes that load and augment; None chooses by machine and data.
        devices: GPUs, or CPU processes, that share each batch, on each node.
        nodes: Machines that train together.
        precision: ``"32-true"``, ``"bf16-mixed"``, ``"16-mixed"`` or ``"64-true"``; losses are always
            computed in at least float32.
        accumulate: Batches whose gradients make one optimizer step.
        micro_batch: Samples of a batch that each device encodes at a time; None: all.  The gradient is
            that of the whole batch, in the memory of a part and with twice the forward passes.
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
        ValueError: For a value out of range, and for unknown optimizers, schedules and their settings.
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
        for each in fields(self):
            name, value = each.name, getattr(self, each.name)
            if each.type == "bool":
                _check_bool(name, value)
            elif each.type == "int" or (each.type == "int | None" and value is not None):
                whole(name, value, 0 if name in FROM_ZERO else 1)
        if self.workers is not None and self.workers > MOST_WORKERS:
            raise ValueError(f"workers must be 0 to {MOST_WORKERS}, not {self.workers}")
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
        object.__setattr__(self, "optimizer", _complete_optimizer(self.optimizer))
        object.__setattr__(self, "schedule", _complete_schedule(self.schedule))

    @property
    def processes(self) -> int:
        """Processes that share each batch, one per device on every node."""
        return self.devices * self.nodes

    def to_dict(self) -> dict[str, Any]:
        """Every setting as plain data."""
        return asdict(self)


def _complete_optimizer(given: Any) -> dict[str, Any]:
    values = _complete("optimizer", given, OPTIMIZERS, 'name = "adamw", lr = 3e-3', "adamw")
    positive("optimizer lr", values["lr"])
    non_negative("optimizer weight_decay", values["weight_decay"])
    if "momentum" in values:
        below_one("optimizer momentum", values["momentum"])
    if values["lr_per"] is not None:
        whole("optimizer lr_per", values["lr_per"], 1)
    if not 0 < values["layer_decay"] <= 1:
        raise ValueError(
            f"optimizer layer_decay must be above 0 and at most 1, not {values['layer_decay']!r}"
        )
    if values.get("nesterov") and values["momentum"] == 0:
        raise ValueError("optimizer nesterov needs a momentum above 0")
    if values["name"] == "lars" and values["weight_decay"] == 0:
        raise ValueError(
            "optimizer weight_decay must be above 0 for lars, which scales the steps of those"
            " parameters only that decay: 1e-6 is usual"
        )
    return values


def _complete_schedule(given: Any) -> dict[str, Any]:
    values = _complete("schedule", given, SCHEDULES, 'name = "cosine", end = 0.001', "cosine")
    for key in ("start", "end", "factor"):
        if key in values:
            non_negative(f"schedule {key}", values[key])
    if values["name"] == "step":
        milestones = values["milestones"]
        if not isinstance(milestones, list | tuple) or not milestones:
            raise ValueError(
                f"schedule milestones must be epochs, as [120, 160], not {milestones!r}"
            )
        for each in milestones:
            whole("each of the schedule's milestones", each, 1)
        if sorted(set(milestones)) != list(milestones):
            raise ValueError(f"schedule milestones must rise, not {milestones!r}")
        values["milestones"] = list(milestones)
    return values


def _complete(
    table: str, given: Any, known: Mapping[str, Mapping[str, Any]], example: str, default: str
) -> dict[str, Any]:
    """A table with the defaults of the settings that are not given; names and types are checked."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{table} must be a table as {{{example}}}, not {given!r}")
    name = given.get("name", default)
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"there is no {table} {name!r}{_suggest(name, [*known])}")
    settings = known[name]
    for key in given:
        if key != "name" and key not in settings:
            raise ValueError(f"{name} has no setting {key!r}{_suggest(key, ['name', *settings])}")
    values = {k: given.get(k, v) for k, v in settings.items()}
    for key, value in settings.items():
        place = f"{table} {key}"
        if key in _CHOICES:
            one_of(place, values[key], _CHOICES[key])
        elif isinstance(value, bool):
            _check_bool(place, values[key])
        elif isinstance(value, float):
            values[key] = float(number(place, values[key]))
    return {"name": name, **values}


def _suggest(word: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(word), known, 1)
    return (f"; did you mean {near[0]!r}?" if near else "") + f" (there are {', '.join(known)})"


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false, not {value!r}")
