"""The training step, from a batch of views to the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.pairs.samples import Samples
from ccl_plugins.training.first_use import check_embedded, check_loss, check_weights
from ccl_plugins.training.loader import Batch
from ccl_plugins.training.micro_batches import embed
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

    No state changes and no value is inspected.  After ``backward`` the caller gives the pairs to
    ``method.enqueue``, and after the optimizer's step it calls ``method.after_step``.  ``embed`` runs in
    the ambient autocast, if any.  ``loss`` is ``objective.loss``, for example compiled.  In the
    ``first`` step of a run, what the method and the objective return is checked.  The objective compares
    ``anchors_at_once`` anchors with all keys at a time; None: all.
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
        # A condition is of the same numbers beside an objective on raw embeddings, in a mixture say.
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
