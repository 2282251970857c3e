"""The numbers of an objective: fixed, scheduled over training, or learned.

A constructor parameter of type `Scalar` takes a number, or a table that describes how the number
changes. ``{schedule = "cosine", start = 0.5, end = 0.1}`` goes from start to end over training;
with ``epochs = 30`` over the first 30 epochs (a warm-up); with ``period = 400`` to the end and back
every 400 epochs. ``{learn = true, start = 0.07}`` is learned; with ``lowest = 0.01`` never below
0.01, as in CLIP, whose scale 1 / temperature is at most 100.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import Checked, number, one_of, positive

if TYPE_CHECKING:
    Scalar: TypeAlias = Any  # it is set to one type and read as another, a float or a 0-d tensor
else:
    Scalar = float | Mapping[str, Any]
    """A number, or a table that describes how it is scheduled or learned."""

Check: TypeAlias = Callable[[str, float], float]
"""A range check of `ccl_plugins.arguments`."""

SCHEDULES = ("constant", "linear", "cosine")


class Scheduled(nn.Module):
    """A number that changes from ``start`` to ``end`` over training, or back and forth with a period.

    It is a buffer, because a compiled objective would be compiled anew for each value of a float.

    With a period of T epochs, after t epochs, ``"cosine"`` is
    ``start + (end - start) (1 - cos(2πt / T)) / 2``: the start at t = 0, T, 2T, ..., and the end half way
    between.  ``"linear"`` is a triangle with these corners.  t moves with every step, by a fraction of an
    epoch. In a loop of your own, t is the ``step`` given to ``progress``, unless `count_epochs`
    sets the steps of an epoch.

    Args:
        schedule: ``"linear"`` or ``"cosine"``.
        start: The first value.
        end: The last value, or the value at half of a period.
        period: T, in epochs, above 0; None: half a period over the whole training.
        epochs: The epochs after which the end is reached, above 0; None: all epochs, or half of a
            period.

    Source:
        Kukleva et al., Temperature Schedules for Self-Supervised Contrastive Methods on Long-Tail Data
        (2023): ``(τ₊ - τ₋) (1 + cos(2πt / T)) / 2 + τ₋`` with start τ₊ = 1, end τ₋ = 0.1 and T = 400.
        Derived from the paper. Its code has T / 2 as ``t_max``, counts epochs from 1, and changes τ
        only between epochs.
    """

    value: Tensor

    def __init__(
        self,
        schedule: str,
        start: float,
        end: float,
        period: float | None = None,
        epochs: float | None = None,
    ) -> None:
        super().__init__()
        self.schedule, self.start, self.end = schedule, start, end
        self.period, self.epochs = period, epochs
        self.steps_per_epoch: float = 1
        self.register_buffer("value", torch.tensor(float(start)))

    def forward(self) -> Tensor:
        """The current value, 0-d."""
        return self.value

    def progress(self, step: int, total: int) -> None:
        """Set the value for a step of the run, without waiting for the device."""
        passed = step / self.steps_per_epoch
        if self.period is not None:
            done = 1 - abs(1 - 2 * (passed / self.period % 1))
        else:
            done = min(passed / self.epochs if self.epochs else step / max(total - 1, 1), 1.0)
        if self.schedule == "cosine":
            done = (1 - math.cos(math.pi * done)) / 2
        self.value.fill_(self.start + (self.end - self.start) * done)

    def extra_repr(self) -> str:
        """The schedule, for printing."""
        times = "" if self.period is None else f" and back in {self.period} epochs"
        times = times if self.epochs is None else f" in {self.epochs} epochs"
        return f"{self.schedule}, {self.start} to {self.end}{times}"


class Learned(nn.Module):
    """A number above 0 whose logarithm is learned.

    Args:
        start: The first value.
        lowest: The least value, which leaves the gradient unchanged; None: any value above 0.
    """

    def __init__(self, start: float, lowest: float | None = None) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(float(start)).log())
        self.lowest = -math.inf if lowest is None else math.log(lowest)

    def forward(self) -> Tensor:
        """The current value, 0-d, with gradient."""
        return (self.log + (self.log.clamp_min(self.lowest) - self.log).detach()).exp()

    @torch.no_grad()
    def progress(self, step: int, total: int) -> None:
        """Raise the number to its bound if the last step took it below."""
        self.log.clamp_(min=self.lowest)


def read_scalar(
    name: str, given: Scalar | str | None, check: Check, learnable: bool = False
) -> float | Scheduled | Learned:
    """Read a `Scalar` and check its range; a scheduled one is checked at both ends."""
    if not isinstance(given, Mapping):
        return check(name, number(name, given))
    match dict(given):
        case {"schedule": str() as schedule, "start": start, **rest} if rest.keys() <= {
            "end",
            "period",
        } or rest.keys() <= {"end", "epochs"}:
            one_of(f"{name}.schedule", schedule, SCHEDULES)
            start = check(f"{name}.start", number(f"{name}.start", start))
            if (
                schedule == "constant"
                and rest.keys() <= {"end"}
                and rest.get("end", start) == start
            ):
                return start
            if schedule != "constant" and "end" in rest:
                end = check(f"{name}.end", number(f"{name}.end", rest["end"]))
                times = {
                    key: positive(f"{name}.{key}", number(f"{name}.{key}", rest[key]))
                    for key in ("period", "epochs")
                    if rest.get(key) is not None
                }
                return Scheduled(schedule, start, end, **times)
        case {"learn": bool() as learn, "start": start, **rest} if rest.keys() <= {"lowest"}:
            start = check(f"{name}.start", number(f"{name}.start", start))
            least = rest.get("lowest")
            if least is not None and not 0 < number(f"{name}.lowest", least) <= start:
                raise ValueError(
                    f"{name}.lowest must be above 0 and at most the start, {start!r}, not {least!r}"
                )
            if learn and not learnable:
                raise ValueError(f"{name} cannot be learned: give a number or a schedule")
            return Learned(start, least) if learn else start
    raise TypeError(
        f'{name} must be a number, {{schedule = "linear" or "cosine", start = ..., end = ...'
        f"{', period = EPOCHS' if 'period' in given else ''}"
        f"{', epochs = EPOCHS' if 'epochs' in given and 'period' not in given else ''}}}"
        f"{' or {learn = true, start = ...}' if learnable else ''}, not {given!r}"
    )


def lowest(objective: nn.Module, name: str) -> float:
    """The least value of a number; of a learned number, its start."""
    held: Any = getattr(objective, f"_{name}")
    match held:
        case Scheduled():
            return min(held.start, held.end)
        case Learned():
            return held().item()
    return float(held)


class ScalarAttribute(Checked):
    """An attribute of an objective that is set to a `Scalar` and read as a float or a 0-d tensor.

    A field of a dataclass, ``temperature: Scalar = ScalarAttribute(positive, default=0.5)``, or, without a
    default, ``temperature = ScalarAttribute(positive)``, which a constructor sets.

    Args:
        check: Checks the range.
        default: The default of a field; None also allows None.
        learnable: Whether the number may be learned.
        words: Words that may be given instead of a number.
    """

    def __init__(
        self,
        check: Check,
        *,
        default: Scalar | None = MISSING,
        learnable: bool = False,
        words: Sequence[str] = (),
    ) -> None:
        super().__init__(check, default=default)
        self.learnable, self.words = learnable, words

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        self.held = f"_{name}"  # what changes is a member of the module, under this name

    def __get__(self, objective: nn.Module | None, owner: type | None = None) -> Any:
        if objective is None:
            return super().__get__(None, owner)
        held = getattr(objective, self.held)
        return held() if isinstance(held, nn.Module) else held

    def __set__(self, objective: nn.Module, given: Scalar | str | None) -> None:
        held: Any = given
        if isinstance(given, str) and self.words:
            one_of(self.name, given, self.words)
        elif given is not None or self.default is not None:
            held = read_scalar(self.name, given, self.check, self.learnable)
        if self.held in objective._modules:
            delattr(objective, self.held)  # a fixed number replaces one that changed
        setattr(objective, self.held, held)


def changing(objective: nn.Module) -> dict[str, Scheduled | Learned]:
    """The scheduled and learned numbers of an objective, by parameter; not those of its members."""
    children = objective.named_children()
    return {n.lstrip("_"): c for n, c in children if isinstance(c, Scheduled | Learned)}


def progress(objective: nn.Module, step: int, total: int) -> None:
    """Set the scheduled numbers of any module, as `ContrastiveObjective.progress` does."""
    for scalar in changing(objective).values():
        scalar.progress(step, total)


def count_epochs(objective: nn.Module, steps_per_epoch: float) -> None:
    """Tell the schedules of an objective, and of objectives within it, how many steps an epoch has.

    A schedule with a period counts epochs; training calls this once.
    """
    for module in objective.modules():
        if isinstance(module, Scheduled):
            module.steps_per_epoch = steps_per_epoch
