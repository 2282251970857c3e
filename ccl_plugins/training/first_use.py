"""Checks of the results of components of any author, at their first use in training.

Later steps check only shapes, and indices on the CPU, so that they never wait for the device.

The message has the object's class, the right shape, and the first wrong value.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.numerics.generators import undisturbed
from ccl_plugins.objectives.base import ContrastiveObjective, own_terms
from ccl_plugins.protocols import (
    Embedded,
    trait,
)
from ccl_plugins.transforms.modalities import by_modality, column_of, sources


def check_rows(method: Any, member: str, rows: Any) -> int:
    """The width of the result of ``encode`` or ``project`` for one image, (1, width)."""
    if not isinstance(rows, Tensor) or rows.ndim != 2 or len(rows) != 1:
        raise ValueError(
            f"{type(method).__name__}.{member} must give (n, width) for n images: (1, width) for one, not"
            f" {_type_of(rows)}"
        )
    return rows.shape[1]


def check_embedded(method: Any, embedded: Any, views: int, n: int) -> None:
    """Check that a method embedded n samples of some views."""
    name = f"{type(method).__name__}.embed"
    if not isinstance(embedded, Embedded):
        raise ValueError(f"{name} must return an Embedded, not {_type_of(embedded)}")
    parts = {
        "features": embedded.features,
        "projections": embedded.projections,
        "keys": embedded.keys,
    }
    for part, x in parts.items():
        if part == "keys" and x is None:
            continue
        right = isinstance(x, Tensor) and x.ndim == 3 and 1 <= len(x) <= views and x.shape[1] == n
        if not right:
            raise ValueError(
                f"{name} must give {part} (u, {n}, width) of u views, 1 to {views}, not {_type_of(x)}"
            )
    if (patches := embedded.patches) is not None:
        rows = (int(patches.counts.sum()), embedded.projections.shape[2])
        right = patches.student.shape == patches.teacher.shape == rows
        if not right or len(patches.counts) != n:
            raise ValueError(
                f"{name} must give patches of a student and a teacher, {rows} for {rows[0]} masked ones,"
                f" and counts ({n}, v), not {_type_of(patches.student)}, {_type_of(patches.teacher)} and"
                f" {_type_of(patches.counts)}"
            )
    if embedded.keys is not None and embedded.keys.shape[2] != embedded.projections.shape[2]:
        raise ValueError(
            f"{name} must give projections and keys of one width, not {embedded.projections.shape[2]} and"
            f" {embedded.keys.shape[2]}"
        )


def check_observed(name: str, condition: Any, values: Any, views: int, n: int) -> None:
    """Check by shapes that a condition has a value for each of n embedded samples."""
    shape = tuple(getattr(values, "shape", ()))
    right = shape[:1] == (n,) and len(shape) <= 2
    if not isinstance(values, Tensor) or not (
        right or (len(shape) == 3 and shape[:2] == (views, n))
    ):
        raise ValueError(
            f"condition {name!r}, {type(condition).__name__}, must give ({n},), ({n}, c) or, where it"
            f" differs per view, ({views}, {n}, c) for {n} samples, not {_type_of(values)}"
        )


def check_weights(objective: Any, pairs: Any) -> None:
    """Check that the weights of an objective's terms are 0 or more.

    Call it before the loss, so that the two do not hold their matrices at the same time.
    """
    if not isinstance(objective, ContrastiveObjective):
        return
    with undisturbed(), torch.no_grad():
        # A copy, since pairs keep the products that were computed on them, here without a gradient.
        weights = own_terms(objective, replace(pairs))[1].flatten()
    wrong = weights[~(weights >= 0)]
    if len(wrong):
        raise ValueError(
            f"{type(objective).__name__}.terms must give weights of 0 or more, not {float(wrong[0])}"
        )


def check_loss(objective: Any, loss: Any) -> None:
    """Check that a loss is one number with a gradient."""
    if not isinstance(loss, Tensor) or loss.ndim or not loss.is_floating_point():
        raise ValueError(
            f"{type(objective).__name__}.loss must return one number, a float tensor of shape (), not"
            f" {_type_of(loss)}"
        )
    # Where no anchor counts, a loss of 0 has no gradient: `step_checks.nothing_counts` says so.
    if torch.is_grad_enabled() and not loss.requires_grad and bool(loss):
        raise ValueError(
            f"the loss of {type(objective).__name__} has no gradient: compute it from the pairs' anchors"
            " and keys, without detach, no_grad or whole numbers"
        )


def check_gradients(networks: Mapping[str, nn.Module]) -> None:
    """Check that each parameter that learns has a gradient, for which several processes wait.

    Raises:
        ValueError: If some have none; the message names the first.
    """
    without = [
        f"{name}.{key}"
        for name, network in networks.items()
        for key, parameter in network.named_parameters()
        if parameter.requires_grad and parameter.grad is None
    ]
    if without:
        more = f" and {len(without) - 1} more parameters" if len(without) > 1 else ""
        raise ValueError(
            f"{without[0]}{more} got no gradient, and several devices wait for that of each parameter:"
            " freeze what the loss does not read (requires_grad_(False)), or train on one device"
        )


def check_indices(sampler: Any, batch: Any, size: int) -> None:
    """Check that a sampler yields indices of samples; the batch is on the CPU."""
    name = type(sampler).__name__
    shaped = isinstance(batch, Tensor) and (batch.ndim == 1 or batch.shape[1:] == (2,))
    if not shaped or batch.dtype != torch.long or not len(batch):
        raise ValueError(
            f"the sampler {name} must yield batches of indices, long tensors (B,) or, with partners,"
            f" (B, 2), not {_type_of(batch)}"
        )
    wrong = batch[(batch < 0) | (batch >= size)]
    if len(wrong):
        raise ValueError(
            f"the sampler {name} must yield indices from 0 to {size - 1}, not {int(wrong[0])}"
        )


def check_views(transform: Any, views: Any) -> None:
    """Check that a transform made a list of ``count`` tensors from an image."""
    name, count = type(transform).__name__, transform.count
    if not isinstance(views, list | tuple) or len(views) != count:
        had = f"{len(views)}" if isinstance(views, list | tuple) else _type_of(views)
        raise ValueError(
            f"{name} must make a list of {count} views of an image (its count), not {had}"
        )
    for view in views:
        if not isinstance(view, Tensor):
            raise ValueError(f"{name} must make views that are tensors, not {_type_of(view)}")


def check_drawn(transform: Any, drawn: Any, n: int) -> None:
    """Check that a function of ``batch_transforms`` made a view of each of n images."""
    if not isinstance(drawn, Tensor) or len(drawn) != n:
        raise ValueError(
            f"{type(transform).__name__}.batch_transforms must make a tensor of {n} views of {n} images,"
            f" not {_type_of(drawn)}"
        )


def check_columns_of_views(transform: Any, split: Any) -> None:
    """Check the columns of a split that a transform reads: texts, and values.

    Raises:
        ValueError: If there is no such column, or the transform cannot take a value of it.
    """
    for name, source in sources(transform).items():
        if source is None:
            continue
        column, reader = column_of(split, source), by_modality(transform)[name]
        if len(column) != len(split):
            raise ValueError(
                f"the column {source!r} has {len(column)} rows, and the split {len(split)} samples"
            )
        trait(reader, "check_values")(column)


def warn_of_unread_queue(objective: Any, method: Any, pairs: Any) -> None:
    """Warn if another queue would give the same loss; for the second step, when the queue has keys.

    An objective that declares this got its warning when the pipeline was composed.
    """
    queue = getattr(pairs, "queue", None)
    declared = not trait(objective, "reads_queue")
    if queue is None or (declared and trait(method, "read_conditions")):
        return
    losses = []
    for keys in (queue.keys, -queue.keys):
        with undisturbed(), torch.no_grad():
            losses.append(objective.loss(replace(pairs, queue=replace(queue, keys=keys))))
    if bool(losses[0]) and torch.equal(*losses):
        warnings.warn(
            f"{type(objective).__name__} compares with no queue, so that of {type(method).__name__} has no"
            " effect: use a method without a queue, as simclr or moco_v3",
            stacklevel=2,
        )


def _type_of(x: Any) -> str:
    """Shape and type of a tensor; the type of other objects."""
    return f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else f"a {type(x).__name__}"
