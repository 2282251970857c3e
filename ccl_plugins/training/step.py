"""The training step, from a batch of views to the loss; large batches are encoded in pieces.

The objective sees the whole batch, and its gradient reaches each piece through a second forward pass
of that piece (gradient caching): the memory of one piece, the gradient of the whole batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ccl_plugins.numerics.generators import cpu_states, set_cpu_states, undisturbed
from ccl_plugins.pairs.patches import Masks, PatchScores
from ccl_plugins.pairs.samples import Samples
from ccl_plugins.protocols import Embedded
from ccl_plugins.training.first_use import check_embedded, check_loss, check_weights
from ccl_plugins.training.loader import Batch
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.tables import Tables


def take_step(
    parts: Parts,
    tables: Tables,
    batch: Batch,
    micro_batch: int | None = None,
    loss: Callable[[Any], Tensor] | None = None,
    first: bool = False,
    anchors_at_once: int | None = None,
) -> tuple[Tensor, Any]:
    """The loss of a batch, and the pairs that it was computed on.

    This changes no state and inspects no value. After ``backward`` the caller gives the pairs to
    ``method.enqueue``, and after the optimizer's step it calls ``method.after_step``. ``embed``
    runs in the ambient autocast, if any. ``loss`` is ``objective.loss``, for example compiled. In
    the ``first`` step of a run, the results of the method and the objective are checked. The
    objective compares ``anchors_at_once`` anchors with all keys at a time; None: all.
    """
    method, objective = parts.method, parts.objective
    index, partner, read = batch.index, None, batch.read
    partners_read = None
    if index.ndim == 2:
        index, partner = index.unbind(1)
        if read is not None:
            partners_read = {name: values[:, 1] for name, values in read.items()}
            read = {name: values[:, 0] for name, values in read.items()}
    embedded = embed(method, batch.views, micro_batch, batch.masks)
    if first:
        check_embedded(method, embedded, len(batch.views), len(index))
    # Autocast ends here: similarities over small temperatures overflow in half precision.
    with torch.autocast(index.device.type, enabled=False):
        embedded = embedded.at_least_float32()
        sphere = embedded.normalized()
        if objective.embedding != "raw":
            embedded = sphere
        # Conditions read unit vectors, also beside an objective on raw embeddings in a mixture.
        samples = Samples(
            {**tables.look_up(index, read), **tables.observe(sphere)},
            index,
            embedded.features,
            tables.extras_on(index.device),
            patches=embedded.patches,
            partner=partner,
            partner_condition={} if partner is None else tables.look_up(partner, partners_read),
            ignored=tables.ignored,
        )
        pairs = method.pairs(embedded, samples)
        if anchors_at_once is not None:
            pairs = replace(pairs, anchors_at_once=anchors_at_once)
        if first:
            check_weights(objective, pairs)
        value = (loss or objective.loss)(pairs)
        if first:
            check_loss(objective, value)
        return value, pairs


def embed(
    method: Any, views: Sequence[Tensor], size: int | None, masks: Masks | None = None
) -> Embedded:
    """Embed a batch in pieces of ``size`` samples; None: at once.

    The second pass of a piece draws the same random numbers from python, numpy and torch as the first
    and changes no running statistics. The second pass ends at the last tensor that the gradient
    needs, so results without gradient that a method computes last, such as momentum keys, are
    computed once.
    """
    n = len(views[0])
    if size is None or size >= n:
        return _embed(method, views, masks)
    pieces: list[Embedded] = [
        checkpoint(
            _embed,
            method,
            [view[some] for view in views],
            None if masks is None else masks.part(some),
            use_reentrant=False,
            # The contexts of the first and the second pass; torch restores its own generators.
            context_fn=lambda: (nullcontext(), _SecondPass(method, cpu_states())),
        )
        for first in range(0, n, size)
        for some in [slice(first, first + size)]
    ]
    keys = [piece.keys for piece in pieces if piece.keys is not None]
    patches = [piece.patches for piece in pieces if piece.patches is not None]
    return Embedded(
        features=torch.cat([piece.features for piece in pieces], 1),
        projections=torch.cat([piece.projections for piece in pieces], 1),
        keys=torch.cat(keys, 1) if keys else None,
        patches=PatchScores.joined(patches) if patches else None,
    )


def _embed(method: Any, views: Sequence[Tensor], masks: Masks | None) -> Embedded:
    embedded: Embedded = method.embed(views) if masks is None else method.embed(views, masks)
    return embedded


class _SecondPass(AbstractContextManager[None]):
    """`_second_pass`, as often as a backward pass needs it: gradients may be taken more than once."""

    def __init__(self, method: nn.Module, states: Any) -> None:
        self._given = method, states

    def __enter__(self) -> None:
        self._open = _second_pass(*self._given)
        self._open.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        return self._open.__exit__(*error)


@contextmanager
def _second_pass(method: nn.Module, states: Any) -> Iterator[None]:
    norms = [
        module
        for module in method.modules()
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.track_running_stats
    ]
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    with undisturbed():
        set_cpu_states(states)
        for norm in norms:
            norm.momentum, norm.num_batches_tracked = 0.0, None
        try:
            yield
        finally:
            for norm, (momentum, count) in zip(norms, before, strict=True):
                norm.momentum, norm.num_batches_tracked = momentum, count


def warn_about_statistics(method: nn.Module, size: int | None, n: int) -> None:
    """Warn if batch normalizations see pieces of ``size`` of this process's ``n`` samples; None: all."""
    norms = [
        module
        for module in method.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training
    ]
    if size is not None and size < n and norms:
        warnings.warn(
            f"micro_batch={size}: the {len(norms)} batch normalizations take their statistics from"
            f" {size} samples at a time and not from {n}, so this is not the gradient of the whole"
            " batch; with group or layer normalization it is",
            stacklevel=2,
        )
