"""The base class of objectives: a weighted mean of terms, of pairs or of raw embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from inspect import signature
from typing import Any, ClassVar, Literal, Self, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ccl_plugins.arguments import Checked, finite, one_of, whole
from ccl_plugins.numerics.condition_values import fill_missing, missing_samples
from ccl_plugins.numerics.distributed import gather, require_equal_batches
from ccl_plugins.numerics.joint import Joint, of_one_tensor
from ccl_plugins.numerics.kernel_functions import conditions_of_kernel, similarities
from ccl_plugins.numerics.precision import at_least_float32, unit
from ccl_plugins.numerics.second_derivatives import differentiable_once
from ccl_plugins.objectives.inputs import (
    Given,
    Questions,
    Wanted,
    all_finite,
    count,
    read_condition,
    stack_features,
    stack_views,
)
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute, changing, progress
from ccl_plugins.pairs.pairs import Pairs, in_batch
from ccl_plugins.pairs.patches import PatchScores
from ccl_plugins.pairs.samples import Samples
from ccl_plugins.protocols import VALUE_TYPES, Kernel, ObjectiveTraits, ValueType, trait

Exclude: TypeAlias = tuple[Kernel, Scalar] | tuple[Kernel, Scalar, str]
"""Likely false negatives: a kernel, a threshold and the name of the condition that the kernel reads.

The name is left out if the kernel itself names its conditions.
"""


class KernelAttribute(Checked):
    """An attribute of an objective that is set to a kernel, or to None.

    A kernel that names its conditions becomes a kernel of their packed values.
    """

    def __init__(self, *, default: Any = MISSING) -> None:
        super().__init__(lambda _, kernel: of_one_tensor(kernel), default=default)

    def __get__(self, objective: nn.Module | None, owner: type | None = None) -> Any:
        if objective is None:
            return super().__get__(None, owner)
        held = objective.__dict__.get("kernel")
        if held is None and (module := objective._modules.get("kernel")) is not None:
            held = of_one_tensor(module)  # nn.Module holds a kernel that is a module itself
            objective.__dict__["kernel"] = held
        return held


def optional_kernel() -> Any:
    """The field ``kernel`` of an objective that has a kernel of its own for None, the default."""
    return KernelAttribute(default=None)


class Module(nn.Module):
    """A module that is initialized before its constructor runs, so that fields may be assigned first."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """A module without parameters, buffers or members."""
        module = super().__new__(cls)
        super(Module, module).__init__()
        return module


@dataclass(eq=False, repr=False, kw_only=True)
class Settings(Module):
    """The parameters of every objective on pairs, documented after the objective's own."""

    exclude: Exclude | None = None
    gather_distributed: bool = False
    exclude_threshold = ScalarAttribute(finite, default=None)

    def __post_init__(self) -> None:
        """Check the parameters together; a subclass that overrides this method calls it first."""
        self.excluded = None if self.exclude is None else read_exclude(self.exclude)
        self.exclude_threshold = None if self.excluded is None else self.excluded[1]


class ContrastiveObjective(Settings, ObjectiveTraits):
    """A loss that is a weighted mean over anchors.

    A subclass defines ``terms``, and ``value_types`` if it reads the condition named by ``on``; or
    ``reads()``, if it reads several.
    ``loss(pairs)`` takes the pairs that a method built; calling the objective takes raw embeddings, as
    lightly's losses do: ``objective(z0, z1, condition=z)``.  A parameter or buffer whose size is known
    only in ``setup(tables, sizes)`` is registered as None: ``register_parameter(name, None)``.

    A subclass documents only the constructor arguments that it adds; the reference and ``ccl info``
    take the other arguments from this docstring.

    Args:
        exclude: Likely false negatives: ``(kernel, threshold)``, or ``(kernel, threshold, name)`` with
            the name of the condition that the kernel reads, by default ``"condition"``. Other
            samples whose similarity to the anchor is at or above the threshold are not negatives.
            They may still be positives.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes,
            each of which must have as many.

    Args of subclasses:
        temperature: τ, above 0.
        within_view: Whether keys of the anchor's own view are negatives too.
        symmetric: Whether each of two views is the anchor once; if False, only the earlier view is.
        on: The name of the condition that is read.

    Raises:
        TypeError: For an argument of another type.
        ValueError: For an argument out of range.

    Source:
        Huynh et al., Boosting Contrastive Self-Supervised Learning with False Negative Cancellation
        (2022), for ``exclude``.
    """

    on: str
    value_types: ClassVar[Sequence[ValueType]] = ()
    """The value types accepted for the condition named by ``on``; empty: no condition is read."""
    within_view: bool = False
    """Whether keys of an anchor's own view are compared with it."""
    min_views: int = 2
    embedding: Literal["sphere", "raw"] = "sphere"
    """Whether embeddings come L2-normalized."""
    distributed: Literal["mean", "replicated"] = "mean"
    """``"mean"``: each process computes the terms of its own anchors; ``"replicated"``: of all anchors."""
    place: str = ""
    """The name under which a mixture holds this objective; empty outside of a mixture."""
    kernel: Any = KernelAttribute()
    """The kernel through which the condition named by ``on`` is read; None unless a subclass sets it.

    If the kernel names several conditions, ``pairs.samples.condition[self.on]`` in ``terms`` holds
    all of them, packed as ``self.kernel`` takes them.
    """

    def reads(self) -> Wanted:
        """The conditions that ``terms`` reads, and the value types it accepts for each.

        A subclass that reads several conditions overrides this method; ``conditions`` adds further
        ones.
        """
        return {self.on: self.value_types} if self.value_types else {}

    @property
    def conditions(self) -> Wanted:
        """The conditions this objective reads, and the value types it accepts for each.

        ``reads`` and ``exclude`` name them; conditions that the kernel names replace ``on``.
        """
        reads = self.reads()
        if isinstance(self.kernel, Joint) and self.on in reads:
            self.refuse_on()
            reads = {
                name: types
                for key, accepted in reads.items()
                for name, types in (
                    self.kernel.accepting(accepted) if key == self.on else {key: accepted}
                ).items()
            }
        if self.excluded is None:
            return reads
        kernel, _, on = self.excluded
        excluded = kernel.accepting(VALUE_TYPES) if isinstance(kernel, Joint) else {on: VALUE_TYPES}
        return {**excluded, **reads}

    def refuse_on(self) -> None:
        """Refuse ``on`` beside a kernel that names conditions itself.

        Raises:
            ValueError: If ``on`` is not its default; the message lists the kernel's conditions.
        """
        if torch.compiler.is_compiling() or not isinstance(self.kernel, Joint):
            return
        parameter = signature(type(self)).parameters.get("on")
        if parameter is not None and self.on != parameter.default:
            raise ValueError(
                f"{type(self).__name__} reads the conditions that its kernel names"
                f" ({', '.join(self.kernel.names)}): leave out on={self.on!r}"
            )

    @property
    def read_by_kernel(self) -> tuple[str, ...]:
        """The conditions that are read through ``kernel``: the one named by ``on``, or several."""
        return self.kernel.names if isinstance(self.kernel, Joint) else (self.on,)

    def set_place(self, place: str) -> None:
        """Called by the mixture that holds this objective, with a name that is unique in it."""
        self.place = place

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        # Parameters and buffers that wait for ``setup`` are None; they take the size that was saved.
        for held in (self._parameters, self._buffers):
            for name in [name for name, tensor in held.items() if tensor is None]:
                if (saved := state_dict.get(f"{prefix}{name}")) is not None:
                    empty = torch.empty_like(saved)
                    setattr(self, name, nn.Parameter(empty) if held is self._parameters else empty)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def progress(self, step: int, total: int) -> None:
        """Set the scheduled numbers to their values at a step; called before each step.

        Args:
            step: The number of optimizer steps taken before.
            total: The steps of the whole run; in the last step the schedules have reached their
                ends.
        """
        progress(self, step, total)

    def scalars(self) -> dict[str, Tensor]:
        """The current values of the numbers that are scheduled or learned, 0-d, by name."""
        return {name: scalar().detach() for name, scalar in changing(self).items()}

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Values and weights, both (rows, n): a row per anchor view or pair of views.

        An entry of weight 0 does not count; its value must be finite.
        """
        raise NotImplementedError(f"{type(self).__name__} must define terms(pairs)")

    def loss(self, pairs: Pairs) -> Tensor:
        """The weighted mean of the terms of all processes' anchors.

        Each process returns its share times the number of processes. DistributedDataParallel
        averages gradients, so the result is the gradient of the whole mean. No value is read on the
        host, so this method compiles without graph breaks and never waits for the device. Autocast
        is off.
        """
        with torch.autocast(pairs.anchors.device.type, enabled=False):
            return self._mean(pairs, *self._counted(pairs))

    def solved(self, pairs: Pairs) -> Pairs:
        """Pairs with all that is computed once for all anchors, before they are split into parts."""
        return pairs

    def _counted(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The terms of pairs of any method, computed for ``pairs.anchors_at_once`` anchors at a time.

        The backward pass computes the inner products of each part again.

        Raises:
            ValueError: If ``anchors_at_once`` is set and the objective does not declare
                ``in_parts``.
        """
        size, n = pairs.anchors_at_once, pairs.anchors.shape[1]
        refuse_parts(self, size)
        if size is None or size >= n:
            return self._of_part(pairs)
        solved = self.solved(pairs)
        parts = [
            checkpoint(
                lambda part: self._of_part(solved.part(part)),  # new pairs: they remember products
                slice(first, first + size),
                use_reentrant=False,
                preserve_rng_state=False,
            )
            for first in range(0, n, size)
        ]
        values, weights = (torch.cat(columns, 1) for columns in zip(*parts, strict=True))
        return values, weights

    def _of_part(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The terms of these anchors; an anchor without a value of a condition gets weight 0."""
        prepared = self._prepared(pairs)
        values, weights = self._shaped(self.terms(prepared), prepared.anchors.shape[1])
        if prepared.samples.missing is None:
            return values, weights
        missing = prepared.samples.missing[prepared.rows]
        return values.masked_fill(missing, 0), weights.masked_fill(missing, 0)

    def _shaped(self, terms: Any, n: int) -> tuple[Tensor, Tensor]:
        """Check by their shapes that ``terms`` returned values and weights of n anchors."""
        several = isinstance(terms, tuple)
        shapes = [
            tuple(x.shape) if isinstance(x, Tensor) else f"a {type(x).__name__}"
            for x in (terms if several else ())
        ]
        if len(shapes) == 2 and shapes[0] == shapes[1] and shapes[0][1:] == (n,):
            values, weights = terms
            return values, weights
        raise ValueError(
            f"{type(self).__name__}.terms must return values and weights, both (rows, {n}) for {n} anchors,"
            f" not {' and '.join(map(str, shapes)) if several else f'a {type(terms).__name__}'}"
        )

    def _prepared(self, pairs: Pairs) -> Pairs:
        """The pairs as ``terms`` takes them.

        Samples without a value of a condition are masked, excluded samples are no negatives, anchors are
        replicated, and the conditions that the kernel names are packed.
        """
        pairs = pairs if self.distributed == "mean" else pairs.replicated()
        if pairs.samples.ignored:
            pairs = pairs.without_missing(self.conditions)
        if self.excluded is not None:
            (kernel, _, on), threshold = self.excluded, self.exclude_threshold
            read = joined(pairs, kernel, on)
            given = read.samples.condition[on]
            with torch.no_grad():
                values = [read.everyone(on, i) for i in range(len(given) if given.ndim == 3 else 1)]
                excluded = [similarities(kernel, z[pairs.rows], z) >= threshold for z in values]
            pairs = pairs.excluding(torch.stack(excluded).any(0))
        return self.joined(pairs)

    def joined(self, pairs: Pairs) -> Pairs:
        """The pairs as ``kernel`` reads them: the conditions that it names are packed as ``on``."""
        return joined(pairs, self.kernel, getattr(self, "on", ""))

    def _mean(self, pairs: Pairs, values: Tensor, weights: Tensor) -> Tensor:
        # One sum of both: Triton cannot compile, in torch 2.11, the sum of weights that are all 1.
        product = values * weights
        sums = torch.stack([product, weights.detach().to(product)]).flatten(1).sum(1)
        weighted, total, share = sums[0], sums[1].detach(), 1
        if pairs.processes > 1 and self.distributed == "mean":
            total, share = gather(total[None]).sum(), pairs.processes
        mean = weighted * share / total.clamp_min(torch.finfo(total.dtype).tiny)
        return differentiable_once(mean) if self.stops_gradient else mean

    def forward(
        self,
        *views: Tensor,
        condition: Given | None = None,
        features: Sequence[Tensor] | None = None,
        index: Tensor | None = None,
        extras: Mapping[str, Tensor] | None = None,
        missing: Literal["error", "ignore"] = "error",
        anchors_at_once: int | None = None,
        patches: PatchScores | None = None,
    ) -> Tensor:
        """The loss of raw embeddings.

        Args:
            views: Two or more (b, d) embeddings, not normalized; row i of each is one sample.
            condition: (b,) or (b, c) values, a tuple with one such tensor per view, or a mapping from
                names to these for an objective that reads several conditions.
            features: A (b, f) tensor of backbone features for each view, for an objective that reads them.
            index: (b,) dataset indices, for an objective that keeps state per sample.
            extras: Further tensors by name, ``"<condition>/<name>"``, for an objective that reads them.
            missing: ``"error"`` refuses samples without a value of a condition (NaN, -1 among class ids);
                ``"ignore"`` leaves them out of the loss, as anchors and as keys.
            anchors_at_once: The number of anchors that are compared with all keys at a time, which
                bounds the inner products in memory; None: all anchors.
            patches: The scores of masked patches, for an objective that reads them.

        Raises:
            TypeError: For a missing condition, one that is not read, or one of another value type; and for
                missing features or patches.
            ValueError: For shapes that do not fit, too few views, NaN or inf, class ids below 0,
                anchors for which the loss is undefined, ``anchors_at_once`` in an objective that
                needs all anchors together, and batches of different sizes on processes that
                gather.
        """
        name = type(self).__name__
        questions = Questions()
        first = not torch.compiler.is_compiling() and self._asks_first()
        stacked = stack_views(name, views, self.min_views, questions)
        ignore = one_of("missing", missing, ("error", "ignore")) == "ignore"
        values = read_condition(name, self.conditions, condition, stacked, questions, ignore)
        if features is None and self.reads_features:
            raise TypeError(
                f"{name} reads backbone features: call it with features=(f0, f1), one (b, f) for each view"
            )
        if patches is None and self.reads_patches:
            raise TypeError(f"{name} reads masked patches: call it with patches=PatchScores(...)")
        read = None if features is None else stack_features(name, features, stacked, questions)
        if first:
            if not questions.answered():
                questions.refuse()
            filled = {
                k: fill_missing(z, missing_samples(z)) if ignore else z for k, z in values.items()
            }
            self.check_condition(filled)
        if self.gather_distributed and not torch.compiler.is_compiling():
            require_equal_batches(stacked.shape[1], stacked.device)
        with torch.autocast(stacked.device.type, enabled=False):
            stacked = at_least_float32(stacked)
            if self.embedding == "sphere":
                stacked = unit(stacked)
            samples = Samples(
                values,
                index,
                None if read is None else at_least_float32(read),
                extras or {},
                patches=None if patches is None else patches.at_least_float32(),
                ignored=tuple(values) if ignore else (),
            )
            pairs = in_batch(stacked, samples, self.gather_distributed)
            if anchors_at_once is not None:
                at_once = whole("anchors_at_once", anchors_at_once, 1)
                pairs = replace(pairs, anchors_at_once=at_once)
            if torch.compiler.is_compiling():
                return self.loss(pairs)
            return self.defined_loss(pairs) if first else self._defined(pairs, questions)

    def _asks_first(self) -> bool:
        """Whether the values of a call are checked before the loss, in whose state wrong values would stay.

        If False, they are checked with the loss, and the device is read once.
        """
        own = ("check_condition", "defined_loss")
        overrides = any(getattr(type(self), m) is not getattr(ContrastiveObjective, m) for m in own)
        return overrides or any(True for _ in self.buffers())

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Raise ValueError for condition values of a call that a subclass cannot take."""

    def defined_loss(self, pairs: Pairs) -> Tensor:
        """Compute ``loss`` with a check that waits for the device.

        Raises:
            ValueError: For anchors at which the loss is undefined.
        """
        return self._defined(pairs, Questions())

    def _defined(self, pairs: Pairs, questions: Questions) -> Tensor:
        """Compute ``defined_loss``, and ask the questions about the values in the pairs too."""
        try:
            terms, weights = self._counted(pairs)
        except Exception:  # a question may name the value that caused it
            questions.refuse()
            raise
        if not questions.answered(terms.sum()):
            questions.refuse()
            if not all_finite(terms):
                undefined = (~terms.detach().isfinite()).reshape(-1, terms.shape[-1]).any(0)
                raise ValueError(
                    f"{type(self).__name__} is undefined for {count(undefined, 'anchors')}"
                    f"{self.undefined_hint()}"
                )
        return self._mean(pairs, terms, weights)

    def refuse_draws(self, pairs: Pairs) -> None:
        """Raise ValueError for pairs with explicit negatives; for objectives that weigh all samples."""
        if pairs.draws is not None:
            raise ValueError(
                f"{type(self).__name__} compares an anchor with all samples of batch and queue, so it"
                " cannot take explicit draws: use infonce, or bring masks (Pairs.from_masks)"
            )

    def undefined_hint(self) -> str:
        """The end of the error message for an undefined loss: a setting that avoids the error."""
        return ""


def stack_rows(rows: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Values and weights (rows, n), from (n,) values and weights of each row."""
    values, weights = zip(*rows, strict=True)
    return torch.stack(values), torch.stack(weights)


def refuse_parts(objective: Any, anchors_at_once: int | None) -> None:
    """Raise ValueError for ``anchors_at_once``, if the objective needs all anchors together."""
    if anchors_at_once is not None and not trait(objective, "in_parts"):
        raise ValueError(
            f"anchors_at_once={anchors_at_once}: {type(objective).__name__} takes all anchors "
            "together; leave it out, or use an objective whose anchors do not depend on each "
            "other, such as infonce"
        )


def reads_projections(objective: Any) -> bool:
    """Whether a loss depends on the projections, so that heads learn; some read only the features."""
    declared: bool | None = trait(objective, "reads_projections")
    return not trait(objective, "reads_features") if declared is None else declared


def own_terms(objective: Any, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """The terms of this process's anchors, as the objective's loss computes them.

    If the objective gathers tensors, all processes must call this at the same time.
    """
    terms = objective._counted if isinstance(objective, ContrastiveObjective) else objective.terms
    with torch.autocast(pairs.anchors.device.type, enabled=False):
        values, weights = terms(pairs)
    if values.shape[-1] == pairs.anchors.shape[1]:
        return values, weights
    return values[:, pairs.rows], weights[:, pairs.rows]


def joined(pairs: Pairs, kernel: Any, on: str) -> Pairs:
    """Pairs with the packed conditions of a kernel that names several, as the condition ``on``."""
    return pairs.with_condition(on, kernel.pack) if isinstance(kernel, Joint) else pairs


def read_exclude(exclude: Exclude) -> tuple[Kernel, Scalar, str]:
    """Kernel, threshold and condition name of an ``exclude`` argument."""
    match exclude:
        case (kernel, int() | float() | Mapping() as threshold) if callable(kernel):
            return of_one_tensor(kernel), threshold, "condition"
        case (kernel, int() | float() | Mapping() as threshold, str() as on) if callable(kernel):
            if names := [*conditions_of_kernel(kernel)]:
                raise ValueError(
                    f"exclude reads the conditions that its kernel names ({', '.join(names)}): leave out"
                    f" the name {on!r}"
                )
            return kernel, threshold, on
    raise TypeError(
        "exclude must be (kernel, threshold) or (kernel, threshold, name of a condition),"
        f" not {exclude!r}"
    )
