"""Measures one cell of the benchmark of objectives, in the process that calls it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import torch
from lightly.loss import NTXentLoss
from memory import high_water
from torch.nn.functional import cross_entropy, normalize

import ccl_plugins as ccl
from ccl_plugins.numerics.gram import gram_of
from ccl_plugins.pairs import Pairs, Queue, Samples
from ccl_plugins.protocols import Sizes, Table, trait
from ccl_plugins.testing.objective_batches import WIDTH, patches_of

DIM, TEMPERATURE = 128, 0.1
Step = Callable[[], None]


def measure(cell: dict[str, Any]) -> dict[str, float]:
    """Peak memory in bytes of one part of a cell; for the objective also seconds of both parts."""
    torch.set_num_threads(cell["threads"])
    name = cell["part"]
    small = {**cell, "b": 16, **({"q": 64} if "q" in cell else {}), "landmarks": None}
    for step in steps(small).values():
        step()  # keep what is loaded once out of the peak
    both = steps(cell)
    if cell.get("compiled"):
        both["objective"]()  # and what compiling needs
    found = {f"{name}_bytes": peak(both[name], cell["device"])}
    if name == "objective":
        times: dict[str, list[float]] = {part: [] for part in both}
        for _ in range(cell["repeats"]):
            for part, step in both.items():
                times[part].append(seconds(step, cell))
        found |= {f"{part}_seconds": statistics.median(t) for part, t in times.items()}
    return found


def steps(cell: dict[str, Any]) -> dict[str, Step]:
    """The steps of the objective and of its reference, forward and backward, on the same embeddings."""
    torch.manual_seed(0)
    b, c, q = cell["b"], cell["c"], cell.get("q")
    options = {"device": cell["device"], "dtype": getattr(torch, cell["dtype"])}
    views = [torch.randn(b, DIM, **options).requires_grad_() for _ in range(2)]
    reference = NTXentLoss(TEMPERATURE).to(**options)
    if cell.get("library"):
        loss = of_metric_learning(cell["objective"], views, torch.arange(b) % c)
        return {
            "objective": lambda: backward(loss, views),
            "reference": lambda: backward(lambda: reference(*views), views),
        }
    objective = build(cell)
    names = list(objective.conditions)
    rows = b + (q or 0)
    z = {
        name: values(objective, name, rows, c, cell["kernel"] == "class ids", **options)
        for name in names
    }
    tables = {name: Table(each.cpu()) for name, each in z.items()}
    sizes = Sizes(samples=rows, embedding=DIM, features=DIM, steps=1)
    trait(objective, "setup")(tables, sizes)
    objective = objective.to(**options)
    if q is None:
        called = torch.compile(objective, fullgraph=True) if cell.get("compiled") else objective
        given: dict[str, Any] = {"condition": z} if names else {}
        if getattr(objective, "reads_features", False):
            given["features"] = views  # whose gradient is all that some have
        if further := extras(objective, c, options):
            given["extras"] = further

        def loss() -> torch.Tensor:
            masked = patches_of(objective, torch.stack(views))
            return called(*views, **given, **({} if masked is None else {"patches": masked}))

        loss()  # before their first step, some have nothing to learn from
        trait(objective, "after_step")()
        return {
            "objective": lambda: backward(loss, views),
            "reference": lambda: backward(lambda: reference(*views), views),
        }
    bank = normalize(torch.randn(q, DIM, **options), dim=-1)
    samples = Samples({name: each[:b] for name, each in z.items()})
    grams = {}
    if cell.get("statistics"):
        wanted = objective.statistics()
        grams = {name: gram_of(of.features, z[names[0]][b:]) for name, of in wanted.items()}
    queue = Queue(
        bank,
        torch.ones(q, device=bank.device).bool(),
        {name: each[b:] for name, each in z.items()},
        grams=grams,
    )

    def with_queue() -> torch.Tensor:
        anchors = normalize(torch.stack(views), dim=-1)
        return objective.loss(Pairs(anchors, anchors, (0, 1), (0, 1), samples, queue))

    return {
        "objective": lambda: backward(with_queue, views),
        "reference": lambda: backward(lambda: plain(views, bank), views),
    }


def values(objective: Any, name: str, rows: int, c: int, ids: bool, **options: Any) -> torch.Tensor:
    """Values of a condition that an objective reads: numbers if it takes them, else class ids or 0/1."""
    accepted = objective.conditions[name]
    if "continuous" in accepted and not ids:
        example = getattr(objective, "EXAMPLE_CONDITION", None)
        one = isinstance(example, torch.Tensor) and example.ndim == 1
        z = torch.randn(rows, c, **options)
        return z[:, 0] if one else z  # it reads one number for each sample, or c
    number = torch.arange(rows, device=options["device"])
    if "categorical" in accepted:
        earlier = list(objective.conditions).index(name)
        return number // c**earlier % c  # of several, each has all classes of the others
    return number[:, None] % (torch.arange(c, device=number.device) + 2) == 0


def plain(views: list[torch.Tensor], bank: torch.Tensor) -> torch.Tensor:
    """InfoNCE of both views over a queue, as in MoCo: the cross-entropy of all logits."""
    x, y = (normalize(view, dim=-1) for view in views)
    own = (x * y).sum(1, keepdim=True)
    first = torch.zeros(len(x), dtype=torch.long, device=x.device)
    logits = [torch.cat([own, view @ bank.T], 1) / TEMPERATURE for view in (x, y)]
    return (cross_entropy(logits[0], first) + cross_entropy(logits[1], first)) / 2


def of_metric_learning(
    name: str, views: list[torch.Tensor], ids: torch.Tensor
) -> Callable[[], torch.Tensor]:
    """A loss of pytorch-metric-learning on two views."""
    from pytorch_metric_learning import losses

    found = getattr(losses, name)(temperature=TEMPERATURE)
    labels = torch.arange(len(ids)) if name == "NTXentLoss" else ids
    return lambda: found(torch.cat(views), labels.repeat(2).to(views[0].device))


def build(cell: dict[str, Any]) -> Any:
    """Build the objective with its defaults, except for sizes and the kernel."""
    (entry,) = entry_points(group="ccl_plugins.objective", name=cell["objective"])
    target = entry.load()
    given = dict(getattr(target, "EXAMPLE", {}))
    sizes = {"dim": DIM, "classes": cell["c"]}
    if hasattr(target, "EXAMPLE_EXTRAS"):
        sizes["k"] = cell["c"]
    given |= {name: size for name, size in sizes.items() if name in given}
    if cell.get("landmarks"):
        given["landmarks"] = cell["landmarks"]
    if "kernel" in given or cell["kernel"]:
        cosine = cell["kernel"] == "cosine"
        given["kernel"] = (
            ccl.kernel("cosine") if cosine else ccl.kernel("rbf", scale=2.0 * cell["c"])
        )
    return ccl.create("objective", cell["objective"], **given)


def extras(objective: Any, c: int, options: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The example's extras, for c prototypes where the example has ``k``, and embeddings of this width."""
    k, found = getattr(objective, "EXAMPLE", {}).get("k"), dict[str, torch.Tensor]()
    for name, x in getattr(objective, "EXAMPLE_EXTRAS", {}).items():
        if isinstance(x, torch.Tensor):
            x = x.repeat(-(-c // k))[:c] if len(x) == k else x
        else:
            x = torch.randn([{k: c, WIDTH: DIM}.get(size, size) for size in x])
        x = x.to(**options) if x.is_floating_point() else x.to(options["device"])
        found[name if k is None else name.replace(f"_{k}", f"_{c}")] = x
    return found


def backward(loss: Callable[[], torch.Tensor], views: list[torch.Tensor]) -> None:
    """One step, with gradients set to None before it."""
    for view in views:
        view.grad = None
    loss().backward()


def seconds(step: Step, cell: dict[str, Any]) -> float:
    """Seconds that a step takes, in wall-clock or processor time."""
    clock = time.process_time if cell["clock"] == "processor" else time.perf_counter
    start = clock()
    step()
    if cell["device"] == "cuda":
        torch.cuda.synchronize()
    return clock() - start


def peak(step: Callable[[], object], device: str) -> int:
    """Peak memory in bytes of a step, above the memory in use before it."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return torch.cuda.max_memory_allocated() - before
    return high_water(step)
