"""The laws of objectives: what they declare, values and gradients, and use in training."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args
from unittest import SkipTest, mock

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import ccl_registry as engine
from ccl_plugins.kernels import RBF
from ccl_plugins.kinds import registry
from ccl_plugins.objectives import ContrastiveObjective, Mixture
from ccl_plugins.objectives.base import own_terms, reads_projections
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import ObjectiveTraits, Sizes, Table, ValueType, trait
from ccl_plugins.testing.assertions import (
    leaves_of,
    require,
    require_equal,
    require_no_seeding,
    require_same_on_two_ranks,
    require_unchanged,
)
from ccl_plugins.testing.inputs import (
    CLASSES,
    SAMPLES,
    condition_values,
    conditions,
    normal,
    seeded,
)
from ccl_plugins.testing.objective_batches import (
    WIDTH,
    RawBatch,
    call,
    loss_of,
    loss_of_pairs,
    on_each_rank,
    pairs_of,
    patches_of,
    projections,
    queue_pairs,
    raw_batch,
    value_and_gradient,
)
from ccl_plugins.testing.subject import Subject

require_exact = functools.partial(require_equal, rtol=1e-9, atol=1e-12)
"""`require_equal` with tolerances for rounding in float64."""


def observe(subject: Subject, objective: Any) -> Any:
    """Value and gradient of the loss."""
    return value_and_gradient(loss_of, prepare(objective), raw_batch(objective))


def prepare(objective: Any, dtype: torch.dtype = torch.float64) -> Any:
    """Set up an objective with tables of 24 rows, as before the first step of training, and cast it."""
    given = conditions(objective, SAMPLES).items()
    tables = {name: Table(z[0] if z.ndim == 3 else z) for name, z in given}
    with seeded():  # equal parameters on two processes
        trait(objective, "setup")(tables, Sizes(SAMPLES, WIDTH, WIDTH, steps=10))
    return objective.to(dtype)


def prepared(
    subject: Subject, n: int = 8, dtype: torch.dtype = torch.float64
) -> tuple[Any, RawBatch]:
    """A new objective before the first step of training, and a batch of n samples."""
    objective = prepare(subject.build(), dtype)
    return objective, raw_batch(objective, n).to(dtype)


def _training_step(objective: Any, batch: RawBatch, step: int, total: int) -> Tensor:
    """The loss in a step of training without an optimizer."""
    trait(objective, "progress")(step, total)
    loss = loss_of(objective, replace(batch, views=batch.views.clone().requires_grad_()))
    if loss.requires_grad:
        loss.backward()
    trait(objective, "after_step")()
    return loss.detach()


def _begin(objective: Any, batch: RawBatch) -> None:
    """Take a first step, in which an objective may learn of samples, and numbers that begin at 0 grow."""
    _training_step(objective, batch, 0, 2)
    trait(objective, "progress")(1, 2)


def _queued(objective: Any, n: int = 8, filled: int = 4) -> Pairs:
    """Pairs of two views or more, with momentum keys and a queue that is filled in part."""
    batch = raw_batch(objective, n, max(objective.min_views, 2))
    return queue_pairs(objective, batch, filled, 0.0)


def _with_queue(pairs: Pairs, **changed: Any) -> Pairs:
    assert pairs.queue is not None
    return replace(pairs, queue=replace(pairs.queue, **changed))


def check_declares_what_it_reads(subject: Subject) -> None:
    """The attributes that a pipeline reads before it reads data must have legal values.

    ``conditions`` must be names with one or more value types each, ``within_view`` a bool, ``min_views`` 1
    or more, ``embedding`` "sphere" or "raw", ``distributed`` "mean" or "replicated".  A
    ContrastiveObjective defines ``reads()``: ``conditions`` adds those of a kernel and of ``exclude``.
    """
    built = subject.build()
    if isinstance(built, ContrastiveObjective):
        inherited = type(built).conditions is ContrastiveObjective.conditions
        require(inherited, "it defines conditions: define reads() in its place")
    legal = {
        "conditions": isinstance(built.conditions, Mapping)
        and all(z and {*z} <= {*get_args(ValueType)} for z in built.conditions.values()),
        "within_view": isinstance(built.within_view, bool),
        "min_views": isinstance(built.min_views, int) and built.min_views >= 1,
        "embedding": built.embedding in ("sphere", "raw"),
        "distributed": built.distributed in ("mean", "replicated"),
    }
    wrong = {name: getattr(built, name) for name, right in legal.items() if not right}
    require(not wrong, f"it has {wrong}")


def check_terms_average_to_the_loss(subject: Subject) -> None:
    """``loss(pairs)`` must be the weighted mean of ``terms(pairs)``.

    ``terms`` gives values, which are finite even where the weight is 0, and weights of 0 or more.  Both
    have the same shape (rows, n), with a column for each anchor.
    """
    objective, batch = prepared(subject)
    with seeded():
        values, weights = own_terms(objective, pairs_of(objective, batch))
    n = batch.views.shape[1]
    require(
        values.shape == weights.shape and values.ndim == 2 and values.shape[1] == n,
        f"for {n} anchors they are {tuple(values.shape)} and {tuple(weights.shape)}",
    )
    legal = bool((weights >= 0).all() and values.isfinite().all())
    require(legal, f"values {values}, weights {weights}")
    for rows in [] if hasattr(objective, "EXAMPLE_BATCH") else ([0, 1, 2], [0, 1, 4]):
        few, _ = prepared(subject)
        with contextlib.suppress(ValueError), seeded():  # it refuses so few samples
            of_few, weighed = own_terms(few, pairs_of(few, batch.rows(torch.tensor(rows))))
            report = f"for {len(rows)} samples, some without another of their class"
            finite = bool(of_few[weighed == 0].isfinite().all())
            require(finite, f"{report}, values {of_few}, weights {weighed}")
    total = weights.sum().clamp_min(torch.finfo(weights.dtype).tiny)  # 0 if no anchor counts
    require_equal(loss_of(objective, batch), (values * weights).sum() / total)


COPIES = (2, 3)
"""How many copies of a batch of 6 samples are compared with it; the tables have rows for all copies."""


def check_is_a_mean_over_anchors(subject: Subject) -> None:
    """The loss must be a mean over anchors, not a sum: copies of a batch must not multiply its gradient.

    If the loss reads masks of positives and negatives, each copy is compared with itself alone.  Otherwise,
    copies are compared with each other too, and then with copies that are far away.
    """
    objective, batch = prepared(subject, n=6)
    if hasattr(objective, "EXAMPLE_BATCH"):
        raise SkipTest("its EXAMPLE_BATCH says how many samples it takes")
    masked = _powers_of_copies(subject, batch, masked=True)
    powers = _powers_of_copies(subject, batch)
    if masked is not None and masked != powers:
        # The power is 0 for a mean, or up to 0.2 if it solves for all samples or learns; 1 more for a sum.
        require(max(masked) < 0.5, _times(masked))
        if min(masked) > -0.5:
            return
    if powers is None:
        raise SkipTest("it takes no copies of a batch, or its gradient is 0 or not finite")
    power = round(powers[0])
    number_alone = all(abs(each - power) < 0.01 for each in powers)
    if number_alone and power == 0:
        return
    # A term that is a sum over the other samples, such as SigLIP's, grows only with near copies.
    far = _powers_of_copies(subject, _in_a_cone(batch), opposite=True)
    if far is not None and number_alone:
        require(power * far[0] < 0.5, _times(powers))
    if far is None or abs(far[0]) > 0.01:
        raise SkipTest("copies of a batch change its gradient for another reason than their number")


def _times(powers: list[float]) -> str:
    times = [f"{copies**power:.2f}" for copies, power in zip(COPIES, powers, strict=True)]
    copies = " and ".join(map(str, COPIES))
    return f"with {copies} copies of a batch the gradient is {' and '.join(times)} times as large"


def _powers_of_copies(
    subject: Subject, batch: RawBatch, *, masked: bool = False, opposite: bool = False
) -> list[float] | None:
    """For each number of copies the p for which the gradient is copies^p times as large.

    None if the loss refuses the copies, or a gradient is 0 or not finite.

    Args:
        subject: The objective.
        batch: A batch, with its conditions.
        masked: Whether each copy has positives and negatives of its own alone.
        opposite: Whether there are two copies, one of which has the opposite embeddings.
    """
    norms, n = list[float](), batch.views.shape[1]
    numbers = COPIES[:1] if opposite else COPIES
    try:
        for copies in (1, *numbers):
            objective, _ = prepared(subject)
            _training_step(objective, batch, 0, 2)  # what it learns of classes is then there
            many = batch.rows(torch.arange(n).repeat(copies))
            many = replace(many, index=torch.arange(n * copies))
            if opposite:
                many = replace(many, views=torch.cat([batch.views, -batch.views][:copies], 1))
            loss = functools.partial(_loss_of_parts, copies if masked else None)
            _, gradient = value_and_gradient(loss, objective, many)
            norms.append(sum(float(each.norm()) for each in gradient.split(n, 1)))
    except (ValueError, RuntimeError):  # it refuses masks, or their shapes, or so many samples
        return None
    if not all(0 < norm < math.inf for norm in norms):
        return None
    return [
        math.log(norm / norms[0], copies) for norm, copies in zip(norms[1:], numbers, strict=True)
    ]


def _loss_of_parts(parts: int | None, objective: Any, batch: RawBatch) -> Tensor:
    """The loss of a batch, or of equal parts of it that masks keep apart, without positives."""
    pairs = pairs_of(objective, batch)
    if parts is not None:
        part = torch.arange(parts).repeat_interleave(batch.views.shape[1] // parts)
        same = part[:, None] == part
        pairs = replace(pairs, positive=torch.zeros_like(same), negative=same)
    return loss_of_pairs(objective, pairs)


def _in_a_cone(batch: RawBatch) -> RawBatch:
    """The batch with embeddings that are near each other, and far from their opposites."""
    axis = torch.zeros(WIDTH).to(batch.views)
    axis[0] = batch.views.norm(dim=-1).mean()
    return replace(batch, views=axis + 0.3 * batch.views)


def check_gradient_reaches_every_view(subject: Subject) -> None:
    """Every view must have a finite gradient, with ``min_views`` views and with one more."""
    objective, _ = prepared(subject)
    for count in (objective.min_views, objective.min_views + 1):
        batch = raw_batch(objective, views=count)
        value, gradient = value_and_gradient(loss_of, objective, batch)
        report = f"the loss is {value}, and must be one finite number"
        require(value.ndim == 0 and bool(value.isfinite()), report)
        norms = gradient.flatten(1).norm(dim=1)
        if trait(objective, "reads_features") and not bool((norms > 1e-9).all()):
            # The loss may be least for embeddings equal to the features: give features of others.
            _, gradient = value_and_gradient(_with_features_of_others, objective, batch)
            norms = gradient.flatten(1).norm(dim=1)
        require(
            bool(gradient.isfinite().all() and (norms > 1e-9).all()),
            f"the norms of the gradients by {count} views are {norms.tolist()}",
        )


def _with_features_of_others(objective: Any, batch: RawBatch) -> Tensor:
    pairs = pairs_of(objective, batch)
    samples = replace(pairs.samples, features=batch.views.roll(1, 1))
    return loss_of_pairs(objective, replace(pairs, samples=samples))


def check_gradient_is_that_of_the_value(subject: Subject) -> None:
    """The gradient must equal finite differences in float64.

    If a factor is held constant on purpose, declare it by an attribute ``stops_gradient = True``.
    """
    objective, batch = prepared(subject, n=4)
    if trait(objective, "stops_gradient"):
        raise SkipTest("stops_gradient = True declares a gradient that is not that of the value")
    torch.autograd.gradcheck(
        lambda views: loss_of(objective, replace(batch, views=views)),
        batch.views.clone().requires_grad_(),
        fast_mode=True,
    )


def check_order_of_samples_does_not_matter(subject: Subject) -> None:
    """A permutation of the samples must permute the gradients and leave the loss as it is.

    This must hold after a step, too: store what is known of samples by ``pairs.samples.index``.  Nor may
    the order of the places in a queue matter, if each keeps its key, index and conditions.
    """
    objective, batch = prepared(subject)
    order = torch.randperm(batch.views.shape[1], generator=torch.Generator().manual_seed(1))
    for when in ("before the first step", "after it"):
        value, gradient = value_and_gradient(loss_of, objective, batch)
        permuted = value_and_gradient(loss_of, objective, batch.rows(order))
        require_exact(permuted, (value, gradient[:, order]), when)
        _training_step(objective, batch, 0, 2)
    pairs = _queued(objective)
    queue: Any = pairs.queue
    places = {name: getattr(queue, name).flip(0) for name in ("keys", "valid", "index")}
    turned = {name: z.flip(0) for name, z in queue.condition.items()}
    other = _loss(objective, _with_queue(pairs, condition=turned, **places))
    require_exact(other, _loss(objective, pairs), "with the places of the queue in another order")


def check_loss_changes_nothing(subject: Subject) -> None:
    """``loss(pairs)`` must change neither the pairs nor the objective's state.

    Change state in ``after_step``.  The loss must keep nothing of the pairs, and must not change the result
    of ``pairs.sim(i, j)``, which others read.
    """
    objective, batch = prepared(subject)
    for pairs in (pairs_of(objective, batch), _queued(objective)):
        with require_unchanged(functools.partial(_state, objective, pairs)):
            first = _loss(objective, pairs)
        require_exact(_loss(objective, pairs), first, "a second loss of the same pairs")
    expected = value_and_gradient(loss_of, objective, batch)
    used, _ = prepared(subject)
    n = batch.views.shape[1]
    other = replace(batch.rows(torch.arange(n).flip(0)), index=batch.index)
    pairs = pairs_of(used, other)
    for each in (replace(pairs, negative=torch.eye(n, dtype=torch.bool).roll(1, 1)), pairs):
        with contextlib.suppress(ValueError, RuntimeError):  # it refuses masks, or their shapes
            _loss(used, each)
    require_exact(value_and_gradient(loss_of, used, batch), expected, "after that of other samples")


def _state(objective: Any, pairs: Pairs) -> dict[str, Any]:
    """The tensors in the state of an objective and in pairs, detached."""
    samples, queue = pairs.samples, pairs.queue
    known = (samples.condition, samples.index, samples.features, samples.extras)
    of_queue = queue and (queue.keys, queue.valid, queue.condition, queue.index)
    read = (objective.state_dict(), pairs.anchors, pairs.keys, known, of_queue)
    tensors = [each for each in tree_leaves(read) if isinstance(each, Tensor)]
    return {str(i): each.detach() for i, each in enumerate(tensors)}


def check_goes_through_a_step(subject: Subject) -> None:
    """Optional ``progress(step, total)`` and ``after_step()`` must work before and after the loss.

    Each step has a backward pass, so detach what you keep.  If a step has several batches, ``progress`` is
    called before each of them with the step's number: it must not count its calls.
    """
    for total in (1, 2):
        objective, batch = prepared(subject)
        for step in range(total):
            loss = _training_step(objective, batch, step, total)
            require(bool(loss.isfinite()), f"in step {step} of {total} the loss is {loss}")
    losses = []
    for steps in ((1,), (0, 0, 1, 1)):
        objective, batch = prepared(subject)
        for step in steps:
            trait(objective, "progress")(step, 4)
        losses.append(loss_of(objective, batch))
    require_exact(losses[1], losses[0], "after several calls of progress in each step")


def check_a_resumed_run_goes_on_as_it_would_have(subject: Subject) -> None:
    """After ``load_state_dict``, the next loss must equal that of the run that was not interrupted.

    What ``setup`` creates is registered as None in the constructor, so that it is loaded in its size.
    """
    objective, batch = prepared(subject)
    early = subject.build()
    if isinstance(early, ContrastiveObjective):
        made = {name for name in objective.state_dict() if "." not in name}
        strange = made - early._parameters.keys() - early._buffers.keys()
        report = "is registered in setup alone: register it as None in the constructor"
        require(not strange, f"{', '.join(sorted(strange))} {report}")
    other, _ = prepared(subject)
    for step in range(2):
        _training_step(objective, batch, step, 4)
    other.load_state_dict(objective.state_dict())
    require_exact(loss_of(other, batch), loss_of(objective, batch))


def check_is_called_on_embeddings(subject: Subject) -> None:
    """A call on raw embeddings, as in a user's own loop, must give the loss of their pairs."""
    objective, batch = prepared(subject)
    with seeded():
        loss = call(objective, batch)
    require_exact(loss, loss_of(objective, batch))


def check_half_precision_is_computed_in_float32(subject: Subject) -> None:
    """Under autocast, embeddings in half precision must give the float32 loss of the same numbers.

    In half precision, exponentials of similarities overflow.  Autocast may be to another half precision
    than that of the embeddings.
    """
    objective, batch = prepared(subject, dtype=torch.float32)
    if batch.extras:
        raise SkipTest("it reads extras, and pairs with extras are float32 in training")
    halves = (torch.bfloat16, torch.float16)
    for dtype, cast in itertools.product(halves, halves):
        narrow = batch.to(dtype)
        with torch.autocast("cpu", cast), seeded():
            low = call(objective, narrow)
        with seeded():
            expected = call(objective, narrow.to(torch.float32))
        require_equal(low, expected, f"for {dtype}", rtol=1e-3, atol=1e-3)


def check_two_processes_equal_one(subject: Subject) -> None:
    """Two processes with half of the batch each must give the mean loss and gradients of one process.

    This is for ``distributed = "mean"``.
    """
    build, batch = (
        functools.partial(_prepared_alone, subject.chosen_as(subject.choice)),
        raw_batch(subject.build()),
    )
    require_same_on_two_ranks(on_each_rank, build, batch, rtol=1e-9, atol=1e-12)


def check_anchors_may_be_taken_in_parts(subject: Subject) -> None:
    """With ``in_parts``, the loss and its gradient must be the same for 3 anchors at a time.

    They are compared in a batch, and with momentum keys and a queue.
    """
    objective, batch = prepared(subject)
    if not trait(objective, "in_parts"):
        raise SkipTest("in_parts = False declares a loss that takes all anchors together")

    def loss(size: int | None, queued: bool, objective: Any, batch: RawBatch) -> Tensor:
        pairs = queue_pairs(objective, batch, 4, 0.0) if queued else pairs_of(objective, batch)
        return objective.loss(replace(pairs, anchors_at_once=size))

    more = raw_batch(objective, views=max(objective.min_views, 2))
    for queued, given in ((False, batch), (True, more)):
        whole, parts = (
            value_and_gradient(functools.partial(loss, size, queued), objective, given)
            for size in (None, 3)
        )
        require_exact(parts, whole, "with a queue" if queued else "in a batch")


def _prepared_alone(subject: Subject) -> Any:
    return prepare(subject.build())


def check_compiles_without_graph_breaks(subject: Subject) -> None:
    """``loss(pairs)`` must compile to one graph, once for all steps; or ``compiles`` is False.

    Use no branch on values and no ``.item()``; numbers that change from step to step must be tensors.
    """
    objective, batch = prepared(subject)
    if not trait(objective, "compiles"):
        raise SkipTest("compiles = False declares a loss that cannot be compiled")
    graphs = []

    def as_it_is(graph: torch.fx.GraphModule, _: list[Tensor]) -> Any:
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    compiled = torch.compile(objective.loss, fullgraph=True, backend=as_it_is)
    for step in range(3):
        trait(objective, "progress")(step, 3)
        with seeded():
            loss = compiled(pairs_of(objective, batch))
        require_equal(loss, loss_of(objective, batch), "compiled and in eager mode")
    require(len(graphs) == 1, f"it was compiled {len(graphs)} times in three steps")


def check_degenerate_batches_are_finite_or_refused(subject: Subject) -> None:
    """Tiny batches, one class, and equal, opposite or zero rows must give a finite loss or a ValueError.

    An objective with a ``setup`` of its own gets only class ids that its tables have, as in training.
    """
    objective, example = prepared(subject, n=5, dtype=torch.float32)
    usual = example.views
    flat = usual[:1, :1].expand_as(usual)
    opposite = usual[:1] * torch.tensor([(-1.0) ** i for i in range(len(usual))])[:, None, None]
    rows = {"random": usual, "identical": flat, "zero": 0 * usual, "opposite": opposite}
    most, given = usual.shape[1], hasattr(objective, "EXAMPLE_CONDITION")
    setup = getattr(type(objective), "setup", ObjectiveTraits.setup)
    different = most if setup is ObjectiveTraits.setup else CLASSES
    for (name, views), n, classes in itertools.product(rows.items(), (2, most), (1, different)):
        ids = torch.arange(n) % classes
        condition = {k: _values_of(z, ids, given) for k, z in example.condition.items()}
        index = torch.arange(n)
        batch = replace(example, views=views[:, :n].clone(), condition=condition, index=index)
        try:
            value, gradient = value_and_gradient(call, objective, batch)
        except ValueError:
            continue  # the objective refuses this batch
        require(
            bool(value.isfinite() and gradient.isfinite().all()),
            f"for {n} samples in {len(ids.unique())} classes, rows of {WIDTH} {name} numbers, the loss"
            f" is {value}, the gradient's norm {gradient.norm()}",
        )


def _values_of(z: Tensor, ids: Tensor, given: bool) -> Tensor:
    """Values of classes: rows of those that are given, or the ids or unit vectors."""
    if given:
        return z.index_select(1 if z.ndim == 3 else 0, ids)
    return ids if z.ndim == 1 else torch.eye(len(z))[ids].to(z.dtype)


def check_a_queue_is_read_as_far_as_it_is_filled(subject: Subject) -> None:
    """With momentum keys and a queue, the queue's empty places must not change the loss."""
    objective, _ = prepared(subject)
    batch = raw_batch(objective, n=4, views=max(objective.min_views, 2))
    for filled in (0, 3, 6):
        zeros, sevens = (
            value_and_gradient(functools.partial(_queue_loss, filled, rest), objective, batch)
            for rest in (0.0, 7.0)
        )
        where = f"with {filled} of 6 places filled"
        require(bool(zeros[0].isfinite()), f"{where} the loss is {zeros[0]}")
        require_exact(zeros, sevens, where)


def check_samples_without_a_value_are_left_out(subject: Subject) -> None:
    """Samples that lack a value, under ``missing="ignore"``, must be neither anchors nor keys.

    The loss and its gradient must be those of the batch without them.  Read the number of samples from
    ``pairs.sample_count``, and masks from ``pairs``.
    """
    objective, batch = prepared(subject)
    if not isinstance(objective, ContrastiveObjective) or not batch.condition:
        raise SkipTest("it reads no condition, or is no ContrastiveObjective, which masks samples")
    if isinstance(objective, Mixture):
        raise SkipTest("each of its objectives leaves out the samples that lack its own conditions")
    n = batch.views.shape[1]
    lost = torch.tensor([0, n - 3]) if n > 4 else torch.tensor([0])
    kept = torch.tensor([i for i in range(n) if i not in lost.tolist()])
    try:
        expected = value_and_gradient(loss_of, objective, batch.rows(kept))
    except ValueError as error:
        raise SkipTest(f"it refuses a batch of {len(kept)} samples: {error}") from error
    value, gradient = value_and_gradient(loss_of, objective, batch.without_values(lost))
    require_exact((value, gradient[:, kept]), expected, f"without a value in rows {lost.tolist()}")
    require_exact(gradient[:, lost], torch.zeros_like(gradient[:, lost]), "by these rows")
    none = batch.without_values(torch.arange(n))
    of_none = value_and_gradient(loss_of, objective, none)
    zeros = torch.zeros_like(of_none[0]), torch.zeros_like(of_none[1])
    require_exact(of_none, zeros, "without a value in any row")


def check_reads_a_queue_if_it_says_so(subject: Subject) -> None:
    """Other keys in a queue must change the loss, unless an attribute ``reads_queue = False`` denies it.

    A loss that compares only the samples of a batch, such as one of another library, has this attribute.
    """
    objective, _ = prepared(subject)
    pairs = _queued(objective, 4, filled=6)
    queue: Any = pairs.queue
    both = (queue.keys, -queue.keys)
    losses = [_loss(objective, _with_queue(pairs, keys=keys)) for keys in both]
    declared = trait(objective, "reads_queue")
    report = f"reads_queue is {declared}, and with two queues the losses are {losses}"
    require(declared != torch.equal(*losses), report)


def _queue_loss(filled: int, rest: float, objective: Any, batch: RawBatch) -> Tensor:
    return loss_of_pairs(objective, queue_pairs(objective, batch, filled, rest))


def check_reads_the_conditions_it_declares(subject: Subject) -> None:
    """Other values of a condition that it declares must change the loss or a gradient.

    With ``hierarchies``, this must hold for the values of each level of class ids.
    """
    objective, batch = prepared(subject)
    if not batch.condition:
        raise SkipTest("it reads no condition")
    _begin(objective, batch)
    given = [batch, _with_shared_values(objective, batch)]
    for name, z in batch.condition.items():
        several = trait(objective, "hierarchies") and z.ndim == 2 and not z.is_floating_point()
        for level in range(z.shape[1]) if several else (None,):
            what = repr(name) if level is None else f"level {level} of {name!r}"
            report = (
                f"with the values of {what} in three other orders loss and gradients are the same"
            )
            require(any(_reads(objective, each, name, level) for each in given), report)


def _reads(objective: Any, batch: RawBatch, name: str, level: int | None = None) -> bool:
    """Whether the values of a condition, or one column of them, in other orders change a gradient."""
    z, before = batch.condition[name], _loss_and_gradients(objective, batch)
    for moved in _in_other_orders(z):
        if level is not None:
            moved = torch.cat([z[:, :level], moved[:, level, None], z[:, level + 1 :]], 1)
        other = replace(batch, condition={**batch.condition, name: moved})
        if any(map(_differ, _loss_and_gradients(objective, other), before)):
            return True
    return False


def _loss_and_gradients(objective: Any, batch: RawBatch) -> list[Tensor]:
    with seeded():
        loss, gradients = on_each_rank(lambda: objective, batch)
    return [loss, *gradients]


def check_takes_every_value_type_that_it_accepts(subject: Subject) -> None:
    """Values of every type that it accepts for a condition must be taken, and change loss or gradient.

    A class attribute ``EXAMPLE_CONDITION`` says which values suit; then these alone are examined.
    """
    built = subject.build()
    if hasattr(built, "EXAMPLE_CONDITION"):
        raise SkipTest("its EXAMPLE_CONDITION says which values it takes")
    if all(len(types) == 1 for types in built.conditions.values()):
        raise SkipTest("it reads no condition of several value types: other laws examine one")
    for number, (name, types) in enumerate(built.conditions.items()):
        for value_type in types:
            objective, row = subject.build(), torch.arange(27)
            values = condition_values([value_type], 27, number)
            if value_type != "continuous":
                # Three values, which samples share, since some losses read which are equal.
                values = values[row // 2**number % 3 * 13]
            objective.EXAMPLE_CONDITION = {name: values}
            try:
                objective, batch = prepare(objective), raw_batch(objective)
                _begin(objective, batch)
                changes = _reads(objective, batch, name)
            except Exception as error:
                kind = type(error).__name__
                report = f"{value_type} values of {name!r}, {tuple(values.shape)}, raised {kind}: {error}"
                raise AssertionError(report) from error
            report = f"{value_type} values of {name!r} in three other orders change nothing"
            require(changes, report)


def check_reads_the_conditions_of_a_queue(subject: Subject) -> None:
    """Other values of a queue's conditions must change the loss, if it reads queues and conditions."""
    objective, _ = prepared(subject)
    if not (trait(objective, "reads_queue") and objective.conditions):
        raise SkipTest("it reads no queue, or no condition")
    if isinstance(objective, Mixture):
        raise SkipTest("those of its objectives that read a queue need not read a condition")
    if not _reads_conditions_of_others(objective, raw_batch(objective)):
        raise SkipTest("the term of an anchor reads the anchor's values alone")
    pairs = _queued(objective, 6, filled=6)
    queue: Any = pairs.queue
    for name, z in queue.condition.items():
        losses = [
            _loss(objective, _with_queue(pairs, condition={**queue.condition, name: each}))
            for each in [z, *_in_other_orders(z)]
        ]
        report = f"with the queue's values of {name!r} in three other orders the loss is the same"
        require(any(_differ(each, losses[0]) for each in losses[1:]), report)


def _reads_conditions_of_others(objective: Any, batch: RawBatch) -> bool:
    """Whether the first anchor's terms change with the values of the other samples."""
    given = _with_shared_values(objective, batch)
    others = [
        torch.cat([torch.zeros(1, dtype=torch.long), 1 + order])
        for order in _orders(batch.views.shape[1] - 1)
    ]
    with seeded():
        terms = [
            own_terms(objective, pairs_of(objective, replace(given, condition=rows.condition)))
            for rows in [given, *map(given.rows, others)]
        ]
    first = [torch.stack(each)[:, :, 0] for each in terms]
    return any(_differ(each, first[0]) for each in first[1:])


def _with_shared_values(objective: Any, batch: RawBatch) -> RawBatch:
    """The batch with three values of each condition, in another order for each; float values stay."""
    if hasattr(objective, "EXAMPLE_CONDITION"):
        return batch
    row, given = torch.arange(batch.views.shape[1]), {}
    for i, (name, z) in enumerate(conditions(objective, 27).items()):
        if not z.is_floating_point():  # no two float values are equal
            given[name] = z[row // 2**i % 3 * 13]
    return replace(batch, condition={**batch.condition, **given})


def _in_other_orders(z: Tensor) -> list[Tensor]:
    sample = 1 if z.ndim == 3 else 0
    return [z.index_select(sample, order) for order in _orders(z.shape[sample])]


def _orders(n: int, times: int = 3) -> list[Tensor]:
    return [torch.randperm(n, generator=torch.Generator().manual_seed(i)) for i in range(times)]


def _differ(x: Tensor, y: Tensor) -> bool:
    return not torch.allclose(x, y, rtol=1e-9, atol=1e-12)


_loss = torch.no_grad()(loss_of_pairs)


def check_takes_the_negatives_that_it_is_given(subject: Subject) -> None:
    """A mask of negatives, ``exclude`` and draws must change the loss, or be refused.

    Read the negatives of ``pairs``: other keys must not reach a term that reads no condition.  A loss with
    ``reads_queue = False`` need not have negatives.
    """
    objective, batch = prepared(subject, n=6)
    if not trait(objective, "reads_queue"):
        raise SkipTest("reads_queue = False declares a loss that may have no negatives")
    pairs = pairs_of(objective, _with_shared_values(objective, batch))
    before = _loss(objective, pairs)
    n = batch.views.shape[1]
    some = torch.rand(n, n, generator=torch.Generator().manual_seed(0)) < 0.5
    some[0, -1] = False
    drawn = (torch.arange(n)[:, None] + torch.tensor([1, 2])) % n
    given = {"negative": replace(pairs, negative=some), "draws": replace(pairs, draws=drawn)}
    for name, other in given.items():
        try:
            changed = _differ(_loss(objective, other), before)
        except (ValueError, RuntimeError):
            continue  # it refuses them, or their shapes
        require(changed, f"with pairs.{name} the loss is the same")
        for term in [] if objective.conditions else _terms_of_one_anchor(objective, other):
            reached = bool((term.by_keys[:, -1] > 0).any())
            require(not reached, f"a key that is not in pairs.{name} reaches the term of an anchor")


def check_memory_grows_with_the_square_of_the_batch(subject: Subject) -> None:
    """With twice as many samples, the largest tensor must be four times as large at most."""
    objective, _ = prepared(subject)
    if hasattr(objective, "EXAMPLE_BATCH"):
        raise SkipTest("its EXAMPLE_BATCH says how many samples it takes")
    largest = []
    for n in (12, 24):
        batch = raw_batch(objective, n)
        with _Largest() as seen:
            value_and_gradient(loss_of, objective, batch)
        largest.append(seen.numbers)
    report = f"the largest tensor has {largest[0]} numbers for 12 samples, and {largest[1]} for 24"
    require(largest[1] <= 4.5 * largest[0], report)


class _Largest(TorchDispatchMode):
    """Notes how many numbers the largest tensor has that an operation returns."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in tree_leaves(results):
            if isinstance(result, Tensor) and result.layout == torch.strided:
                self.numbers = max(
                    self.numbers, result.untyped_storage().nbytes() // result.itemsize
                )
        return results


def check_keeps_the_type_and_device_of_embeddings(subject: Subject) -> None:
    """The loss of float32 embeddings must be float32, on any device, without a value read on the host.

    This runs on the device ``meta``, where a constant on the CPU is an error, and so is reading a value.
    """
    objective, batch = prepared(subject, dtype=torch.float32)
    dtype = loss_of(objective, batch).dtype
    cast = "cast numbers made of float64 condition values by .to(pairs.anchors.dtype)"
    require(dtype == torch.float32, f"the loss is {dtype}: {cast}")
    if not trait(objective, "compiles"):
        raise SkipTest("compiles = False declares a loss that reads values")
    far = objective.to("meta")
    moved = replace(
        batch,
        views=batch.views.to("meta").requires_grad_(),
        condition={name: z.to("meta") for name, z in batch.condition.items()},
        extras={name: x.to("meta") for name, x in batch.extras.items()},
        index=torch.arange(batch.views.shape[1], device="meta"),
    )
    of_no_device = contextlib.nullcontext()  # torch has no autocast for meta
    with mock.patch.object(torch, "autocast", return_value=of_no_device):
        loss = far.loss(pairs_of(far, moved))
    require(loss.device.type == "meta", f"the loss is on the device {loss.device}")
    if loss.requires_grad:
        loss.backward()


def check_compares_within_views_as_it_says(subject: Subject) -> None:
    """Keys of the anchor's own view must count if ``within_view`` says so, but the anchor itself never.

    The law examines each term that depends on one anchor alone, with keys that have a gradient of their
    own.  Keys of the anchor's image in a queue must not reach the term either.
    """
    objective, _ = prepared(subject, n=6)
    batch = raw_batch(objective, n=6, views=max(objective.min_views, 2))
    of_others, said = list[bool](), objective.within_view
    for term in _terms_of_one_anchor(objective, pairs_of(objective, batch)):
        own, others = term.by_keys[term.view, 0], term.by_keys[term.view, 1:]
        require(bool(own == 0), f"an anchor of view {term.view} is compared with itself")
        of_others.append(bool((others > 0).any()))
    if not of_others:
        raise SkipTest("none of its terms depends on one anchor and on keys")
    report = f"within_view is {said}, and other keys of the anchor's view reach its term"
    require(any(of_others) == said, f"{report}: {any(of_others)}")
    for term in _terms_of_one_anchor(objective, _queued(objective, 6)):
        report = "an anchor is repelled from its own image in the queue"
        require(term.from_queue <= 1e-9, report)  # 1e-200 if it does not count, 1e-3 if it does


@dataclass(frozen=True)
class _Term:
    """A term of the first sample that depends on one anchor alone, and on keys.

    Args:
        view: The anchor's view.
        by_keys: (v, n) lengths of its gradients by each key.
        from_queue: How much it rises as the queue's first key, of the same image, comes to the anchor.
    """

    view: int
    by_keys: Tensor
    from_queue: float


def _terms_of_one_anchor(objective: Any, pairs: Pairs) -> list[_Term]:
    """The terms of the first sample, where anchors and keys of equal views are not the same."""
    anchors = pairs.anchors.detach()
    keys = projections(objective, anchors.roll(1, -1) + anchors)
    earlier = anchors.new_zeros(0) if pairs.queue is None else pairs.queue.keys.detach()
    for each in (anchors, keys, earlier):
        each.requires_grad_()
    queue = pairs.queue and replace(pairs.queue, keys=earlier)
    with seeded():
        given = replace(pairs, anchors=anchors, keys=keys, shared=False, queue=queue)
        values, _ = own_terms(objective, given)
    found = []
    for number in values[:, 0]:
        by_anchors, by_keys, by_queue = (_gradient(number, x) for x in (anchors, keys, earlier))
        # Other terms are statistics of the batch, or read no keys.
        if int((by_anchors.norm(dim=-1) > 0).sum()) == 1 and bool((by_keys != 0).any()):
            view = int(by_anchors[:, 0].norm(dim=-1).argmax())
            rise = 0.0 if queue is None else float(by_queue[0] @ anchors.detach()[view, 0])
            found.append(_Term(view, by_keys.norm(dim=-1), rise))
    return found


def _gradient(number: Tensor, by: Tensor) -> Tensor:
    if not number.requires_grad:
        return torch.zeros_like(by)
    (gradient,) = torch.autograd.grad(
        number, by, retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return gradient


def check_reads_features_and_patches_if_it_says_so(subject: Subject) -> None:
    """With ``reads_features`` or ``reads_patches``, other features or patches must change the loss.

    Then other projections must change the loss exactly if ``reads_projections`` says so.
    """
    objective, batch = prepared(subject)
    pairs = pairs_of(objective, batch)
    # No rotation of the same views, which would have the same inner products.
    other = batch.views.roll(1, 1).sin()
    changed: dict[str, Any] = {
        "features": other,
        "patches": patches_of(objective, other),
    }
    said = [name for name in changed if trait(objective, f"reads_{name}")]
    if not said:
        raise SkipTest("it declares neither")
    _training_step(objective, batch, 0, 2)  # what it learns of features is then there
    before = _loss(objective, pairs)
    for name in said:
        samples = replace(pairs.samples, **{name: changed[name]})
        report = f"reads_{name} is True, and with other {name} the loss is the same"
        require(_differ(_loss(objective, replace(pairs, samples=samples)), before), report)
    moved = pairs_of(objective, replace(batch, views=other))
    changes = _differ(_loss(objective, replace(moved, samples=pairs.samples)), before)
    read = reads_projections(objective)
    if read or trait(objective, "reads_projections") is not None:
        report = f"reads_projections is {read}, and with other projections the loss"
        require(changes == read, f"{report} {'changes' if changes else 'is the same'}")


def check_learns_what_it_registers(subject: Subject) -> None:
    """Every parameter must have a gradient, and no other tensor may: an optimizer gets parameters alone."""
    objective, batch = prepared(subject)
    views = batch.views.clone().requires_grad_()
    _training_step(objective, batch, 0, 2)
    loss = loss_of(objective, replace(batch, views=views))
    learned = leaves_of(loss)
    registered = {
        id(each): name for name, each in objective.named_parameters() if each.requires_grad
    }
    strange = [leaf for leaf in learned if id(leaf) not in registered and leaf is not views]
    shapes = ", ".join(str(tuple(leaf.shape)) for leaf in strange)
    require(not strange, f"a gradient reaches tensors {shapes} that are no parameters of it")
    reached = {id(leaf) for leaf in learned}
    unused = [name for each, name in registered.items() if each not in reached]
    require(not unused, f"no gradient reaches {', '.join(unused)}")


def check_scalars_are_numbers_to_log(subject: Subject) -> None:
    """Optional ``scalars()`` must give tensors of no dimension and without gradient, in every step."""
    objective, batch = prepared(subject)
    for step in range(2):
        for name, value in trait(objective, "scalars")().items():
            right = isinstance(value, Tensor) and value.ndim == 0 and not value.requires_grad
            require(right, f"{name!r} is {value!r}")
        _training_step(objective, batch, step, 2)


SMALL = 0.01
"""A temperature at which exponentials of similarities overflow float32."""


def check_small_temperatures_are_finite(subject: Subject) -> None:
    """With a ``temperature`` of 0.01, the loss and its gradient must be finite: use ``logsumexp``."""
    changed = _with_parameter(subject, "temperature", SMALL)
    objective, batch = prepared(changed, dtype=torch.float32)
    near = batch.views[:1] + 0.01 * batch.views  # similar views, and no equal ones
    value, gradient = value_and_gradient(loss_of, objective, replace(batch, views=near))
    report = f"the loss is {value}, the gradient's norm {gradient.norm()}"
    require(bool(value.isfinite() and gradient.isfinite().all()), report)


SHARED = {
    "kernel": (RBF(1.0), RBF(0.2)),
    "temperature": (0.1, 0.7),
    "symmetric": (True, False),
    "within_view": (True, False),
}
"""Two values of each parameter that means the same in every objective."""
VIEWS = ("symmetric", "within_view")
"""The shared parameters that say which views are compared."""


def check_reads_the_parameters_that_it_takes(subject: Subject) -> None:
    """Another ``kernel``, ``temperature``, ``symmetric`` or ``within_view`` must change loss or gradients.

    With another ``on``, the objective must read the condition of that name.
    """
    built, taken, looked = subject.build(), _parameters(subject), False
    for name, values in SHARED.items():
        lacks = (name == "kernel" and not built.conditions) or (
            name in VIEWS and built.min_views < 2
        )
        try:
            changed = [] if lacks else [_with_parameter(subject, name, each) for each in values]
        except SkipTest:  # it has no such parameter, or refuses it
            continue
        results = [_in_use(each) for each in changed]
        report = f"with {name} {' and '.join(map(repr, values))} loss and gradients are the same"
        require(lacks or any(map(_differ, *results)), report)
        looked |= not lacks
    if "on" in taken and [*built.conditions] == [getattr(built, "on", "")]:
        looked = True
        objective, batch = prepared(_with_parameter(subject, "on", "another"))
        extras = {k.replace(f"{built.on}/", "another/"): x for k, x in batch.extras.items()}
        loss_of(objective, replace(batch, extras=extras))  # with a condition of this name alone
        require([*objective.conditions] == ["another"], f"it reads {[*objective.conditions]}")
    if not looked:
        raise SkipTest("it has no parameter that means the same in every objective")


def _in_use(subject: Subject) -> list[Tensor]:
    """Loss and gradients after a step, in a batch and with momentum keys and a queue."""
    objective, _ = prepared(subject)
    batch = raw_batch(objective, views=max(objective.min_views, 2))
    _training_step(objective, batch, 0, 2)  # what it learns of classes is then there
    queued = value_and_gradient(functools.partial(_queue_loss, 4, 0.0), objective, batch)
    return [*_loss_and_gradients(objective, batch), *queued]


def check_follows_a_schedule_of_each_number(subject: Subject) -> None:
    """The loss must use the present value of a scheduled or learned number, which ``scalars()`` gives.

    The loss must be that of an objective with this number; read the attribute in every ``terms``.
    """
    looked = False
    for name, value in _parameters(subject).items():
        if not isinstance(value, float):
            continue
        end = value / 2 if value else 0.5
        schedule = {"schedule": "linear", "start": value, "end": end}
        cases: list[tuple[dict[str, Any], int, float]] = [
            (schedule, 0, value),
            (schedule, 3, end),
            ({"learn": True, "start": value}, 0, value),
        ]
        for given, step, expected in cases:
            try:
                changing = _with_parameter(subject, name, given)
                fixed = _with_parameter(subject, name, expected)
            except SkipTest:  # it takes no table, or not this number
                continue
            looked, losses = True, []
            for each in (changing, fixed):
                objective, batch = prepared(each)
                trait(objective, "progress")(step, 4)
                losses.append(value_and_gradient(loss_of, objective, batch))
                if each is changing:
                    logged = trait(objective, "scalars")().get(name)
            where = f"in step {step} of 4, with {name} = {given}"
            require_equal(losses[0], losses[1], f"{where}, which is then {expected}")
            right = logged is not None and math.isclose(logged, expected, rel_tol=1e-6)
            require(right, f"{where} scalars() gives {logged} for {name}, and must give {expected}")
            if "learn" in given:
                check_learns_what_it_registers(changing)
    if not looked:
        raise SkipTest("it has no number that may follow a schedule")


def check_forgets_what_it_says(subject: Subject) -> None:
    """With ``hides`` or ``measures_dependence``, embeddings that tell the condition must raise the loss."""
    objective, _ = prepared(subject)
    said = [each for each in ("hides", "measures_dependence") if trait(objective, each)]
    if not said or isinstance(objective, Mixture) or [*objective.parameters()]:
        raise SkipTest("it declares neither, or learns what embeddings tell")
    batch = raw_batch(objective, SAMPLES)
    z = next(iter(batch.condition.values()))
    z = z[0] if z.ndim == 3 else z
    z = (
        functional.one_hot(z)
        if z.ndim == 1 and not z.is_floating_point()
        else z.reshape(len(z), -1)
    )
    told = (z - z.double().mean(0)).double() @ normal(z.shape[1], WIDTH, dtype=torch.float64)
    views = 4 * told + 0.1 * batch.views
    tells = _loss(objective, pairs_of(objective, replace(batch, views=views)))
    others = [
        _loss(objective, pairs_of(objective, replace(batch, views=views[:, order])))
        for order in _orders(len(z), 5)
    ]
    report = (
        f"{' and '.join(said)} is True; the loss of embeddings that tell the condition is {tells}"
    )
    require(bool(tells > max(others)), f"{report}, and with the samples in other orders {others}")


def _parameters(subject: Subject) -> dict[str, Any]:
    """The parameters that it takes, with their values."""
    defaults = {each.name: each.default for each in registry().schema(subject.spec).parameters}
    return {**defaults, **subject.choice.params}


def _with_parameter(subject: Subject, name: str, value: Any) -> Subject:
    """The objective with another value of a parameter, if it takes it."""
    if name not in _parameters(subject):
        raise SkipTest(f"it has no parameter {name}")
    params = {**subject.choice.params, name: value}
    try:
        changed = subject.chosen_as(registry().choose(subject.kind, subject.spec.id, **params))
        changed.build()
    except (engine.InvalidParameter, ValueError, TypeError) as error:
        raise SkipTest(f"it refuses {name}={value!r}: {error}") from error
    return changed


def check_seeds_no_global_generator(subject: Subject) -> None:
    """It must not seed Python's, numpy's or torch's global generator, from which other code draws next."""
    objective, batch = prepared(subject)
    require_no_seeding(lambda: objective.loss(pairs_of(objective, batch)))
