"""Un-augmented passes over a split: frozen features, and the embeddings that conditions ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins.metadata.columns import tensor_columns
from ccl_plugins.protocols import Frozen, Views
from ccl_plugins.training import ranks


def frozen_features(
    method: Any, split: Any, views: Views, batch_size: int = 512, workers: int = 0
) -> Frozen:
    """The backbone's features of every sample of a split, in evaluation mode, un-augmented.

    Args:
        method: A `ccl_plugins.protocols.Method`; computed on the device it is on.
        split: A torch Dataset of ``(image, ...)`` with ``metadata``.
        views: Their ``plain`` makes the tensors.
        batch_size: Samples per forward pass.
        workers: Processes that read images, where the split is not in memory.
    """
    whole = range(len(split))
    found = _forward(method, method.encode, split, views, whole, batch_size, workers)
    return Frozen(found.float().cpu(), tensor_columns(split.metadata))


def embed_split(method: Any, split: Any, views: Views, batch_size: int = 512) -> Tensor:
    """Unit-norm projections (N, d) of a split, float32 on the CPU; each process computes its part."""
    mine = ranks.chunk(len(split))
    projected = _forward(method, method.project, split, views, mine, batch_size, 0)
    return ranks.gather_rows(functional.normalize(projected.float(), dim=1), len(split)).cpu()


def _forward(
    method: nn.Module,
    function: Callable[[Tensor], Tensor],
    split: Any,
    views: Views,
    indices: range,
    batch_size: int,
    workers: int,
) -> Tensor:
    like = next(method.parameters())
    with evaluating(method), torch.no_grad():
        batches = _plain_batches(split, views, indices, batch_size, workers)
        return torch.cat([function(batch.to(like)) for batch in batches])


def _plain_batches(
    split: Any, views: Views, indices: range, batch_size: int, workers: int
) -> Iterator[Tensor]:
    images = getattr(split, "images", getattr(split, "vectors", None))
    if isinstance(images, Tensor) and len(images) == len(split):
        for piece in ranks.slices(indices, batch_size):
            yield views.plain(images[piece.start : piece.stop])
        return
    loader = torch.utils.data.DataLoader(
        _Plain(split, views),
        batch_sampler=[list(piece) for piece in ranks.slices(indices, batch_size)],
        num_workers=workers,
        # A generator of its own: the loader would draw a seed from the training's.
        generator=torch.Generator(),
    )
    yield from loader


class _Plain(torch.utils.data.Dataset[Tensor]):
    """A split's images as `Views.plain` gives them."""

    def __init__(self, split: Any, views: Views) -> None:
        self.split = split
        self.views = views

    def __getitem__(self, index: int) -> Tensor:
        return self.views.plain(self.split[index][0])


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode, and after it every sub-module in the mode it was in."""
    modes: Sequence[tuple[nn.Module, bool]] = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for each, mode in modes:
            each.training = mode
