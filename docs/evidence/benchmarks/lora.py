"""Measures ``lora`` and ``checkpointing``: time and memory of a step of a ViT; writes ``lora.md``.

A step is forward, backward and AdamW: of SimCLR with two views, and of plain timm with lightly's NT-Xent on
the same views.  Each way has a process of its own, which measures the peak of its memory; then the ways
take steps in turns, all in one process, and the processor time of a step is the median.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import timm
import torch
from lightly.loss import NTXentLoss
from lightly.models.modules.heads import SimCLRProjectionHead
from memory import high_water
from pages import parser, publish

from ccl_plugins.backbones import LoRA, Timm
from ccl_plugins.methods import SimCLR
from ccl_plugins.objectives import NTXent
from ccl_plugins.pairs import Samples
from ccl_plugins.training.parameter_groups import parameter_groups

NAME, RANK = "vit_tiny_patch16_224", 8
Step = Callable[[], None]
WAYS: dict[str, dict[str, Any]] = {
    "plain timm": {},
    "all weights": {},
    "`checkpointing`": {"checkpointing": True},
    "`lora`": {"lora": LoRA(RANK, "qkv")},
    "`lora`, `checkpointing`": {"lora": LoRA(RANK, "qkv"), "checkpointing": True},
    '`freeze = "all"`': {"freeze": "all"},
}
ctypes.CDLL(None).mallopt(-3, 65536)  # M_MMAP_THRESHOLD: what is freed is given back at once


def prepare(way: str, size: int) -> tuple[Step, int]:
    """A training step on ``size`` images, and the number of weights that learn in the backbone."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    views = torch.randn(2, size, 3, 224, 224)
    if way == "plain timm":
        model = timm.create_model(NAME, num_classes=0)
        head, criterion = SimCLRProjectionHead(model.num_features, 2048, 128), NTXentLoss(0.1)
        learns: list[Any] = [*model.parameters(), *head.parameters()]

        def loss() -> torch.Tensor:
            both = [head(features) for features in model(views.flatten(0, 1)).split(size)]
            return criterion(*both)

    else:
        model = Timm(NAME, **WAYS[way])
        method, objective = SimCLR(backbone=model), NTXent(0.1)
        learns = parameter_groups(method, objective)

        def loss() -> torch.Tensor:
            embedded = method.embed([*views])
            return objective.loss(method.pairs(embedded, Samples({})))

    optimizer = torch.optim.AdamW(learns, lr=1e-4)

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step, sum(p.numel() for p in model.parameters() if p.requires_grad)


def peak(way: str, size: int) -> int:
    """Peak memory in bytes of the first steps, with the optimizer's moments."""
    step, _ = prepare(way, size)
    prepare("plain timm", 2)[0]()  # loads what is loaded once
    return high_water(lambda: (step(), step()))


def alone(way: str, size: int) -> int:
    """`peak` in a new process."""
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        return pool.submit(peak, way, size).result()


def main() -> None:
    """Measure and write the page."""
    command = parser(__doc__, "a small batch")
    command.add_argument("--size", type=int, default=4, help="images in a batch")
    command.add_argument("--steps", type=int, default=3)
    options = command.parse_args()
    if options.quick:
        options.size, options.steps = 2, 1
    peaks = {way: alone(way, options.size) for way in WAYS}
    made = {way: prepare(way, options.size) for way in WAYS}
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(options.steps + 1):
        for way, (step, _) in made.items():
            begun = time.process_time()
            step()
            if number:  # the first makes the optimizer's moments
                times[way].append(time.process_time() - begun)
    seconds = {way: statistics.median(each) for way, each in times.items()}
    full = seconds["plain timm"], peaks["plain timm"]

    def beside(way: str) -> str:
        return (
            f"{seconds[way] / full[0]:.2f} of the time and {peaks[way] / full[1]:.2f} of the memory"
        )

    lines = [
        f"| {way} | {made[way][1]:,} | {seconds[way]:.2f} | {seconds[way] / full[0]:.2f} |"
        f" {peaks[way] / 2**20:,.0f} | {peaks[way] / full[1]:.2f} |"
        for way in WAYS
    ]
    text = [
        "# Adapting a ViT: what a step costs",
        "",
        f"**A step with `lora` takes {beside('`lora`')} of a plain timm loop that trains"
        " all weights;",
        f"with `checkpointing` too it takes {beside('`lora`, `checkpointing`')}.**",
        "",
        "| what learns | weights of the backbone that learn | time (s) | ratio | memory (MiB) | ratio |",
        "|---|---|---|---|---|---|",
        *lines,
        "",
        f"A step of SimCLR, forward, backward and AdamW, with `{NAME}` on two views of",
        f"{options.size} images of 224 x 224 pixels in float32; LoRA has rank {RANK} on `qkv`. Plain"
        " timm is a loop",
        "with lightly's head and loss, all weights trained. Memory is the peak during two steps, less what"
        " was in use before;",
        "it includes the optimizer's moments, and each row has a process of its own. Time is processor"
        f" time, the median of {options.steps} steps;",
        f"the rows take turns. One thread of a CPU, torch {torch.__version__}. Written by",
        "`python docs/evidence/benchmarks/lora.py`.",
        "",
        "With all weights, `checkpointing` adds a forward pass. LoRA needs no gradient of the weights that"
        " it adapts,",
        "no moments of them, and none of the frozen layers' inputs; the gradient still passes through every"
        " block",
        "down to the first with adapters, whose activations are kept unless they are computed again.",
        "",
    ]
    publish("\n".join(text), "lora.md", options)


if __name__ == "__main__":
    main()
