"""K-means by scikit-learn or faiss: the algorithm behind the condition `clusters`."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.files.mapped import blocks
from ccl_plugins.files.mapped import rows as rows_at
from ccl_plugins.metadata.fitted import nearest

Backend = Literal["auto", "sklearn", "faiss"]


def kmeans(
    x: Tensor,
    k: int,
    start: Tensor | None = None,
    *,
    iterations: int = 20,
    restarts: int = 5,
    seed: int = 0,
    backend: Backend = "auto",
    samples: int | None = None,
    gpu: bool | Literal["auto"] = "auto",
    assign: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Class ids (n,) of the nearest centroid, and k centroids (k, d).

    Args:
        x: (n, d) points.
        k: Clusters, up to n.
        start: (k, d) centroids to start from, once, in place of random ones.
        iterations: The most Lloyd steps.
        restarts: Random starts; the one with the least sum of squared distances is kept.
        seed: Seed of the random starts.
        backend: ``"auto"``: faiss if it is installed, else scikit-learn.
        samples: The most points from which centroids are found, drawn with ``seed``; None: all
            points.
        gpu: Whether faiss computes on GPUs; ``"auto"``: if it can.
        assign: Returns each point's nearest centroid, ids (n,), if centroids were found from some
            of the points; None: `nearest`.

    Raises:
        ValueError: For more clusters than points, points that are not finite, and ``gpu=True`` with
            a faiss that sees no GPU.
        ImportError: For faiss, if it is not installed.

    Warns:
        UserWarning: If clusters stay empty, because there are fewer different points than clusters.
    """
    if k > len(x):
        raise ValueError(f"k={k} clusters cannot be made of {len(x)} samples")
    finite = torch.cat([x[rows].isfinite().all(1) for rows in blocks(x)])
    if not finite.all():
        row = int((~finite).nonzero()[0])
        raise ValueError(f"k-means needs finite numbers, but row {row} (from 0) has others")
    x = x.detach().float().cpu()
    given = x
    if samples is not None and len(x) > samples:
        if k > samples:
            raise ValueError(f"k={k} clusters cannot be made of {samples} samples")
        generator = torch.Generator().manual_seed(seed)
        given = rows_at(x, torch.randperm(len(x), generator=generator)[:samples].sort().values)
    init = None if start is None else start.float().numpy()
    find = partial(_with_faiss, _use_gpu(gpu)) if _use_faiss(backend) else _with_sklearn
    ids, centroids = find(
        given.numpy(), k, init, iterations, 1 if start is not None else restarts, seed
    )
    if given is not x:
        ids = (assign or partial(nearest, x))(centroids)
    empty = k - ids.unique().numel()
    if empty:
        warnings.warn(
            f"{empty} of {k} clusters are empty: there are only {len(given.unique(dim=0))} different"
            " points",
            stacklevel=2,
        )
    return ids, centroids


def cluster_spread(x: Tensor, ids: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """The number of points of each cluster, (k,), and their mean distance to its centroid, (k,) float32.

    Args:
        x: (n, d) points.
        ids: (n,) the cluster of each point.
        centroids: (k, d).
    """
    x = x.detach().float().cpu()
    distances = torch.cat([(x[rows] - centroids[ids[rows]]).norm(dim=1) for rows in blocks(x)])
    sizes = torch.bincount(ids, minlength=len(centroids))
    sums = torch.zeros(len(centroids)).index_add_(0, ids, distances)
    return sizes, sums / sizes.clamp_min(1)  # 0 for an empty cluster


def _use_faiss(backend: Backend) -> bool:
    installed = importlib.util.find_spec("faiss") is not None
    if backend == "faiss" and not installed:
        raise ImportError(
            "backend='faiss' needs faiss, which is not installed: pip install"
            " 'ccl-plugins[faiss]'; backend='sklearn' needs nothing more"
        )
    return installed and backend != "sklearn"


def _with_sklearn(
    x: Any, k: int, start: Any, iterations: int, restarts: int, seed: int
) -> tuple[Tensor, Tensor]:
    from sklearn import cluster
    from sklearn.exceptions import ConvergenceWarning

    model = cluster.KMeans(
        k,
        init="k-means++" if start is None else start,
        n_init=restarts,
        max_iter=iterations,
        tol=0.0,
        algorithm="lloyd",
        random_state=seed,
    )
    # The caller warns of empty clusters for both backends.
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model.fit(x)  # an empty cluster gets the point farthest from its centroid
    return torch.from_numpy(model.labels_).long(), torch.from_numpy(model.cluster_centers_).float()


def _use_gpu(gpu: bool | Literal["auto"]) -> bool:
    import faiss

    some = faiss.get_num_gpus() > 0
    if gpu is True and not some:
        raise ValueError(
            "gpu=True, but this faiss sees no GPU: install faiss-gpu, or take gpu='auto', which "
            "uses the GPUs that faiss sees"
        )
    return some and gpu is not False


def _with_faiss(
    gpu: bool, x: Any, k: int, start: Any, iterations: int, restarts: int, seed: int
) -> tuple[Tensor, Tensor]:
    import faiss

    model = faiss.Kmeans(
        x.shape[1],
        k,
        niter=iterations,
        nredo=restarts,
        seed=seed,
        # Faiss draws some of the points above the first number, and warns below the second.
        max_points_per_centroid=len(x),
        min_points_per_centroid=1,
        gpu=gpu,
    )
    points = np.ascontiguousarray(x)
    model.train(points, init_centroids=start)  # an empty cluster gets half of a large one
    _, ids = model.index.search(points, 1)
    return torch.from_numpy(ids[:, 0]).long(), torch.from_numpy(model.centroids).float()
