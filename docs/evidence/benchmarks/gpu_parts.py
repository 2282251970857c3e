"""The parts of the GPU suite: each yields the names of its rows, and a function that measures each.

A row is a dictionary of its ``state`` (``"ok"``, ``"failed"`` or ``"skipped"``), its ``error`` unless it is
ok, and numbers.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import signal
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytorch_lightning as pl
import torch
import vit_step
from measuring import measure, peak
from objectives import batch_cells, queue_cells
from reporting import label
from torch import Tensor
from training_loops import DIM, HIDDEN, LOOPS, Clock, run

import ccl_plugins as ccl
from ccl_plugins.backbones import Timm
from ccl_plugins.conditions import Label
from ccl_plugins.experiments import RunFolder
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.kinds import registry
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.protocols import trait
from ccl_plugins.samplers import Uniform
from ccl_plugins.testing import method_batches as method_kit
from ccl_plugins.testing.inputs import Split
from ccl_plugins.testing.objective_batches import RawBatch, call, pairs_of, value_and_gradient
from ccl_plugins.testing.objectives import prepared
from ccl_plugins.testing.subject import Subject
from ccl_plugins.training.loader import Batch
from ccl_plugins.training.module import prepare
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.step import take_step
from ccl_plugins.training.tables import Tables

STEPS, KILLED_AT = 6, 3
FAST: dict[str, Any] = {
    "precision": "bf16-mixed",
    "matmul_precision": "high",
    "cudnn_benchmark": True,
    "channels_last": True,
    "optimizer": {"use": "adamw", "fused": True},
}
"""Settings of `fit` that are there for speed."""
Row = dict[str, Any]
Jobs = Iterator[tuple[str, Callable[[], Row]]]


@dataclass(frozen=True)
class Suite:
    """The device that is measured, the components that are asked for, and all sizes."""

    device: str
    samples: int = 64
    batches: tuple[int, ...] = (256, 1024, 4096, 8192)
    queue: int = 65536
    networks: tuple[str, str] = ("resnet50", "vit_small_patch16_224")
    small: str = "resnet18"
    small_side: int = 32
    adapted: str = vit_step.NAME
    side: int = 224
    batch: int = 128
    repeats: int = 5
    steps: int = 64
    turns: int = 2
    pieces: tuple[int, ...] = (1, 4, 16)
    backend: str = "inductor"

    def components(self, kind: str) -> Iterator[Subject]:
        """The installed components of a kind, with the parameters of their examples."""
        return map(Subject, sorted(registry().specs(kind), key=lambda spec: spec.id))


def suite_on(device: str) -> Suite:
    """What is measured on a device; on a CPU tiny sizes, and no inductor, which is slow there."""
    if device == "cuda":
        return Suite(device)
    networks = ("test_resnet", "test_vit")  # timm's own, for tests
    sizes = networks, "test_resnet", 32, "test_vit", 32, 8, 1, 5, 1, (1, 4), "eager"
    return Suite(device, 8, (16,), 1024, *sizes)


def apart(found: Tensor, expected: Tensor, at_least: float = 1e-6) -> float:
    """The largest difference, relative to the largest expected number."""
    found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(at_least))


def judged(found: dict[str, float], *limits: float) -> Row:
    """Differences, and whether each is within its limit; NaN is not."""
    beyond = [
        f"{name} is above {limit:g}"
        for (name, difference), limit in zip(found.items(), limits, strict=True)
        if not difference <= limit
    ]
    return {"state": "failed", "error": ", ".join(beyond), **found} if beyond else ok(**found)


def ok(**found: Any) -> Row:
    """A row without an error."""
    return {"state": "ok", **found}


def compared(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor], of: str) -> Row:
    """The differences of a loss and its gradient; that of a small loss is not relative."""
    return {
        f"{of}value": apart(found[0], expected[0], at_least=1.0),
        f"{of}gradient": apart(found[1], expected[1]),
    }


def refuse_waits(device: str, refuse: bool) -> None:
    """Have whatever waits for the GPU raise a RuntimeError, or no longer; nothing waits for a CPU."""
    if device == "cuda":
        torch.cuda.set_sync_debug_mode("error" if refuse else "default")


@contextmanager
def no_waits(device: str) -> Iterator[None]:
    """Refuse waits inside."""
    refuse_waits(device, True)
    try:
        yield
    finally:
        refuse_waits(device, False)


def not_waited(device: str) -> Row:
    """The row of a step in which waits were refused."""
    if device == "cuda":
        return ok()
    return {"state": "skipped", "error": "nothing waits for a CPU"}


def begun(subject: Subject, suite: Suite, device: str) -> tuple[Any, RawBatch]:
    """An objective after its first step, and a batch, in float32 on a device."""
    objective, batch = prepared(subject, suite.samples, torch.float32)
    objective = objective.to(device)
    batch = replace(
        batch,
        views=batch.views.to(device),
        condition={name: z.to(device) for name, z in batch.condition.items()},
        extras={name: x.to(device) for name, x in batch.extras.items()},
    )
    trait(objective, "progress")(0, 2)
    loss_on_pairs(objective, batch)
    trait(objective, "after_step")()
    trait(objective, "progress")(1, 2)
    return objective, batch


def loss_on_pairs(
    objective: Any, batch: RawBatch, loss: Callable[[Any], Tensor] | None = None
) -> Tensor:
    """The loss of all pairs, as in training: no value is looked at, and indices are on the device."""
    pairs = pairs_of(objective, batch)
    index = torch.arange(batch.views.shape[1], device=batch.views.device)
    return (loss or objective.loss)(replace(pairs, samples=replace(pairs.samples, index=index)))


def slope(objective: Any, batch: RawBatch) -> float:
    """The gradient along a direction against a difference of values there, in float64; relative."""
    objective, batch = objective.double(), batch.to(torch.float64)
    along = torch.randn_like(batch.views) * 1e-5
    gradient = value_and_gradient(call, objective, batch)[1]
    ends = [call(objective, replace(batch, views=batch.views + sign * along)) for sign in (1, -1)]
    return apart((gradient * along).sum(), (ends[0] - ends[1]) / 2, at_least=1e-9)


def objectives(suite: Suite) -> Jobs:
    """Loss and gradient on the device against the CPU, and the gradient against the loss."""

    def job(subject: Subject) -> Row:
        (objective, batch), on_cpu = (begun(subject, suite, at) for at in (suite.device, "cpu"))
        value = value_and_gradient(call, objective, batch)
        found = compared(value, value_and_gradient(call, *on_cpu), "float32_")
        if not trait(objective, "stops_gradient"):  # the gradient is meant to be another
            found["slope"] = slope(*begun(subject, suite, suite.device))
        limits = [2e-5] * len(found)
        if batch.extras:  # pairs with extras are float32 in training
            return judged(found, *limits)
        narrow = replace(batch, views=batch.views.bfloat16())
        with torch.autocast(suite.device, torch.bfloat16):
            value = value_and_gradient(call, objective, narrow)
        rounded = replace(on_cpu[1], views=narrow.views.float().cpu())
        found |= compared(value, value_and_gradient(call, on_cpu[0], rounded), "bf16_")
        return judged(found, *limits, 1e-3, 3e-2)

    for subject in suite.components("objective"):
        yield subject.spec.name, functools.partial(job, subject)


def steps_of(
    subject: Subject, suite: Suite, device: str, dtype: torch.dtype | None = None, how: str = ""
) -> tuple[Tensor, Tensor]:
    """The losses of three steps of a method, and its weights after them.

    Args:
        subject: The method.
        suite: What is measured.
        device: Where it is trained.
        dtype: Of autocast; None: there is none.
        how: ``"compiled"``, or ``"checked"`` for waits in the last step.
    """
    method, split = subject.build().to(device).train(), Split()
    parts = Parts(None, None, method, InfoNCE(), Uniform)  # type: ignore[arg-type]
    tables = Tables({"label": Label()}, len(split))
    tables.refresh(0, split, split.embed, device)
    if how == "compiled":
        prepare(method, parts.objective, FitSettings(compile=suite.backend))
    optimizer = torch.optim.SGD(method.parameters(), lr=0.1)
    losses = []
    for step in range(3):
        drawn = method_kit.views_of(method, step)
        views = [view.to(device) for view in drawn]
        if (masks := method_kit.masks_of(method, drawn)) is not None:
            masks = masks._replace(masked=masks.masked.to(device))
        index = step * method_kit.N + torch.arange(method_kit.N, device=device)
        precision = torch.autocast(device, dtype) if dtype else nullcontext()
        # cudnn would round the inputs of a convolution to 10 bits (TF32).
        with (
            torch.backends.cudnn.flags(enabled=True, allow_tf32=False),
            no_waits(device if how == "checked" and step == 2 else "cpu"),
        ):
            with precision:
                batch = Batch(views, index, masks=masks)
                loss, pairs = take_step(parts, tables, batch, loss=method_kit.loss_of)
            loss.backward()
            method.enqueue(pairs)
            optimizer.step()
            optimizer.zero_grad()
            method.after_step(step, 10)
        losses.append(loss.detach())
    return torch.stack(losses), torch.cat([p.detach().flatten() for p in method.parameters()])


def methods(suite: Suite) -> Jobs:
    """Losses and weights on the device against the CPU."""

    def job(subject: Subject) -> Row:
        losses, weights = steps_of(subject, suite, "cpu")
        found, after = steps_of(subject, suite, suite.device)
        narrow, _ = steps_of(subject, suite, suite.device, torch.bfloat16)
        numbers = {
            "float32_losses": apart(found, losses),
            "float32_weights": apart(after, weights),
            "bf16_first_loss": apart(narrow[0], losses[0]),
        }
        return judged(numbers, 1e-3, 1e-3, 5e-2)

    for subject in suite.components("method"):
        yield subject.spec.name, functools.partial(job, subject)


def compiled(suite: Suite) -> Jobs:
    """Compiled on the device against the CPU without compiling."""

    def of_objective(subject: Subject) -> Row:
        objective, batch = begun(subject, suite, suite.device)
        if not trait(objective, "compiles"):
            return {"state": "skipped", "error": "compiles = False declares that it cannot be"}
        torch.compiler.reset()
        loss = torch.compile(objective.loss, fullgraph=True, backend=suite.backend)
        on_pairs = functools.partial(loss_on_pairs, loss=loss)
        found = value_and_gradient(on_pairs, objective, batch)
        expected = value_and_gradient(loss_on_pairs, *begun(subject, suite, "cpu"))
        return judged(compared(found, expected, ""), 1e-4, 1e-4)

    def of_method(subject: Subject) -> Row:
        torch.compiler.reset()
        losses, weights = steps_of(subject, suite, "cpu")
        found, after = steps_of(subject, suite, suite.device, how="compiled")
        return judged(
            {"losses": apart(found, losses), "weights": apart(after, weights)}, 1e-3, 1e-3
        )

    def of_fit() -> Row:
        return weights_apart({}, {"compile": {"mode": "reduce-overhead"}})

    for kind, job in (("objective", of_objective), ("method", of_method)):
        for subject in suite.components(kind):
            yield f"{kind} {subject.spec.name}", functools.partial(job, subject)
    yield "fit, reduce-overhead", of_fit


def weights_apart(*settings: Mapping[str, Any]) -> Row:
    """The largest difference of the weights of two runs with other settings."""
    found = []
    for fit in settings:
        torch.compiler.reset()
        with tempfile.TemporaryDirectory() as folder:
            train(Path(folder), fit=fit)
            found.append(weights_of(Path(folder)))
    return judged({"weights": apart(*found)}, 1e-3)


class NoWaits(Clock):
    """Refuses waits in the third step of `fit`; the first two check what they see."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def on_train_batch_start(self, trainer: pl.Trainer, module: Any, batch: Any, i: int) -> None:
        """Begin with the third step."""
        refuse_waits(self.device, i == 2)

    def on_train_batch_end(self, trainer: pl.Trainer, *more: Any) -> None:
        """End with the step."""
        refuse_waits(self.device, False)
        super().on_train_batch_end(trainer, *more)


def waits(suite: Suite) -> Jobs:
    """A step after the first ones, in which nothing may wait for the GPU."""

    def of_objective(subject: Subject) -> Row:
        objective, batch = begun(subject, suite, suite.device)
        if not trait(objective, "compiles"):
            return {
                "state": "skipped",
                "error": "compiles = False declares a loss that reads values",
            }
        batch = replace(batch, views=batch.views.requires_grad_())
        for device in ("cpu", suite.device):
            with no_waits(device):  # in the second step, when all is there
                trait(objective, "progress")(1, 2)
                loss = loss_on_pairs(objective, batch)
                if loss.requires_grad:
                    loss.backward()
                trait(objective, "after_step")()
        return not_waited(suite.device)

    def of_method(subject: Subject) -> Row:
        steps_of(subject, suite, suite.device, how="checked")
        return not_waited(suite.device)

    def of_fit(method: str) -> Row:
        try:
            run({**cell(suite, method), "loop": "ours", "plain": True}, NoWaits(suite.device))
        finally:
            refuse_waits(suite.device, False)
        return not_waited(suite.device)

    def of_run(**parts: Any) -> Row:
        try:
            with tempfile.TemporaryDirectory() as folder:
                train(Path(folder), [NoWaits(suite.device)], **parts)
        finally:
            refuse_waits(suite.device, False)
        return not_waited(suite.device)

    def of_all() -> Row:
        cosine = ccl.objective("fair_cclk", kernel=ccl.kernel("cosine"))
        return of_run(objective=cosine, transform=ccl.transform("simclr", size=32, batched=True))

    def of_fast() -> Row:
        return of_run(fit=FAST)

    for kind, job in (("objective", of_objective), ("method", of_method)):
        for subject in suite.components(kind):
            yield f"{kind} {subject.spec.name}", functools.partial(job, subject)
    for method in ("simclr", "moco_v2"):
        yield f"fit {method}", functools.partial(of_fit, method)
    yield "fit with batched views, monitors, a condition and the Gram matrix of a queue", of_all
    yield f"fit with {', '.join(FAST)}", of_fast


def cell(suite: Suite, method: str) -> dict[str, Any]:
    """A training loop, as `training_loops.run` takes it."""
    on_gpu = suite.device == "cuda"
    return {
        "method": method,
        "backbone": suite.networks[0],
        "batch": suite.batch,
        "steps": suite.steps,
        "side": suite.side,
        "workers": min(8, os.cpu_count() or 1) if on_gpu else 0,  # as in the example
        "precision": "bf16-mixed" if on_gpu else "32-true",
    }


def build(suite: Suite, method: str, network: str, **params: Any) -> Any:
    """A method around a network of timm, on the device."""
    backbone = Timm(network, options={"img_size": suite.side} if "vit" in network else {})
    made = ccl.create("method", method, hidden=HIDDEN, dim=DIM, backbone=backbone, **params)
    return made.to(suite.device).train()


def seconds(step: Callable[[], object], suite: Suite) -> float:
    """Median wall-clock seconds of a step, waiting for the device."""
    found = []
    for _ in range(suite.repeats):
        start = time.perf_counter()
        step()
        if suite.device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def share(suite: Suite) -> Jobs:
    """The networks' forward and backward pass, then the objectives'."""

    def networks(method: str, network: str, side: int) -> Row:
        model = build(suite, method, network).to(memory_format=torch.channels_last)
        shape = (suite.batch, 3, side, side)
        views = [torch.randn(shape, device=suite.device) for _ in range(2)]
        views = [view.contiguous(memory_format=torch.channels_last) for view in views]

        def step() -> None:
            model.zero_grad()
            with torch.autocast(suite.device, torch.bfloat16):
                projections = model.embed(views).projections
            projections.float().sum().backward()

        step()
        used = peak(step, suite.device)
        return ok(b=suite.batch, seconds=seconds(step, suite), bytes=used)

    def objective(found: dict[str, Any]) -> Row:
        common = {"device": suite.device, "dtype": "float32", "clock": "wall", "part": "objective"}
        threads = {"threads": torch.get_num_threads(), "repeats": suite.repeats}
        taken = measure({**found, **common, **threads})
        return ok(label=label(found), b=found["b"], q=found.get("q"), **taken)

    for method in ("simclr", "moco_v2"):
        small = f"{suite.small} at {suite.small_side} pixels"
        sides = {name: (name, suite.side) for name in suite.networks}
        for name, of in {**sides, small: (suite.small, suite.small_side)}.items():
            yield f"{method} {name}", functools.partial(networks, method, *of)
    asked = argparse.Namespace(batch=suite.batches, condition=[128], queue=suite.queue)
    asked.objective, asked.parts = None, ("batch", "queue")
    for found in (*queue_cells(asked), *batch_cells(asked)):
        queue = f", queue {found['q']}" if "q" in found else ""
        yield f"{label(found)}, b {found['b']}{queue}", functools.partial(objective, found)


def adapt(suite: Suite) -> Jobs:
    """A step of DINO on two large and six small views, with the optimizer and the teacher's."""

    def job(way: str) -> Row:
        torch.manual_seed(0)
        small = {} if suite.device == "cuda" else {"prototypes": 8, "hidden": 8, "bottleneck": 4}
        method, objective = vit_step.made(way, suite.adapted, suite.side, **small)
        method, objective = method.to(suite.device), objective.to(suite.device)
        views = vit_step.views_of(method, suite.batch, suite.side, suite.device)
        optimizer = torch.optim.AdamW([p for p in method.parameters() if p.requires_grad])

        def step() -> None:
            vit_step.loss_of(method, objective, views).backward()
            optimizer.step()
            optimizer.zero_grad()
            method.after_step(0, 2)
            objective.after_step()

        step()
        used = peak(step, suite.device)
        return ok(b=suite.batch, bytes=used, images_per_second=suite.batch / seconds(step, suite))

    for way, options in vit_step.WAYS.items():
        if "lora" not in options or find_spec("peft"):
            yield f"{suite.adapted}, {way}", functools.partial(job, way)


def memory(suite: Suite) -> Jobs:
    """A batch embedded whole and in pieces, by a network without batch statistics."""
    samples = 2 * suite.batch

    def job(size: int) -> Row:
        torch.manual_seed(0)
        model = build(suite, "simclr", suite.networks[1], batch_norm=False)
        parts = Parts(None, None, model, InfoNCE(), Uniform)  # type: ignore[arg-type]
        shape, tables = (samples, 3, suite.side, suite.side), Tables({}, samples)
        views = [torch.randn(shape, device=suite.device) for _ in range(2)]
        batch = Batch(views, torch.arange(samples, device=suite.device))

        def step(pieces: int | None) -> Tensor:
            model.zero_grad()
            take_step(parts, tables, batch, pieces)[0].backward()
            return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            found = judged({"gradient": apart(step(size), step(None))}, 1e-3)
        used = peak(lambda: step(size), suite.device)
        rate = samples / seconds(lambda: step(size), suite)
        return {**found, "bytes": used, "images_per_second": rate}

    for pieces in suite.pieces:
        size = samples // pieces
        yield (
            f"{suite.networks[1]}, {samples} samples, {size} at a time",
            functools.partial(job, size),
        )


class Kill(pl.Callback):
    """Kills this process before a step; SIGKILL leaves it no time for anything."""

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """Kill it when the time has come."""
        if trainer.global_step == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)


def train(
    out: Path,
    callbacks: Sequence[pl.Callback] = (),
    resume: bool = False,
    fit: Mapping[str, Any] = MappingProxyType({}),
    **parts: Any,
) -> None:
    """A run with a queue and a kernel, on the device that Lightning finds."""
    given: dict[str, Any] = {
        "transform": ccl.transform("simclr", size=32),
        "objective": ccl.objective("fair_cclk", kernel=ccl.kernel("rbf", scale=0.1)),
    }
    pipeline = ccl.Pipeline(
        dataset=ccl.dataset("color_digits"),
        backbone=ccl.backbone("lenet5"),
        method=ccl.method("moco_v2", hidden=64, dim=32, queue_size=64),
        condition=ccl.condition("column", name="color"),
        evaluate=[],
        **{**given, **parts},
        fit={
            **{"max_steps": STEPS, "batch_size": 32, "checkpoint_every_steps": 2, "workers": 0},
            **fit,
        },
    )
    with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        pipeline.fit(out=out, resume=resume, callbacks=[*callbacks], logger=False, progress=False)


def weights_of(out: Path) -> Tensor:
    """The weights of a run, as one vector."""
    saved = read_checkpoint(RunFolder(out).weights)["method"].values()
    return torch.cat([weights.double().flatten() for weights in saved])


def killed(out: Path) -> None:
    """As `train`, killed."""
    torch.set_num_threads(1)  # those of OpenMP are not in a forked process
    warnings.filterwarnings("ignore")
    train(out, [Kill()])


def resume(suite: Suite) -> Jobs:
    """The weights of a run that was killed and resumed against those of an unbroken one."""

    def job() -> Row:
        # CUDA does not survive a fork, and a process that is not forked takes seconds to start.
        processes = multiprocessing.get_context("spawn" if suite.device == "cuda" else "fork")
        with tempfile.TemporaryDirectory() as folder:
            unbroken, broken = Path(folder) / "unbroken", Path(folder) / "broken"
            process = processes.Process(target=killed, args=(broken,))
            process.start()
            process.join()
            if process.exitcode != -signal.SIGKILL:
                raise RuntimeError(f"the run was to be killed, and ended with {process.exitcode}")
            train(unbroken)
            train(broken, resume=True)
            difference = apart(weights_of(broken), weights_of(unbroken))
        return judged({"weights": difference}, 1e-4)

    yield f"killed before step {KILLED_AT + 1} of {STEPS}", job


def whole(suite: Suite) -> Jobs:
    """Both loops in turns."""

    def job(method: str, plain: bool) -> Row:
        rates: dict[str, list[float]] = {loop: [] for loop in LOOPS}
        for turn in range(suite.turns):
            for loop in LOOPS if turn % 2 else LOOPS[::-1]:
                taken = run({**cell(suite, method), "loop": loop, "plain": plain}, Clock(wall=True))
                rates[loop].append(suite.batch * len(taken) / sum(taken))
        ours, theirs = (statistics.median(rates[loop]) for loop in LOOPS)
        return ok(images_per_second=ours, lightly_images_per_second=theirs, ratio=ours / theirs)

    for views in ("images as they are", "views drawn"):
        for method in ("simclr", "moco_v2"):
            name = f"{method}, {suite.networks[0]}, {views}"
            yield name, functools.partial(job, method, views == "images as they are")


PARTS = {
    f.__name__: f
    for f in (objectives, methods, waits, share, whole, memory, resume, adapt, compiled)
}
"""The parts, what is worth most first."""
