"""The base of every objective: a weighted mean of terms, on pairs or on raw embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins.arguments import finite
from ccl_plugins.numerics.logsumexp import at_least_float32, gather
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute, changing, progress
from ccl_plugins.pairs.pairs import Pairs, in_batch
from ccl_plugins.protocols import Kernel, ValueType


def read_views(objective: ContrastiveObjective, views: tuple[Tensor, ...]) -> Tensor:
    """Two or more (b, d) embeddings as one (u, b, d)."""
    name = type(objective).__name__
    if len(views) < objective.min_views:
        raise ValueError(f"{name} needs at least {objective.min_views} views, not {len(views)}")
    shapes = [tuple(v.shape) for v in views]
    if len(set(shapes)) > 1 or len(shapes[0]) != 2:
        raise ValueError(f"the views must be (b, d) embeddings of one shape, not {shapes}")
    if others := [view.dtype for view in views if not view.is_floating_point()]:
        raise TypeError(f"the views must be embeddings of floats, not {others[0]}")
    if shapes[0][0] < 2 <= objective.min_views:  # with a single view nothing is compared
        raise ValueError(f"{name} compares samples: a batch needs at least 2, not {shapes[0][0]}")
    for number, view in enumerate(views):
        _refuse_non_finite(f"view {number}", view)
    return torch.stack(views)


def read_condition(
    objective: ContrastiveObjective,
    condition: Tensor | tuple[Tensor, ...] | Mapping[str, Tensor] | None,
    views: Tensor,
) -> dict[str, Tensor]:
    """What was given as ``condition``, by the names that the objective reads."""
    name, wanted = type(objective).__name__, objective.conditions
    if condition is None:
        if wanted:
            raise TypeError(
                f"{name} needs a condition ({_accepted(wanted)}): call it with condition=..."
            )
        return {}
    if not wanted:
        raise TypeError(f"{name} reads no condition, but condition= was given")
    named: Mapping[str, object] = condition if isinstance(condition, Mapping) else {}
    if not isinstance(condition, Mapping):
        if len(wanted) > 1:
            raise TypeError(
                f"{name} reads several conditions ({_accepted(wanted)}): give them by name,"
                " condition={...}"
            )
        named = {next(iter(wanted)): condition}
    if missing := [key for key in wanted if key not in named]:
        raise TypeError(f"{name} reads the condition {missing[0]!r}, but got {sorted(named)}")
    if unread := [key for key in named if key not in wanted]:
        raise TypeError(f"{name} reads {_accepted(wanted)}, and not the condition {unread[0]!r}")
    return {key: _values(name, key, named[key], wanted[key], views) for key in wanted}


def read_exclude(exclude: Exclude) -> tuple[Kernel, Scalar, str]:
    """Kernel, threshold and condition name of what was given as ``exclude``."""
    match exclude:
        case (kernel, int() | float() | Mapping() as threshold) if callable(kernel):
            return kernel, threshold, "condition"
        case (kernel, int() | float() | Mapping() as threshold, str() as on) if callable(kernel):
            return kernel, threshold, on
    raise TypeError(
        "exclude must be (kernel, threshold) or (kernel, threshold, name of a condition),"
        f" not {exclude!r}"
    )


def _values(name: str, key: str, z: object, accepted: object, views: Tensor) -> Tensor:
    if isinstance(z, tuple | list):
        if len(z) != len(views):
            raise ValueError(
                f"{key} has {len(z)} tensors for {len(views)} views: give one per view"
            )
        parts = [_values(name, key, part, accepted, views) for part in z]
        if parts[0].ndim != 2:
            raise ValueError(f"{key} given per view must be (b, c), not {tuple(parts[0].shape)}")
        return torch.stack(parts)
    if not isinstance(z, Tensor):
        raise TypeError(f"{key} must be a tensor, not {type(z).__name__}")
    if z.ndim not in (1, 2) or z.shape[0] != views.shape[1]:
        raise ValueError(
            f"{key} must have one row per sample, (b,) or (b, c) with b = {views.shape[1]},"
            f" not {tuple(z.shape)}"
        )
    if value_type_of(z) not in accepted:  # type: ignore[operator]  # a sequence of value types
        raise TypeError(
            f"{name} needs a {_or(accepted)} condition, but {key} is {value_type_of(z)}"
            f" ({z.dtype}, {tuple(z.shape)})"
        )
    _refuse_missing(key, z)
    return z


def value_type_of(z: Tensor) -> ValueType:
    """What a tensor without a name holds: integers in one dimension are class ids.

    Bool and uint8 columns are 0/1 attributes; floats are continuous, which every objective that takes
    attributes takes too.
    """
    if z.dtype.is_floating_point:
        return "continuous"
    return "multi_label" if z.ndim == 2 and z.dtype in (torch.bool, torch.uint8) else "categorical"


def _refuse_missing(key: str, z: Tensor) -> None:
    if z.dtype.is_floating_point:
        _refuse_non_finite(key, z)
    elif not torch.compiler.is_compiling():
        way_out = "; ids begin at 0, and -1 is a missing one: leave these samples out"
        _refuse_rows(f"{key} holds class ids below 0", z.reshape(len(z), -1) < 0, way_out)


def _refuse_non_finite(what: str, x: Tensor) -> None:
    if not torch.compiler.is_compiling():
        _refuse_rows(f"{what} holds NaN or inf", ~x.detach().isfinite().reshape(len(x), -1))


def _refuse_rows(what: str, entries: Tensor, way_out: str = "") -> None:
    """An error that numbers the rows of (b, ·) in which an entry is True; it waits for the device."""
    found = entries.any(1)
    if found.any():
        rows = found.nonzero().flatten().tolist()
        raise ValueError(
            f"{what} in {len(rows)} of {len(found)} rows: {rows[:8]}"
            f"{'...' if len(rows) > 8 else ''}{way_out}"
        )


def _accepted(wanted: Mapping[str, object]) -> str:
    return "; ".join(f"{key}: {_or(value_types)}" for key, value_types in wanted.items())


def _or(value_types: object) -> str:
    return " or ".join(value_types)  # type: ignore[arg-type]  # a sequence of value types


Exclude: TypeAlias = tuple[Kernel, Scalar] | tuple[Kernel, Scalar, str]
"""Likely false negatives: kernel, threshold and the condition they are read from."""


class ContrastiveObjective(nn.Module):
    """A loss that is a weighted mean over anchors.

    A subclass writes ``terms``.  ``loss(pairs)`` takes what a method built; calling the objective
    takes raw embeddings, as lightly's losses do: ``objective(z0, z1, condition=z)``.  A parameter or
    buffer that only ``setup(tables)`` can size is registered as None: ``register_parameter(name, None)``.

    Args:
        exclude: Likely false negatives, ``(kernel, threshold)`` or with the name of a condition as
            third, ``"condition"`` if none is given: another sample whose similarity to the anchor is
            at or above the threshold is no negative.  It may still be a positive.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Raises:
        TypeError: For an ``exclude`` of another form.

    Source:
        Huynh et al., Boosting Contrastive Self-Supervised Learning with False Negative Cancellation
        (2022), for ``exclude``.
    """

    within_view: bool = False
    """Whether keys of an anchor's own view are compared with it."""
    min_views: int = 2
    embedding: Literal["sphere", "raw"] = "sphere"
    """Whether embeddings come L2-normalized."""
    distributed: Literal["mean", "replicated"] = "mean"
    """``"mean"``: each process has the terms of its own anchors; ``"replicated"``: all have all."""
    hierarchies: bool = False
    """Whether a categorical condition may have several class ids per sample, (b, L)."""
    exclude_threshold = ScalarAttribute(finite, optional=True)

    def __init__(self, *, exclude: Exclude | None = None, gather_distributed: bool = False) -> None:
        super().__init__()
        self.exclude = None if exclude is None else read_exclude(exclude)
        self.exclude_threshold = None if self.exclude is None else self.exclude[1]
        self.gather_distributed = gather_distributed

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """The conditions this objective reads, and the value types it accepts for each."""
        return self.and_excluded({})

    def and_excluded(
        self, conditions: Mapping[str, Sequence[ValueType]]
    ) -> Mapping[str, Sequence[ValueType]]:
        """A subclass's own conditions, and the one that ``exclude`` reads.

        A method and no ``super().conditions``, which does not compile.
        """
        if self.exclude is None:
            return conditions
        return {self.exclude[2]: ("categorical", "multi_label", "continuous"), **conditions}

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        # What ``setup`` gives its size is None until then, and takes the size that was saved.
        for held in (self._parameters, self._buffers):
            for name in [name for name, tensor in held.items() if tensor is None]:
                if (saved := state_dict.get(f"{prefix}{name}")) is not None:
                    empty = torch.empty_like(saved)
                    setattr(self, name, nn.Parameter(empty) if held is self._parameters else empty)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def progress(self, step: int, total: int) -> None:
        """Bring the scheduled numbers to where training is; called before each step.

        Args:
            step: Optimizer steps taken before.
            total: Those of the whole run; its last step has the schedules' ends.
        """
        progress(self, step, total)

    def scalars(self) -> dict[str, Tensor]:
        """The current values of the numbers that are scheduled or learned, 0-d, by name."""
        return {name: scalar().detach() for name, scalar in changing(self).items()}

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Values and weights, both (rows, n): anchor views or pairs of views, by anchor samples.

        A row entry of weight 0 does not count; its value must be finite.
        """
        raise NotImplementedError(f"{type(self).__name__} must define terms(pairs)")

    def loss(self, pairs: Pairs) -> Tensor:
        """The weighted mean of the terms of all processes' anchors.

        Each process returns its share times the number of processes, so that the mean of gradients
        that DistributedDataParallel takes is the gradient of the whole mean.  Values are not looked
        at: this compiles without graph breaks and without waiting for the device.  Autocast ends here.
        """
        with torch.autocast(pairs.anchors.device.type, enabled=False):
            return self._mean(pairs, *self.terms(self._seen(pairs)))

    def _seen(self, pairs: Pairs) -> Pairs:
        """What this process takes the terms of: all anchors or its own, less what is excluded."""
        pairs = pairs if self.distributed == "mean" else pairs.replicated()
        if self.exclude is None:
            return pairs
        (kernel, _, on), threshold = self.exclude, self.exclude_threshold
        views = range(len(pairs.condition[on])) if pairs.condition[on].ndim == 3 else range(1)
        with torch.no_grad():
            values = [pairs.everyone(on, i) for i in views]
            alike = [kernel(z[pairs.rows], z) >= threshold for z in values]
        return pairs.excluding(torch.stack(alike).any(0))

    def _mean(self, pairs: Pairs, values: Tensor, weights: Tensor) -> Tensor:
        total = weights.detach().sum()
        share = 1
        if pairs.processes > 1 and self.distributed == "mean":
            total, share = gather(total[None]).sum(), pairs.processes
        return (values * weights).sum() * share / total.clamp_min(torch.finfo(total.dtype).tiny)

    def forward(
        self,
        *views: Tensor,
        condition: Tensor | tuple[Tensor, ...] | Mapping[str, Tensor] | None = None,
        index: Tensor | None = None,
        extras: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """The loss of raw embeddings.

        Args:
            views: Two or more (b, d) embeddings, not normalized; row i of each is one sample.
            condition: (b,) or (b, c) values, a tuple with one such tensor per view, or a mapping of
                names for an objective that reads several.
            index: (b,) dataset indices, for an objective that remembers samples.
            extras: Further tensors by name, ``"<condition>/<name>"``, for one that reads them.

        Raises:
            TypeError: A condition that is not read, none where one is, or one of another value type.
            ValueError: Shapes that do not fit, too few views, NaN or inf, class ids below 0; anchors
                for which the loss is undefined, by row.
        """
        stacked = read_views(self, views)
        values = read_condition(self, condition, stacked)
        if not torch.compiler.is_compiling():
            self.check_condition(values)
        with torch.autocast(stacked.device.type, enabled=False):
            stacked = at_least_float32(stacked)
            if self.embedding == "sphere":
                stacked = functional.normalize(stacked, dim=-1)
            gathered = self.gather_distributed
            pairs = in_batch(stacked, values, index, extras=extras, gather_distributed=gathered)
            return self.loss(pairs) if torch.compiler.is_compiling() else self.defined_loss(pairs)

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Raise ValueError for values that a subclass cannot take, of those given in a call."""

    def defined_loss(self, pairs: Pairs) -> Tensor:
        """As ``loss``, and an error where it is undefined, which waits for the device.

        Raises:
            ValueError: Naming the anchors.
        """
        terms, weights = self.terms(self._seen(pairs))
        self._refuse_undefined(terms)
        return self._mean(pairs, terms, weights)

    def refuse_draws(self, pairs: Pairs) -> None:
        """An error for explicit negatives, where an objective weighs all samples there are."""
        if pairs.draws is not None:
            raise ValueError(
                f"{type(self).__name__} compares an anchor with all samples of batch and queue, so it"
                " cannot take explicit draws: use infonce, or bring masks (Pairs.from_masks)"
            )

    def _refuse_undefined(self, terms: Tensor) -> None:
        finite = terms.detach().isfinite()
        if not finite.all():
            rows = (~finite).reshape(-1, terms.shape[-1]).any(0).nonzero().flatten().tolist()
            raise ValueError(
                f"{type(self).__name__} is undefined for {len(rows)} of {terms.shape[-1]} anchors:"
                f" rows {rows[:8]}{'...' if len(rows) > 8 else ''}{self.undefined_hint()}"
            )

    def undefined_hint(self) -> str:
        """What to do where a loss is undefined, as the end of a sentence."""
        return ""


def own_terms(objective: Any, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """An objective's terms as its loss takes them, of the anchors of this process.

    Where the objective gathers, all processes must ask at once.
    """
    seen = objective._seen(pairs) if isinstance(objective, ContrastiveObjective) else pairs
    with torch.autocast(pairs.anchors.device.type, enabled=False):
        values, weights = objective.terms(seen)
    if values.shape[-1] == pairs.anchors.shape[1]:
        return values, weights
    return values[:, pairs.rows], weights[:, pairs.rows]
