"""Time of CCL-K through a kernel of two conditions, as a ratio to one column made of both.

Forward and backward of Fair-CCLK on the same embeddings, in alternating steps of one process; the median of
the processor's time.  ``python docs/evidence/benchmarks/joint_kernels.py`` prints the ratios; with
``--quick`` of smaller batches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import torch
from pages import parser
from torch.nn.functional import normalize

from ccl_plugins.kernels import RBF, Delta, Linear, Product
from ccl_plugins.objectives import FairCCLK
from ccl_plugins.pairs import Pairs, Queue, Samples, in_batch

DIM = 128
Case = tuple[str, Any, dict[str, torch.Tensor], Any, torch.Tensor]


def main() -> None:
    """Measure each case in a batch, and those that allow it over a queue."""
    command = parser(__doc__, "a batch of 256 and a queue of 4,096")
    command.add_argument("--repeats", type=int, default=9)
    options = command.parse_args()
    b, q = (256, 4096) if options.quick else (1024, 65536)
    for name, *case in cases(b):
        print(f"{name}, batch of {b}: {ratio(case, b, None, options.repeats):.2f}", flush=True)
    for name, *case in cases(256 + q):
        if "rbf" not in name:  # it has neither features nor classes
            found = ratio(case, 256, q, options.repeats)
            print(f"{name}, 256 over a queue of {q}: {found:.2f}", flush=True)


def cases(rows: int) -> Iterator[Case]:
    """A kernel of two conditions with their values, and one of a made column with its values."""
    torch.manual_seed(0)
    species, camera = torch.randint(0, 20, (rows,)), torch.randint(0, 5, (rows,))
    age, pose = torch.randn(rows, 64), torch.randn(rows, 64)
    few = torch.randn(rows, 8), torch.randn(rows, 8)
    made = (few[0][:, :, None] * few[1][:, None]).flatten(1)
    yield (
        "delta x delta",
        Product(on={"species": Delta(), "camera": Delta()}),
        {"species": species, "camera": camera},
        Delta(),
        species * 5 + camera,
    )
    yield (
        "linear x linear",
        Product(on={"age": Linear(), "pose": Linear()}),
        {"age": few[0], "pose": few[1]},
        Linear(),
        made,
    )
    yield (
        "rbf x rbf",
        Product(on={"age": RBF(128.0), "pose": RBF(128.0)}),
        {"age": age, "pose": pose},
        RBF(128.0),
        torch.cat([age, pose], 1),
    )


def ratio(case: list[Any], b: int, q: int | None, repeats: int) -> float:
    """The time through the kernel of two conditions over that through the made column."""
    joint, values, kernel, made = case
    views = torch.randn(2, b, DIM).requires_grad_()
    queue = None if q is None else normalize(torch.randn(q, DIM), dim=-1)
    steps = [
        (FairCCLK(joint), pairs_of(views, values, queue)),
        (FairCCLK(kernel), pairs_of(views, {"condition": made}, queue)),
    ]
    times: list[list[float]] = [[], []]
    for _ in range(repeats + 1):
        for (objective, pairs), spent in zip(steps, times, strict=True):
            begin = time.process_time()
            objective.loss(pairs()).backward()
            spent.append(time.process_time() - begin)
    (found, reference) = (statistics.median(spent[1:]) for spent in times)
    return found / reference


def pairs_of(views: torch.Tensor, values: dict[str, torch.Tensor], queue: Any) -> Any:
    """Makes the pairs of a step, with the first rows of the values for the batch."""
    b = views.shape[1]
    batch = {name: z[:b] for name, z in values.items()}
    rest = {name: z[b:] for name, z in values.items()}

    def pairs() -> Pairs:
        unit = normalize(views, dim=-1)
        if queue is None:
            return in_batch(unit, Samples(batch))
        valid = torch.ones(len(queue)).bool()
        held = Queue(queue, valid, rest)
        return Pairs(unit, unit, (0, 1), (0, 1), Samples(batch), held)

    return pairs


if __name__ == "__main__":
    main()
