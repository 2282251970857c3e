"""What is done to the networks before training, so that the same numbers come faster."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.training.items import Batch
from ccl_plugins.training.micro_batches import piecewise_statistics
from ccl_plugins.training.settings import FitSettings


def prepare(method: nn.Module, objective: Any, settings: FitSettings) -> Callable[[Any], Tensor]:
    """Lay out the method's weights and compile its networks, as the settings say.

    Returns:
        ``objective.loss``, compiled where that is asked for.

    Raises:
        ValueError: For a backend that torch.compile does not have.

    Warns:
        UserWarning: Where a batch is embedded in pieces and norms take their statistics from those.
    """
    local = settings.batch_size // settings.processes
    if said := piecewise_statistics(method, settings.micro_batch, local):
        warnings.warn(said, stacklevel=2)
    if settings.channels_last:
        method.to(memory_format=torch.channels_last)
    if settings.compile is False:
        return objective.loss
    backend = "inductor" if settings.compile is True else settings.compile
    if backend not in torch.compiler.list_backends(exclude_tags=()):
        usual = ", ".join(torch.compiler.list_backends())
        raise ValueError(f"torch.compile has no backend {backend!r}; it has {usual}")
    for network in method.children():
        # In place, so that names in the state dict stay as they are.
        network.compile(backend=backend)
    return torch.compile(objective.loss, backend=backend)


def in_format(batch: Batch) -> Batch:
    """A batch whose images lie with channels last; what is no image stays as it is."""
    views = [
        view.contiguous(memory_format=torch.channels_last) if view.ndim == 4 else view
        for view in batch.views
    ]
    return Batch(views, batch.index)
