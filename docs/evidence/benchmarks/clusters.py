"""Measures the condition ``clusters`` beside plain faiss, in one run; writes ``clusters.md``.

``--rows``, ``--k`` and ``--iterations`` take other sizes.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import faiss
import torch
from pages import parser, publish, span
from torch import Tensor

from ccl_plugins.conditions import Clusters
from ccl_plugins.metadata.fitted import Embeddings

WIDTH, FOR_EACH = 128, 26


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call, and what it gives."""
    begun = time.perf_counter()
    found = call()
    return time.perf_counter() - begun, found


def plain(x: Tensor, k: int, iterations: int, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The ids of all points, and the centroids that faiss finds on some of them."""
    found = faiss.Kmeans(
        x.shape[1],
        k,
        niter=iterations,
        seed=0,
        max_points_per_centroid=len(x),
        min_points_per_centroid=1,
    )
    found.train(x[rows].numpy())
    return torch.from_numpy(found.index.search(x.numpy(), 1)[1][:, 0]), torch.from_numpy(
        found.centroids
    )


def distance(x: Tensor, ids: Tensor, centroids: Tensor) -> float:
    """The mean squared distance of points to the centroids of their clusters."""
    parts = zip(x.split(10_000), ids.split(10_000), strict=True)
    return sum(float((a - centroids[i]).square().sum()) for a, i in parts) / len(x)


def main() -> None:
    """Measure, and write the page."""
    made = parser(__doc__, "a few samples")
    made.add_argument("--rows", type=int, default=1_000_000)
    made.add_argument("--k", type=int, default=10_000)
    made.add_argument("--iterations", type=int, default=4)
    options = made.parse_args()
    if options.quick:
        options.rows, options.k = 5000, 50
    generator = torch.Generator().manual_seed(0)
    x = torch.nn.functional.normalize(torch.randn(options.rows, WIDTH, generator=generator), dim=1)
    lines = []
    for samples in (None, min(FOR_EACH * options.k, options.rows // 2)):
        condition = Clusters(
            options.k,
            iterations=options.iterations,
            restarts=1,
            backend="faiss",
            samples=samples,
        )
        rows = torch.randperm(options.rows, generator=generator)[: samples or options.rows]
        rows = rows.sort().values

        def ours(condition: Clusters = condition) -> tuple[Tensor, Tensor]:
            table = condition.fit(range(len(x)), Embeddings(lambda: x), None)
            return table.values, table.extras[f"centroids_{options.k}"]

        def theirs(rows: Tensor = rows) -> tuple[Tensor, Tensor]:
            return plain(x, options.k, options.iterations, rows)

        seconds: dict[str, list[float]] = {"faiss": [], "clusters": []}
        errors = {}
        for name, call in (("faiss", theirs), ("clusters", ours)) * (2 if samples else 1):
            took, found = timed(call)
            seconds[name].append(took)
            errors[name] = distance(x, *found)
        a, b = (statistics.mean(seconds[name]) for name in ("faiss", "clusters"))
        lines.append(
            f"| {samples or options.rows:,} | {a:.1f} s | {b:.1f} s | {b / a:.2f} |"
            f" {errors['faiss']:.4f} | {errors['clusters']:.4f} |"
        )
    report = f"""# Clusters of embeddings beside faiss

**`clusters` takes {span(lines, 4)} times the time of faiss.**

| centroids found on | faiss | clusters | ratio | mean squared distance, faiss | clusters |
|---|---|---|---|---|---|
{chr(10).join(lines)}

{options.rows:,} points of {WIDTH} numbers, {options.k:,} clusters, {options.iterations} Lloyd steps from
random points; then every point gets its nearest centroid. `faiss` is `faiss.Kmeans(...).train` and
`index.search`; `clusters` is the condition, which also checks the points and counts the samples of each
cluster. {os.cpu_count()} cores, no GPU.

faiss {faiss.__version__}, torch {torch.__version__}; written by
`python docs/evidence/benchmarks/clusters.py`.
"""
    publish(report, "clusters.md", options)


if __name__ == "__main__":
    main()
