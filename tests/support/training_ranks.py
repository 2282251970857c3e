"""Functions that each of two ranks runs in the tests of training on several processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback
from support.training_fakes import FakeDataset, FakeTransform, fit, make_parts
from torch import Tensor, nn

from ccl_plugins.backbones import TextTransformer, Timm
from ccl_plugins.files import mapped
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.methods import IBOT, Dual, MoCoV2, SimCLR
from ccl_plugins.objectives import (
    AlignUniform,
    DINOLoss,
    Distillation,
    IBOTLoss,
    InfoNCE,
    KoLeo,
    Mixture,
)
from ccl_plugins.protocols import Table
from ccl_plugins.training.fitting import CannotBegin
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.ranks import chunk, gather_rows, on_first, rank
from ccl_plugins.training.saved import ResumePoint
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.transforms import Modalities, SimCLRTransform, TokenTransform


class Small(nn.Sequential):
    num_features = 8

    def __init__(self) -> None:
        torch.manual_seed(0)
        # Layer normalization: SyncBatchNorm does not run on a CPU.
        super().__init__(nn.Flatten(), nn.Linear(48, 8), nn.LayerNorm(8), nn.ReLU())


def adapted() -> nn.Module:
    """A small ViT of which low-rank matrices learn, with blocks that are computed twice."""
    options = {"img_size": 4, "patch_size": 2, "embed_dim": 8, "depth": 2, "num_heads": 2}
    lora: Any = {"rank": 2, "on": "qkv"}
    return Timm("vit_tiny_patch16_224", options=options, lora=lora, checkpointing=True)


def kept() -> nn.Module:
    """A small ResNet whose batch normalizations keep their statistics."""
    options = {"channels": [8, 8, 8, 8]}
    return Timm("resnet10t", options=options, batch_statistics="kept")


class Projected:
    """A refreshed condition that reads the embeddings of all ranks."""

    refresh, value_type = "epoch", "continuous"
    reads_embeddings = True

    def fit(self, split: Any, embed: Any, previous: Any) -> Tensor:
        return embed()


class Losses(Callback):
    """Keeps the loss of every batch, of all ranks."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        self.seen.append(float(trainer.strategy.reduce(outputs["loss"].detach(), reduce_op="mean")))


def make_method(name: str) -> Any:
    torch.manual_seed(0)
    if name.startswith("ibot"):
        options = {"img_size": 4, "patch_size": 1, "embed_dim": 8, "depth": 2, "num_heads": 2}
        vit = Timm("vit_tiny_patch16_224", options=options, features="token")
        sizes = {"hidden": 8, "bottleneck": 4, "dim": 6, "momentum": 0.9}
        return IBOT(**sizes, shared_head=name == "ibot", backbone=vit)
    if name.startswith("dual"):
        tower = TextTransformer(vocabulary=257, length=3, width=8, depth=1, heads=2)
        queue = {"queue_size": 20, "momentum": 0.9} if name == "dual with a queue" else {}
        return Dual({"word": tower}, dim=4, **queue, backbone=Small())
    own = {"simclr with lora": adapted, "simclr, kept statistics": kept}
    backbone = own.get(name, Small)()
    heads = {"hidden": 8, "dim": 4, "batch_norm": False, "backbone": backbone}
    return (
        SimCLR(**heads)
        if name.startswith("simclr")
        else MoCoV2(**heads, queue_size=20, momentum=0.9)
    )


def objective_for(method: str) -> Any:
    if method.endswith("features alone"):
        return Distillation("relational")
    if not method.startswith("ibot"):
        return InfoNCE()
    terms = [DINOLoss(), IBOTLoss(centering="sinkhorn"), IBOTLoss(), KoLeo("features")]
    return Mixture(terms, [1.0, 0.5, 0.5, 0.1])


def parts_for(method: str) -> Parts:
    return make_parts(
        dataset=FakeDataset(21),
        transform=views_for(method),
        method=make_method(method),
        objective=objective_for(method),
        conditions={"condition": Projected()},
    )


def views_for(method: str) -> Any:
    if method.startswith("ibot"):
        return FakeTransform(3)
    if method == "simclr, batched views":
        return SimCLRTransform(size=4, batched=True)
    if not method.startswith("dual"):
        return FakeTransform()
    return Modalities({"image": FakeTransform(1), "word": TokenTransform("word", length=3)})


def train(
    folder: str, devices: int, method: str = "simclr", **settings: Any
) -> tuple[dict[str, Tensor], Tensor, list[float]]:
    """The method's state, the condition's last table, and the loss of every batch."""
    parts = parts_for(method)
    given = {"epochs": 2, "batch_size": 8, "workers": 0, "devices": devices, **settings}
    losses = Losses()
    fit(parts, FitSettings(**given), Path(folder), {}, callbacks=[losses], progress=False)
    table = ResumePoint.newest(RunFolder(Path(folder))).tables["condition"]["values"]
    return parts.method.state_dict(), table, losses.seen


def train_as_rank(folder: str, method: str = "simclr", settings: Any = None) -> Any:
    """`train`, with what a launcher tells each process."""
    return as_rank(lambda: train(folder, 2, method, **(settings or {})))


def train_with_files(folder: str, method: str = "simclr", settings: Any = None) -> Any:
    """`train_as_rank` with every table in a file; whether it is in one that this process maps."""
    before, mapped.LARGE = mapped.LARGE, 0
    try:
        found = train_as_rank(folder, method, settings)
        return *found, mapped.place_of(found[1]) is not None
    finally:
        mapped.LARGE = before


def as_rank(function: Callable[[], Any]) -> Any:
    """Call a function on a process as if a launcher had started it."""
    variables = {"LOCAL_RANK": str(rank()), "NODE_RANK": "0", "WORLD_SIZE": "2"}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    os.environ.update(variables)
    try:
        return function()
    finally:
        for name in variables:
            os.environ.pop(name, None)  # Lightning takes some away itself


def said(kind: type[Exception], function: Callable[..., Any], *args: Any, **options: Any) -> str:
    """The text of the error of a kind that a call ends with; "nothing" if it ends without one."""
    try:
        function(*args, **options)
    except kind as error:
        return str(error)
    return "nothing"


def train_unevenly(folder: str) -> str:
    """The error on each rank if the second has fewer samples than the first."""

    class Fewer(Callback):
        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, _: int) -> None:
            if rank() == 1:
                batch.views[:] = [view[:3] for view in batch.views]

    def run() -> str:
        parts = make_parts(method=make_method("simclr"), objective=InfoNCE())
        given = parts, FitSettings(1, 8, workers=0, devices=2), Path(folder), {}
        return said(ValueError, fit, *given, callbacks=[Fewer()], progress=False)

    return as_rank(run)


class OnSecond:
    """NaN on the second rank."""

    def terms(self, pairs: Any) -> tuple[Tensor, Tensor]:
        values, weights = super().terms(pairs)  # type: ignore[misc]  # of the objective
        return (values * float("nan") if rank() == 1 else values), weights


class Local(OnSecond, InfoNCE):
    """Terms of a rank's own anchors."""


class Replicated(OnSecond, AlignUniform):
    """Terms of all ranks' anchors."""


def train_on_nan(objective: type[nn.Module], folder: str) -> str:
    """The error on each rank if the second's loss is not finite."""

    def run() -> str:
        parts = make_parts(method=make_method("simclr"), objective=objective())
        settings = FitSettings(1, 8, workers=0, devices=2, detect_anomaly=True)
        return said(ArithmeticError, fit, parts, settings, Path(folder), {}, progress=False)

    return as_rank(run)


def gather_chunks(size: int) -> Tensor:
    """Every rank's rows, joined."""
    return gather_rows(torch.tensor(list(chunk(size)))[:, None], size)


def share_table(dtype: torch.dtype) -> Table:
    """A condition's table, of which the first rank alone has the numbers."""
    extras = {"some": torch.arange(3), "one": torch.tensor(1), "none": torch.zeros(0, 2)}

    def fit_it() -> Any:
        return {"z": Table(torch.ones(5), {k: v.to(dtype) for k, v in extras.items()})}

    return on_first(fit_it)["z"]


def train_with_a_layer_that_is_not_read(folder: str) -> str:
    """The error on each rank."""

    def run() -> str:
        method = make_method("simclr")
        method.spare = nn.Linear(2, 2)
        parts = make_parts(method=method, objective=InfoNCE(), conditions={})
        settings = FitSettings(1, 8, workers=0, devices=2)
        return said(ValueError, fit, parts, settings, Path(folder), {}, progress=False)

    return as_rank(run)


def resume_on_first(folder: str) -> str:
    """The error on each rank if the second does not see the checkpoint of the first."""

    def run() -> str:
        def train(resume: bool) -> None:
            parts = make_parts(method=make_method("simclr"), objective=InfoNCE(), conditions={})
            settings = FitSettings(2 if resume else 1, 8, workers=0, devices=2)
            fit(parts, settings, Path(folder), {}, resume and rank() == 0, progress=False)

        train(resume=False)
        return said(CannotBegin, train, resume=True)

    return as_rank(run)


def fail_on_first() -> str:
    """The error on each rank if a condition cannot be fitted."""

    def fit_it() -> Any:
        raise ValueError("no")

    try:
        on_first(fit_it)
    except (ValueError, RuntimeError) as error:
        return str(error)
    return ""


def train_with_other_settings(change: dict[str, Any], versions: str, folder: str) -> str:
    """The error on each rank if the second has other settings, or another version, than the first."""

    def run() -> str:
        parts = make_parts(method=make_method("simclr"), objective=InfoNCE(), conditions={})
        given: dict[str, Any] = {"epochs": 1, "batch_size": 8, "workers": 0, "devices": 2}
        settings = FitSettings(**{**given, **(change if rank() else {})})
        record = {
            "objective": {"use": "objective:ccl-plugins/infonce"},
            "versions": {"ccl-plugins": versions if rank() else "1.0"},
            "fit": settings.to_dict(),
        }
        return said(CannotBegin, fit, parts, settings, Path(folder), record, progress=False)

    return as_rank(run)


def train_on_other_data(change: str, folder: str) -> str:
    """The error on each rank if the second has other data than the first."""

    def run() -> str:
        dataset = FakeDataset(20 if rank() == 0 or change != "samples" else 12)
        if rank() == 1 and change == "label":
            dataset.split.metadata["label"] = dataset.split.metadata["label"].flip(0)
        if rank() == 1 and change == "images":
            dataset.split.images = 255 - dataset.split.images
        parts = make_parts(
            dataset=dataset, method=make_method("simclr"), objective=InfoNCE(), conditions={}
        )
        settings = FitSettings(1, 8, workers=0, devices=2)
        return said(CannotBegin, fit, parts, settings, Path(folder), {}, progress=False)

    return as_rank(run)
