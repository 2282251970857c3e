"""The settings of training: the ``[fit]`` table of a configuration, checked and completed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ccl_plugins.arguments import MOST, fraction, non_negative, one_of, positive, whole

if TYPE_CHECKING:  # not at run time: `ccl train --help` reads the settings without torch
    from ccl_plugins.protocols import Length, Optimizer, Schedule

PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "64-true")

DECAY = ("matrices", "all")

MATMUL = ("highest", "high", "medium")

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""The modes of inductor, torch.compile's backend."""


def _setting(
    default: Any,
    check: Callable[[str, Any], object],
    range: str,
    read: type = float,
    free: bool = False,
    more: str = "",
) -> Any:
    """A setting with its facts, in the metadata of its field.

    The constructor's check, the rule for a resume, the options of ``ccl train`` and the page of the
    configuration are derived from these facts.

    Args:
        default: Its default; if that is None, None is allowed too.
        check: Called with its name and a value; refuses a wrong value.
        range: The range in words, for pages.
        read: Converts a word of the command line; bool: an option without a word, which means true.
        free: Whether it may change when a run is resumed, because it does not affect the result.
        more: What the setting counts ("epochs", "steps"), if it may grow when a run is resumed.
    """
    known = {"check": check, "range": range, "read": read, "free": free, "more": more}
    return field(default=default, metadata=known)


def _whole(
    default: int | None, least: int = 1, most: int = MOST, range: str = "", **more: Any
) -> Any:
    check = functools.partial(whole, least=least, most=most)
    return _setting(default, check, range or f"{least} or more", int, **more)


def _word(default: str, words: Sequence[str]) -> Any:
    check = functools.partial(one_of, choices=words)
    return _setting(default, check, ", ".join(f'`"{word}"`' for word in words), str)


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false, not {value!r}")


def _check_compile(name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        if [*value] != ["mode"]:
            raise TypeError(
                f'{name} takes one key, such as {{mode = "reduce-overhead"}}, not {value!r}'
            )
        one_of(f"mode of {name}", value["mode"], MODES)
    elif not isinstance(value, bool | str):
        raise TypeError(
            f"{name} must be true, false, the name of a backend of torch.compile, or a table with a mode"
            f" of inductor, not {value!r}"
        )


def _switch(**more: Any) -> Any:
    return _setting(False, _check_bool, "true, false", bool, **more)


def _adamw() -> Optimizer:
    from ccl_plugins.optimizers import AdamW  # late: it imports torch

    return AdamW()


def _cosine() -> Schedule:
    from ccl_plugins.schedules import Cosine  # late: it imports torch

    return Cosine()


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
        lr_per: The number of samples in a step that the optimizer's ``lr`` is for. The rate is
            scaled linearly: with 256, a step of 512 samples has twice the rate; None: no scaling.
        decay: ``"matrices"``: biases, norms and parameters that the backbone names have no weight decay;
            ``"all"``: all parameters of the method have it.
        layer_decay: The learning rate of each layer of the backbone is that of the next layer, multiplied
            by this factor.
        warmup_epochs: Epochs, or parts of one, in which the learning rate rises linearly.
        workers: Processes that load and augment; None chooses by machine and data.
        devices: GPUs, or CPU processes, that share each batch, on each node.
        nodes: Machines that train together.
        precision: ``"32-true"``, ``"bf16-mixed"``, ``"16-mixed"`` (on a CPU ``"bf16-mixed"`` is
            used instead) or ``"64-true"``; losses are always computed in at least float32.
        accumulate: The number of batches whose mean gradient makes one optimizer step, at most the batches
            of an epoch; the last step of an epoch may have fewer.
        micro_batch: Samples of a batch that each device encodes at a time; None: all.  The gradient stays
            that of the whole batch; it needs less memory and twice the forward passes.
        anchors_at_once: Anchors that each device compares with all keys at a time; None: all.  The loss
            and its gradient stay the same; they need less memory.
        clip: Largest norm of the gradient; None: no limit.
        compile: Whether networks and objective are compiled; or the name of a backend of torch.compile, or
            a mode of inductor, ``{mode = "reduce-overhead"}``.
        matmul_precision: The precision of float32 products on a GPU, also in losses: ``"highest"``,
            ``"high"`` (TF32) or ``"medium"`` (bfloat16); None: torch's setting, by default ``"highest"``.
        cudnn_benchmark: Whether cuDNN tries its algorithms for each new shape and takes the
            fastest, which may differ from run to run.
        channels_last: Whether images and filters are stored with channels last, which is faster on
            GPUs with tensor cores in mixed precision.
        checkpoint_every: Epochs between checkpoints; one is always written at the end.
        checkpoint_every_steps: Optimizer steps between further checkpoints; None: no further ones.
        keep_last: The number of checkpoints that are kept.
        log_every: Optimizer steps between logged values.
        detect_anomaly: Whether every step's loss is checked and autograd names the operation that
            made a NaN; slow.

    Raises:
        TypeError: For a value of another type.
        ValueError: For a value out of range.
    """

    epochs: int = _whole(100, more="epochs")
    batch_size: int = _whole(
        256, range="1 or more, a multiple of `devices * nodes`; at most the training samples"
    )
    seed: int = _whole(0, 0, 2**63 - 1)
    optimizer: Optimizer = field(default_factory=_adamw, metadata={"component": "adamw"})
    schedule: Schedule = field(default_factory=_cosine, metadata={"component": "cosine"})
    lr_per: int | None = _whole(None)
    decay: str = _word("matrices", DECAY)
    layer_decay: float = _setting(1.0, fraction, "above 0, at most 1")
    warmup_epochs: float = _setting(0.0, non_negative, "0 to `epochs`")
    # A mistyped number of processes must not take the machine down.
    workers: int | None = _whole(None, 0, 1024, free=True)
    devices: int = _whole(1, most=1024)
    nodes: int = _whole(1, most=1024)
    precision: str = _word("32-true", PRECISIONS)
    accumulate: int = _whole(1)
    micro_batch: int | None = _whole(None)
    anchors_at_once: int | None = _whole(None)
    clip: float | None = _setting(None, positive, "above 0")
    compile: bool | str | Mapping[str, str] = _setting(
        False,
        _check_compile,
        'true, false, the name of a backend of `torch.compile`, or `{mode = "reduce-overhead"}`',
        bool,
    )
    matmul_precision: str | None = _setting(
        None,
        functools.partial(one_of, choices=MATMUL),
        ", ".join(f'`"{word}"`' for word in MATMUL),
        str,
    )
    cudnn_benchmark: bool = _switch()
    channels_last: bool = _switch()
    checkpoint_every: int = _whole(10, free=True)
    checkpoint_every_steps: int | None = _whole(None, free=True)
    keep_last: int = _whole(2, free=True)
    log_every: int = _whole(10, free=True)
    detect_anomaly: bool = _switch(free=True)
    max_steps: int | None = _whole(None, more="steps")

    def __post_init__(self) -> None:
        for setting in PLAIN:
            value = getattr(self, setting.name)
            if not (value is None and setting.default is None):
                setting.metadata["check"](setting.name, value)
        if self.warmup_epochs > self.epochs:
            raise ValueError(
                f"warmup_epochs must not be above epochs, {self.epochs}, not {self.warmup_epochs!r}"
            )

    def length(self, batches: int) -> Length:
        """The length of a run whose epochs have the given number of batches."""
        from ccl_plugins.protocols import Length  # late: it imports torch

        steps = -(-batches // self.accumulate)
        lacking = steps * self.accumulate - batches
        return Length(
            self.epochs, steps, self.warmup_epochs, self.max_steps, self.accumulate, lacking
        )

    def check_accumulate(self, batches: int) -> None:
        """Refuse an optimizer step of more batches than an epoch has.

        Such a step would be smaller than the one that `lr_per` scales the rate for.

        Raises:
            ValueError: For such a step; the message has both numbers.
        """
        if self.accumulate > batches:
            raise ValueError(
                f"accumulate must be 1 to {batches}, not {self.accumulate}: an epoch has {batches} batches"
                f" of batch_size {self.batch_size}, and an optimizer step none of the next epoch"
            )

    @property
    def compilation(self) -> dict[str, str] | None:
        """The options of torch.compile; None: nothing is compiled.

        Raises:
            ValueError: For a backend that torch does not have.
        """
        if self.compile is False:
            return None
        if isinstance(self.compile, Mapping):
            return dict(self.compile)
        import torch  # late: `ccl train --help` reads the settings without torch

        backend = "inductor" if self.compile is True else self.compile
        if backend not in torch.compiler.list_backends(exclude_tags=()):
            usual = ", ".join(torch.compiler.list_backends())
            raise ValueError(f"torch.compile has no backend {backend!r}; it has {usual}")
        return {"backend": backend}

    @property
    def processes(self) -> int:
        """Processes that share each batch, one per device on every node."""
        return self.devices * self.nodes

    def to_dict(self) -> dict[str, Any]:
        """Every setting but optimizer and schedule, as plain data."""
        return {each.name: getattr(self, each.name) for each in PLAIN}


PLAIN = [each for each in fields(FitSettings) if "check" in each.metadata]
"""The fields of the settings that are numbers, words and switches."""

COMPONENTS = {
    each.name: each.metadata["component"] for each in fields(FitSettings) if each not in PLAIN
}
"""The settings that are components, by kind, with the names of their defaults."""
