"""Tiny parts that satisfy the protocols, for runs of seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.loggers import TensorBoard
from ccl_plugins.pairs import Samples
from ccl_plugins.protocols import Embedded
from ccl_plugins.training import fitting
from ccl_plugins.training.fitting import FitResult
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.same_data import fingerprint
from ccl_plugins.training.saved import ResumePoint
from ccl_plugins.training.settings import FitSettings


class Split(torch.utils.data.Dataset[Any]):
    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images = images
        self.metadata = {"label": labels, "word": ["ab"[int(i) % 2] for i in labels]}

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return self.images[index], int(self.metadata["label"][index])


class FakeDataset:
    def __init__(self, size: int = 20, classes: int = 4) -> None:
        generator = torch.Generator().manual_seed(1)
        images = torch.randint(0, 256, (size, 3, 4, 4), generator=generator, dtype=torch.uint8)
        self.split = Split(images, torch.arange(size) % classes)

    def __call__(self, split: str) -> Split:
        return self.split

    def schema(self) -> Mapping[str, str]:
        return {"label": "categorical", "word": "categorical"}


def noisy(image: Tensor) -> Tensor:
    """Draws from torch, numpy and python, as lightly's transforms do."""
    import random

    import numpy as np

    shift = float(np.random.rand()) + random.random()
    return image / 255 + 0.1 * torch.randn(image.shape) + 0.1 * shift


class FakeTransform:
    def __init__(self, count: int = 2, separate: bool = True) -> None:
        self.count = count
        if separate:
            self.transforms = [noisy] * count

    def __call__(self, image: Tensor) -> list[Tensor]:
        return [noisy(image) for _ in range(self.count)]

    def plain(self, image: Tensor) -> Tensor:
        return image / 255


@dataclass(frozen=True, eq=False)
class FakePairs:
    projections: Tensor
    samples: Samples

    @property
    def anchors(self) -> Tensor:
        return self.projections


class FakeMethod(nn.Module):
    """Batch norm, dropout and a queue: the states that a resume must restore."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.backbone = nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(8, 4))
        self.register_buffer("queue", torch.zeros(8, 4))
        self.register_buffer("momentum_steps", torch.zeros((), dtype=torch.long))
        self.calls: list[tuple[int, int]] = []

    def encode(self, x: Tensor) -> Tensor:
        return self.backbone(x)

    def project(self, x: Tensor) -> Tensor:
        return self.head(self.encode(x))

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        features = torch.stack([self.encode(view) for view in views])
        return Embedded(features, self.head(features))

    def pairs(self, embedded: Embedded, samples: Samples) -> FakePairs:
        return FakePairs(embedded.projections, samples)

    def enqueue(self, pairs: FakePairs) -> None:
        keys = pairs.projections[0].detach()
        self.queue.copy_(torch.cat([keys, self.queue])[: len(self.queue)])

    def after_step(self, step: int, total: int) -> None:
        self.momentum_steps += 1
        self.calls.append((step, total))


class FakeObjective(nn.Module):
    conditions: Mapping[str, Sequence[str]] = {}
    within_view = False
    min_views = 2
    embedding = "sphere"
    distributed = "mean"

    def __init__(self) -> None:
        super().__init__()
        self.log_temperature = nn.Parameter(torch.zeros(()))
        self.seen: list[list[int]] = []

    def terms(self, pairs: FakePairs) -> tuple[Tensor, Tensor]:
        self.seen.append(pairs.samples.index.tolist())
        a, b = pairs.projections[0], pairs.projections[1]
        logits = a @ b.T * self.log_temperature.exp()
        target = torch.arange(len(a), device=a.device)
        values = nn.functional.cross_entropy(logits, target, reduction="none")[None]
        return values, torch.ones_like(values)

    def loss(self, pairs: FakePairs) -> Tensor:
        values, weights = self.terms(pairs)
        return (values * weights).sum() / weights.sum()


def shuffled(*, size: int, batch_size: int, seed: int) -> Any:
    from ccl_plugins.samplers.uniform import Uniform

    return Uniform(size=size, batch_size=batch_size, seed=seed)


def make_parts(**changes: Any) -> Parts:
    given: dict[str, Any] = {
        "dataset": FakeDataset(),
        "transform": FakeTransform(),
        "method": FakeMethod(),
        "objective": FakeObjective(),
        "sampler": shuffled,
    }
    return Parts(**{**given, **changes})


def fit(
    parts: Parts,
    settings: FitSettings,
    folder: Path,
    record: Mapping[str, Any],
    resume: bool = False,
    **options: Any,
) -> FitResult:
    """Train into a run's folder, or resume its newest checkpoint."""
    folder.mkdir(exist_ok=True)
    run = RunFolder(folder)
    split = parts.dataset("train")
    point = ResumePoint.newest(run) if resume else None
    if "loggers" not in options:
        options["loggers"] = [TensorBoard().open(folder, point.step if point else None)]
    return fitting.fit(
        parts,
        split,
        settings,
        {**record, "data": {"train": fingerprint(split, settings.workers)}},
        run=run,
        resume=point,
        **options,
    )
