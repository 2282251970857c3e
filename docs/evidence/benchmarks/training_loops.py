"""The two training loops that the benchmark compares: ours, and lightly's models by hand in Lightning."""

from __future__ import annotations

import copy
import tempfile
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightly.loss import NTXentLoss
from lightly.models.modules import MoCoProjectionHead, SimCLRProjectionHead
from lightly.models.utils import deactivate_requires_grad, update_momentum
from lightly.utils.scheduler import cosine_schedule
from pytorch_lightning import Callback
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import ccl_plugins as ccl
from ccl_plugins.backbones import Timm
from ccl_plugins.experiments import RunFolder
from ccl_plugins.methods import MoCoV2, SimCLR
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.optimizers import AdamW
from ccl_plugins.samplers import Uniform
from ccl_plugins.training.fitting import fit
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.settings import FitSettings

HIDDEN, DIM, QUEUE, TEMPERATURE = 512, 128, 4096, 0.1
LOOPS = ("ours", "by_hand")


class Images(Dataset[Any]):
    """Random images in memory, at most 1,024 different ones; both the data set component and its split."""

    def __init__(self, size: int, side: int = 32) -> None:
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randint(
            0, 256, (min(size, 1024), 3, side, side), generator=generator, dtype=torch.uint8
        )
        self.metadata = {"label": torch.zeros(size, dtype=torch.long)}

    def __call__(self, split: str) -> Images:
        """The split."""
        return self

    def __len__(self) -> int:
        return len(self.metadata["label"])

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index % len(self.images)], 0


class Plain:
    """Two views that are the image itself: what is left is the work of the loop and of the networks."""

    count = 2

    def __call__(self, image: Tensor) -> list[Tensor]:
        """The views of an image."""
        return [image / 255] * 2


class Augmented(Dataset[Any]):
    """The views of each image, as the loop by hand loads them."""

    def __init__(self, images: Images, views: Any) -> None:
        self.images, self.views = images, views

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> list[Tensor]:
        drawn: list[Tensor] = self.views(self.images[index][0])
        return drawn


class ByHand(pl.LightningModule):
    """SimCLR as in lightly's examples; both views in one pass, for the same batch statistics as ours."""

    def __init__(self, backbone: Any) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = SimCLRProjectionHead(backbone.num_features, HIDDEN, DIM)
        self.criterion = NTXentLoss(TEMPERATURE)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        """The loss of two views."""
        loss: Tensor = self.criterion(*self.head(self.backbone(torch.cat(batch))).chunk(2))
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        """The same optimizer as ours."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=1e-4)


class MoCoByHand(ByHand):
    """MoCo as in lightly's examples."""

    def __init__(self, backbone: Any, epochs: int) -> None:
        super().__init__(backbone)
        self.head = MoCoProjectionHead(backbone.num_features, HIDDEN, DIM)
        self.key_backbone, self.key_head = copy.deepcopy([self.backbone, self.head])
        deactivate_requires_grad(self.key_backbone)
        deactivate_requires_grad(self.key_head)
        self.criterion = NTXentLoss(TEMPERATURE, memory_bank_size=(QUEUE, DIM))
        self.epochs = epochs

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        """The loss of queries and keys."""
        momentum = cosine_schedule(self.current_epoch, self.epochs, 0.996, 1)
        update_momentum(self.backbone, self.key_backbone, momentum)
        update_momentum(self.head, self.key_head, momentum)
        query = self.head(self.backbone(batch[0]))
        with torch.no_grad():
            key = self.key_head(self.key_backbone(batch[1]))
        loss: Tensor = self.criterion(query, key)
        self.log("loss", loss)
        return loss


class Clock(Callback):
    """Processor time from the end of one batch to the end of the next, or wall-clock time.

    In wall-clock time, a GPU is waited for after the second and the last batch alone, so that the processor
    may run ahead in between; only the sum of the seconds then counts.
    """

    def __init__(self, wall: bool = False) -> None:
        self.wall = wall
        self.ends: list[float] = []

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Store the time."""
        last = trainer.num_training_batches
        if self.wall and torch.cuda.is_available() and len(self.ends) + 1 in (2, last):
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter() if self.wall else time.process_time())

    def seconds(self) -> list[float]:
        """Seconds of every batch but the first two, which include set-up."""
        return [b - a for a, b in zip(self.ends[1:], self.ends[2:], strict=False)]


def run(cell: dict[str, Any], clock: Clock | None = None) -> list[float]:
    """Train for some steps and return the seconds of each, processor time unless the clock says otherwise.

    Args:
        cell: What is trained: ``loop``, ``method``, ``backbone``, ``batch`` and ``steps``; and if not as by
            default ``side`` of the images, ``plain`` views, ``workers``, ``precision`` and ``micro_batch``.
        clock: The clock.
    """
    torch.manual_seed(0)
    clock, side = clock or Clock(), cell.get("side", 32)
    images = Images(cell["batch"] * cell["steps"], side)
    views = Plain() if cell.get("plain") else ccl.create("transform", "simclr", size=side)
    with tempfile.TemporaryDirectory() as folder:
        loop = ours if cell["loop"] == "ours" else by_hand
        loop(cell, images, views, Path(folder), clock)
    if len(clock.ends) != cell["steps"]:  # Lightning ends a run early, in silence, at a signal
        raise RuntimeError(f"{len(clock.ends)} steps of {cell['steps']} were trained")
    return clock.seconds()


def method(cell: dict[str, Any]) -> Any:
    """Our method around the backbone."""
    backbone = Timm(cell["backbone"])
    if cell["method"] == "simclr":
        return SimCLR(HIDDEN, DIM, backbone=backbone)
    return MoCoV2(HIDDEN, DIM, queue_size=QUEUE, momentum=0.996, backbone=backbone)


def ours(cell: dict[str, Any], images: Images, views: Any, out: Path, clock: Clock) -> None:
    """Train with the engine of this library."""
    objective = InfoNCE(TEMPERATURE, within_view=cell["method"] == "simclr")
    parts = Parts(images, views, method(cell), objective, sampler=Uniform)
    settings = FitSettings(
        1,
        cell["batch"],
        optimizer=AdamW(lr=1e-3),
        workers=cell.get("workers", 0),
        precision=cell.get("precision", "32-true"),
        micro_batch=cell.get("micro_batch"),
    )
    fit(
        parts,
        images("train"),
        settings,
        {},
        run=RunFolder(out),
        callbacks=[clock],
        progress=False,
    )


def by_hand(cell: dict[str, Any], images: Images, views: Any, out: Path, clock: Clock) -> None:
    """Train with Lightning's defaults, without its output."""
    backbone = Timm(cell["backbone"])
    model = ByHand(backbone) if cell["method"] == "simclr" else MoCoByHand(backbone, 1)
    trainer = pl.Trainer(
        max_epochs=1,
        callbacks=[clock],
        default_root_dir=out,
        precision=cell.get("precision", "32-true"),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(
        Augmented(images, views),
        cell["batch"],
        shuffle=True,
        drop_last=True,
        num_workers=cell.get("workers", 0),
        pin_memory=torch.cuda.is_available(),
    )
    trainer.fit(model, loader)
