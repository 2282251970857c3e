"""Counts the operations of each objective and of drawing views; writes ``operations.md``.

At small batches a GPU waits for launches: there the number of operations is the time.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import torch
from gpu_parts import begun, suite_on
from lightly.loss import NTXentLoss
from pages import parser, publish, span
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision.models import resnet18

import ccl_plugins as ccl
from ccl_plugins.testing.objective_batches import call
from ccl_plugins.training.loader import Batch, augment

DIM = 128
IMAGES, SIDE = 8, 32

VIEWS = {
    "simclr": "2 views of one kind",
    "multi": "4 views of one kind",
    "moco_v2": "2 views of one kind",
    "byol": "2 views of two kinds",
    "dino": "8 views of three kinds",
}


class Operations(TorchDispatchMode):
    """Counts what computes values, and what reads one on the host; views compute nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.computed = self.read = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count an operation."""
        given = [of.alias_info for of in func._schema.returns]
        is_view = any(alias is not None and not alias.is_write for alias in given)
        is_read = func is torch.ops.aten._local_scalar_dense.default
        self.read += is_read
        self.computed += not (is_view or is_read)
        return func(*args, **(kwargs or {}))


def counted(loss: Any, *given: Any) -> tuple[int, int, int]:
    """The operations of a loss forward, and forward and backward, and the values read on the host."""
    with Operations() as operations:
        value = loss(*given)
        forward = operations.computed
        if value.requires_grad:
            value.backward()
    return forward, operations.computed, operations.read


def of_views(name: str) -> tuple[int, int]:
    """The operations of the views of a batch, of the first batch and of later ones."""
    transform = ccl.create("transform", name, size=SIDE, batched=True)
    images = torch.randint(256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8)
    seeds = torch.arange(IMAGES * transform.count).view(IMAGES, -1)
    counts = []
    for _ in range(2):
        with Operations() as operations:
            augment(transform, Batch([images], torch.arange(IMAGES), seeds=seeds))
        if operations.read:
            raise RuntimeError(f"{name} read {operations.read} values on the host")
        counts.append(operations.computed)
    return counts[0], counts[1]


def of_a_step() -> int:
    """The operations of a ResNet-18's forward and backward pass and its optimizer's step."""
    network = resnet18()
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, foreach=True)
    with Operations() as operations:
        network(torch.randn(IMAGES, 3, SIDE, SIDE)).sum().backward()
        optimizer.step()
    return operations.computed


def main() -> None:
    """Count, and write the page."""
    options = parser(__doc__, "one objective").parse_args()
    suite, rows = suite_on("cpu"), []
    views = [torch.randn(suite.samples, DIM, requires_grad=True) for _ in range(2)]
    rows.append(("lightly's `NTXentLoss`", *counted(NTXentLoss(0.1), *views)))
    for subject in suite.components("objective"):
        objective, batch = begun(subject, suite, "cpu")
        batch = replace(batch, views=batch.views.requires_grad_())
        call(objective, batch)
        rows.append((f"`{subject.spec.name}`", *counted(call, objective, batch)))
        if options.quick:
            break
    lines = [f"| {name} | {a} | {b} | {c} |" for name, a, b, c in rows]
    drawn = []
    for name, of in VIEWS.items():
        first, later = of_views(name)
        drawn.append(f"| `{name}`, {of} | {first} | {later} |")
    middle = statistics.median(row[2] for row in rows[1:])
    report = f"""# Operations of a loss, and of drawing views

**Forward and backward, an objective does {span(lines[1:], 3)} operations, half of them at most {middle:.0f};
lightly's `NTXentLoss` does {rows[0][2]}.** Views of a batch take {span(drawn, 3)}, however many images it has.

## Losses

| loss | forward | with backward | values read on the host |
|---|---|---|---|
{chr(10).join(lines)}

Operations that compute values, of a call on the raw embeddings of two views, as in a loop of one's own:
checks and normalization are among them. Each objective has the parameters of its example. Within `fit`,
after the first steps, nothing is read on the host. `python docs/evidence/benchmarks/gpu.py share`
measures times.

## Views of a whole batch

| transform | first batch | each further batch |
|---|---|---|
{chr(10).join(drawn)}

With [`batched = true`](../../how-to/train-at-scale.md) views are drawn on the device, and nothing is read
on the host. The count does not depend on the number of images, nor on that of the views of one kind: those
are rows of one tensor. The first batch of a shape also makes what the others read. In the same count, a
step of a ResNet-18 with SGD has {of_a_step()} operations.

torch {torch.__version__}; written by `python docs/evidence/benchmarks/operations.py`.
"""  # noqa: E501  a page
    publish(report, "operations.md", options)


if __name__ == "__main__":
    main()
