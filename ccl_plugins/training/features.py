"""Features and embeddings of a whole split, computed without augmentation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins.files.mapped import Filling, Rows, rows
from ccl_plugins.metadata.columns import columns_and_words
from ccl_plugins.metadata.groups import sample_groups
from ccl_plugins.numerics.generators import undisturbed
from ccl_plugins.protocols import Frozen, Images, Towers, Transform, trait
from ccl_plugins.training import ranks
from ccl_plugins.training.first_use import check_rows
from ccl_plugins.training.loader import Items, collate, data_loader, read_batch
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.tables import Embedding
from ccl_plugins.transforms.modalities import IMAGE, texts_of


def frozen_features(
    method: Any,
    split: Any,
    transform: Transform,
    batch_size: int = 512,
    workers: int = 0,
    projections: bool = False,
    folder: Path | None = None,
) -> Frozen:
    """The backbone's features of every sample of a split, in evaluation mode, without augmentation.

    The result also gives access to the images, for an evaluator that trains a copy of the backbone.

    Args:
        method: A `ccl_plugins.protocols.Method`; it stays on its device.
        split: A torch Dataset of ``(image, ...)`` with ``metadata``.
        transform: Its ``plain`` makes the tensors.
        batch_size: Samples per forward pass.
        workers: Processes that read images, if the split is not in memory.
        projections: Whether to project augmented views too, the same in every call.
        folder: The folder for an unnamed file of large features; None: they stay in memory.
    """
    into = Filling(len(split), folder)
    features, _ = _forward(method, method.encode, split, transform, batch_size, workers, into)
    images = Images(
        torch.arange(len(split)),
        partial(plain_batches, split, transform, workers),
        partial(copy.deepcopy, method.backbone),
    )
    columns, words = columns_and_words(split.metadata)
    return Frozen(
        features,
        columns,
        images,
        _towers(method, features, split, transform, batch_size),
        vocabulary={**words, **getattr(split, "vocabulary", {})},
        projections=_projections(method, split, transform, batch_size, workers, folder)
        if projections
        else None,
        groups=sample_groups(split),
        freeze=partial(
            frozen_features,
            method,
            transform=transform,
            batch_size=batch_size,
            workers=workers,
            folder=folder,
        ),
    )


def _projections(
    method: Any,
    split: Any,
    transform: Transform,
    batch_size: int,
    workers: int,
    folder: Path | None,
) -> Tensor:
    """(u, N, d) unit-norm projections of the views of each sample, whose augmentations are seeded by 0."""
    like = next(method.parameters())
    keys = [(0, row, row) for row in range(len(split))]
    pieces = [keys[i : i + batch_size] for i in range(0, len(keys), batch_size)]
    loader = data_loader(Items(split, transform, seed=0), pieces, collate, workers)
    into = Filling(len(split), folder)
    with evaluating(method), torch.no_grad():
        for batch in loader:
            names = trait(transform, "modalities") or [IMAGE] * len(batch.views)
            projected = [
                method.project(view.to(like))
                if name == IMAGE
                else method.embed_modality(name, view.to(like.device))
                for name, view in zip(names, batch.views, strict=True)
            ]
            into.add(functional.normalize(torch.stack(projected, dim=1).float(), dim=-1).cpu())
    return into.done()[0].transpose(0, 1)


def _towers(
    method: Any, features: Tensor, split: Any, transform: Transform, batch_size: int
) -> Towers | None:
    """The projections of images and texts, if a method has a tower for a modality of texts."""
    if texts_of(transform) is None or not trait(method, "embed_modality"):
        return None
    head = method.heads[IMAGE]
    with evaluating(head), torch.no_grad():
        like = next(head.parameters())
        images = torch.cat([head(piece.to(like)).cpu() for piece in features.split(batch_size)])
    return Towers(
        functional.normalize(images.float(), dim=1).cpu(),
        partial(embed_texts, method, transform, batch_size=batch_size),
        dict(getattr(split, "texts", {})),
    )


def embed_texts(
    method: Any, transform: Transform, texts: Sequence[str], batch_size: int = 512
) -> Tensor:
    """Unit-norm projections (k, d) of k texts, float32 on the CPU, in evaluation mode.

    Raises:
        ValueError: For a method or a transform without a modality of texts.
    """
    read = texts_of(transform)
    if read is None or not trait(method, "embed_modality"):
        raise ValueError(
            f"{type(method).__name__} has no tower for texts: a method dual has one, with transform ="
            ' {image = "simclr", text = "tokens"}'
        )
    name, tokens = read
    device = next(method.parameters()).device  # type: ignore[attr-defined]  # of the module
    given, projections = list(texts), []
    with evaluating(method), torch.no_grad():  # type: ignore[arg-type]
        for first in range(0, len(given), batch_size):
            batch = tokens.plain(given[first : first + batch_size])
            projected = method.embed_modality(name, batch.to(device))
            projections.append(functional.normalize(projected.float(), dim=1).cpu())
    return torch.cat(projections)


def embed_split(
    method: Any,
    split: Any,
    transform: Transform,
    batch_size: int = 512,
    of: Embedding = "projection",
    workers: int = 0,
    file: Path | None = None,
) -> Tensor:
    """Projections, keys or features (N, d) of a split, float32 on the CPU; each process computes a part.

    Projections and keys are unit-norm; features are the backbone's, unchanged.

    Args:
        method: A `ccl_plugins.protocols.Method`; it stays on its device.
        split: The split.
        transform: Its ``plain`` makes the tensors.
        batch_size: Samples per forward pass.
        of: The vectors to compute.
        workers: Processes that read images, if the split is not in memory.
        file: The file of the run for large results, where each process writes its part; None: they
            are gathered in memory.

    Raises:
        ValueError: For keys of a method without a momentum encoder.
    """
    if of == "key" and not trait(method, "project_key"):
        raise ValueError(f"{type(method).__name__} has no momentum encoder and so no keys")
    project = method.project_key if of == "key" else method.project

    def unit(batch: Tensor) -> Tensor:
        return functional.normalize(project(batch).float(), dim=1)

    size = len(split)
    folder, name = (file.parent, file.name) if file is not None else (None, None)
    into = Filling(size, folder, name, ranks.chunk(size))
    function = method.encode if of == "features" else unit
    embedded, in_file = _forward(method, function, split, transform, batch_size, workers, into)
    if not in_file:
        return ranks.gather_rows(embedded, size).cpu()
    ranks.all_of(True)  # waits for the rows of the other processes
    return embedded


def _forward(
    method: nn.Module,
    function: Callable[[Tensor], Tensor],
    split: Any,
    transform: Transform,
    batch_size: int,
    workers: int,
    into: Filling,
) -> tuple[Tensor, bool]:
    like = next(method.parameters())
    if not len(split):
        raise ValueError("there are no samples to embed")
    # A process without samples, of a split with few, computes a row for its shape.
    part = into.part or range(1)
    pieces = list(torch.arange(part.start, part.stop).split(batch_size))
    with evaluating(method), torch.no_grad():
        for batch in plain_batches(split, transform, workers, pieces):
            into.add(function(batch.to(like)).float().cpu()[: len(into.part)])
    return into.done()


def plain_batches(
    split: Any, transform: Transform, workers: int, pieces: list[Tensor]
) -> Iterator[Tensor]:
    """The un-augmented images of parts of a split, each given by its rows (k,)."""
    samples = getattr(split, "samples", None)
    held = getattr(split, "images", samples.values if isinstance(samples, Rows) else None)
    if isinstance(held, Tensor) and len(held) == len(split):
        for piece in pieces:
            yield transform.plain(rows(held, piece))
        return
    parts = [piece.tolist() for piece in pieces]
    yield from data_loader(split, parts, partial(_stack, transform), workers)


def _stack(transform: Transform, samples: Sequence[Any]) -> Tensor:
    return torch.stack([transform.plain(sample[0]) for sample in samples])


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode; afterwards restore the mode of every sub-module."""
    modes = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for each, mode in modes:
            each.training = mode


def widths(parts: Parts, split: Any, settings: FitSettings) -> tuple[int, int]:
    """The widths of features and of projections, from the first sample in evaluation mode."""
    items = Items(split, parts.transform, settings.seed)
    batch = read_batch(items, [(0, 0, 0)], collate, settings.workers)
    with undisturbed(), evaluating(parts.method), torch.no_grad():
        method, device = parts.method, next(parts.method.parameters()).device
        views = [view.to(device) for view in batch.views]
        features = check_rows(method, "encode", method.encode(views[0]))
        projections = check_rows(method, "project", method.project(views[0]))
        if trait(parts.transform, "modalities") or trait(parts.transform, "sizes"):
            # Networks of other modalities, and views of other sizes, are seen too.
            method.embed(views)
        return features, projections
