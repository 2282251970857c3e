"""Counts what a step of ``dino`` with a ViT-B computes and keeps; writes ``vit_step.md``.

Nothing is computed: the tensors have shapes and types alone (torch's fake tensors), on which torch counts
the operations of matrix products and attention, and hooks see what is kept for the backward pass.  The
hours are estimated from these counts; ``gpu.py adapt`` measures the step on a GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import torch
from memory import high_water
from pages import parser, publish, span
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from ccl_plugins.backbones import LoRA, Timm
from ccl_plugins.methods import DINO
from ccl_plugins.objectives import DINOLoss
from ccl_plugins.pairs import Samples
from ccl_plugins.protocols import Sizes

NAME, SIDE, SMALL, CHANNELS, PROTOTYPES, RANK = "vit_base_patch14_dinov2", 224, 6, 5, 4096, 16
WAYS: dict[str, dict[str, Any]] = {
    "all weights": {},
    "`checkpointing`": {"checkpointing": True},
    "`lora`": {"lora": LoRA(RANK, "qkv")},
    "`lora`, `checkpointing`": {"lora": LoRA(RANK, "qkv"), "checkpointing": True},
}
MAKERS = {"RTX 4090": 165e12, "A100": 312e12, "H100 (SXM)": 989e12}
"""The makers' peaks of dense products in bf16, in operations a second."""

REACHED, PASSES = 0.4, 1_000_000
"""The part of the peak that a step is assumed to reach, and the images that hours are given for."""


class Counted(NamedTuple):
    """What a step does: operations, bytes that are kept for the backward pass, and weights."""

    operations: int
    kept: int
    learn: int
    all: int


def made(
    way: str, name: str = NAME, side: int = SIDE, prototypes: int = PROTOTYPES, **head: int
) -> tuple[DINO, DINOLoss]:
    """The method and the objective of one way."""
    options = {"in_chans": CHANNELS, "img_size": side, "dynamic_img_size": True}
    method = DINO(**head, dim=prototypes, backbone=Timm(name, options=options, **WAYS[way]))
    objective = DINOLoss()
    objective.setup({}, Sizes(samples=1, embedding=prototypes, features=1, steps=1))
    return method, objective


def views_of(method: DINO, size: int, side: int = SIDE, device: str = "cpu") -> list[Tensor]:
    """Two large views of ``size`` images, and small ones of 7/16 of their patches in a row."""
    patch = method.backbone.model.patch_embed.patch_size[0]
    small = patch * max(1, side // patch * 7 // 16)
    sides = (side, side, *[small] * SMALL)
    return [torch.randn(size, CHANNELS, each, each, device=device) for each in sides]


def loss_of(method: DINO, objective: DINOLoss, views: Sequence[Tensor]) -> Tensor:
    """The loss of a step, in bf16 under autocast as ``precision = "bf16-mixed"`` has it."""
    with torch.autocast(views[0].device.type, torch.bfloat16):
        embedded = method.embed(views)
    return objective.loss(method.pairs(embedded, Samples({})))


def without_memory(mode: FakeTensorMode, *modules: nn.Module) -> None:
    """Replace parameters and buffers by fake ones of a CPU, in place."""
    fakes: dict[int, Any] = {}
    for module in (each for one in modules for each in one.modules()):
        for own in (module._parameters, module._buffers):
            for name, tensor in own.items():
                if tensor is not None and id(tensor) not in fakes:
                    with mode:
                        fake: Tensor = torch.empty_like(tensor.detach(), device="cpu")
                    learns = isinstance(tensor, nn.Parameter)
                    fakes[id(tensor)] = nn.Parameter(fake, tensor.requires_grad) if learns else fake
                if tensor is not None:
                    own[name] = fakes[id(tensor)]


def count(method: DINO, objective: DINOLoss, mode: FakeTensorMode, size: int) -> Counted:
    """What a step on ``size`` images does; weights and views are not counted among what it keeps."""
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with mode, FlopCounterMode(display=False) as operations:
        views = views_of(method, size)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = loss_of(method, objective, views)
        for tensor in (*method.parameters(), *method.buffers(), *views):
            kept.pop(tensor.untyped_storage()._cdata, None)
        size_of = [tensor.untyped_storage().nbytes() for tensor in kept.values()]
        loss.backward()
    weights = [*method.parameters()]
    learn = sum(each.numel() for each in weights if each.requires_grad)
    total = sum(each.numel() for each in weights)
    return Counted(operations.get_total_flops(), sum(size_of), learn, total)


def beside(way: str, size: int = 8) -> tuple[float, float]:
    """The measured peak of a forward pass of a ViT-Ti on a CPU, and the count, in MB."""
    torch.set_num_threads(1)
    ctypes.CDLL(None).mallopt(-3, 65536)  # M_MMAP_THRESHOLD: what is freed is given back at once
    method, objective = made(way, "vit_tiny_patch16_224", prototypes=512)
    loss_of(method, objective, views_of(method, 1)).backward()  # loads what is loaded once
    views, losses = views_of(method, size), []
    measured = high_water(lambda: losses.append(loss_of(method, objective, views)))
    losses.clear()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    without_memory(mode, method, objective)
    return measured / 1e6, count(method, objective, mode, size).kept / 1e6


def alone(way: str) -> tuple[float, float]:
    """`beside` in a new process."""
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        return pool.submit(beside, way).result()


def row(way: str, size: int) -> tuple[str, float]:
    """The line of one way, and its operations for an image."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with torch.device("meta"):  # no weights are drawn
        method, objective = made(way)
    without_memory(mode, method, objective)
    one, two = (count(method, objective, mode, n) for n in (1, 2))
    operations, each = two.operations - one.operations, two.kept - one.kept
    fixed = one.kept - each
    # In float32: all weights, and of those that learn the gradient and two moments of AdamW.
    total = 4 * one.all + 12 * one.learn + fixed + size * each
    cells = (
        f"{one.learn / 1e6:.1f}",
        f"{operations / 1e9:.0f}",
        f"{each / 1e6:.0f}",
        f"{fixed / 1e6:.0f}",
        f"{total / 1e9:.1f}",
    )
    return f"| {way} | {' | '.join(cells)} |", operations


def main() -> None:
    """Count and write the page."""
    command = parser(__doc__, "one way")
    command.add_argument("--size", type=int, default=64, help="images in a batch")
    options = command.parse_args()
    ways = [*WAYS][-1:] if options.quick else [*WAYS]
    checked = [alone(way) for way in ways]
    lines, operations = zip(*(row(way, options.size) for way in ways), strict=True)
    both = "; ".join(f"{measured:.0f} and {counted:.0f}" for measured, counted in checked)
    hours = [
        f"| {way} | "
        + " | ".join(f"{PASSES * each / (REACHED * peak) / 3600:.1f}" for peak in MAKERS.values())
        + " |"
        for way, each in zip(ways, operations, strict=True)
    ]
    peaks = ", ".join(f"{name} {peak / 1e12:.0f}" for name, peak in MAKERS.items())
    columns = (
        "what learns",
        "weights that learn (M)",
        "operations an image (10⁹)",
        "kept an image (MB)",
        "kept whatever the batch (MB)",
        f"memory for {options.size} images (GB)",
    )
    text = f"""# A step of DINO with a ViT-B: counted, and hours estimated

**By a count, a step needs {span(lines, 6)} GB of memory for {options.size} images, least with `lora`
and `checkpointing`.** Nothing here was measured on a GPU.

| {" | ".join(columns)} |
{"|---" * len(columns)}|
{chr(10).join(lines)}

A step of the method `dino`, forward and backward, in bf16 under autocast: `{NAME}` on
{CHANNELS} channels, two large views of {SIDE} pixels and {SMALL} small ones of 98, {PROTOTYPES:,}
prototypes; LoRA has rank {RANK} on `qkv`. The operations are
counted by torch's `FlopCounterMode`, and what is kept for the backward pass by hooks on saved tensors, both
without computing anything (`python docs/evidence/benchmarks/vit_step.py`);
`python docs/evidence/benchmarks/gpu.py adapt` measures the step on a GPU.

Memory is the sum of what is kept, the weights of student and teacher, and the gradients and AdamW's moments
of the weights that learn. Temporary tensors and the GPU's own libraries come on top. Autocast copies frozen
weights to bf16 in each of the 2 passes, one for each size of view. The backward pass needs these copies:
`lora` keeps them whatever the batch.

The count was compared with the measured peak of a forward pass on a CPU, of `vit_tiny_patch16_224` with 8
images and 512 prototypes. Measured and counted, in MB and in the order of the table: {both}.
With `checkpointing` the peak includes the activations of one block, which the count leaves out.

## Hours, estimated

{PASSES:,} images, as 10 epochs of 100,000, on a GPU that reaches {REACHED * 100:.0f} % of its maker's peak
for dense products in bf16 ({peaks} · 10¹² a second), with a loader that keeps up:

| hours | {" | ".join(MAKERS)} |
|---|{"---|" * len(MAKERS)}
{chr(10).join(hours)}

A GPU that reaches 20 % takes twice as long, and other numbers of images are in proportion.
"""
    publish(text, "vit_step.md", options)


if __name__ == "__main__":
    main()
