"""K-means by scikit-learn or faiss: the algorithm behind the condition `clusters`."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.files.mapped import blocks
from ccl_plugins.files.mapped import rows as rows_at

Backend = Literal["auto", "sklearn", "faiss"]

NUMBERS = 1 << 24
"""Distances that are computed at once."""


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
) -> tuple[Tensor, Tensor]:
    """Class ids (n,) of the nearest centroid, and k centroids (k, d).

    Args:
        x: (n, d) points.
        k: Clusters, up to n.
        start: (k, d) centroids to start from, once, in place of random ones.
        iterations: The most Lloyd steps.
        restarts: Random starts; the one with the least sum of squared distances is kept.
        seed: Of the random starts.
        backend: ``"auto"``: faiss where it is installed, else scikit-learn.
        samples: The most points on which centroids are found, drawn with ``seed``; None: all of them.

    Raises:
        ValueError: For more clusters than points, or points that are not finite.
        ImportError: For faiss, where it is not installed.

    Warns:
        UserWarning: If clusters stay empty, since fewer points than clusters differ.
    """
    if k > len(x):
        raise ValueError(f"k={k} clusters cannot be made of {len(x)} samples")
    finite = torch.cat([x[rows].isfinite().all(1) for rows in blocks(x)])
    if not finite.all():
        row = int((~finite).nonzero()[0])
        raise ValueError(f"k-means needs finite numbers, and row {row} is not")
    x = x.detach().float().cpu()
    given = x
    if samples is not None and len(x) > samples:
        if k > samples:
            raise ValueError(f"k={k} clusters cannot be made of {samples} samples")
        generator = torch.Generator().manual_seed(seed)
        given = rows_at(x, torch.randperm(len(x), generator=generator)[:samples].sort().values)
    init = None if start is None else start.float().numpy()
    find = _with_faiss if _use_faiss(backend) else _with_sklearn
    ids, centroids = find(
        given.numpy(), k, init, iterations, 1 if start is not None else restarts, seed
    )
    if given is not x:
        ids = nearest(x, centroids)
    empty = k - ids.unique().numel()
    if empty:
        warnings.warn(
            f"{empty} of {k} clusters are empty: there are only {len(given.unique(dim=0))} different"
            " points",
            stacklevel=2,
        )
    return ids, centroids


def nearest(x: Tensor, centroids: Tensor) -> Tensor:
    """(n,) the centroid (k, d) that is nearest to each point (n, d)."""
    squares = centroids.square().sum(1)
    most = max(1, NUMBERS // len(centroids))
    found = []
    for rows in blocks(x):
        for part in x[rows].split(most):
            found.append((squares - 2 * part @ centroids.T).argmin(1))
    return torch.cat(found)


def spread(x: Tensor, ids: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """The number of points of each cluster, (k,), and their mean distance to its centroid, (k,) float32.

    Args:
        x: (n, d) points.
        ids: (n,) the cluster of each.
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

    found = cluster.KMeans(
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
        found.fit(x)  # an empty cluster gets the point farthest from its centroid
    return torch.from_numpy(found.labels_).long(), torch.from_numpy(found.cluster_centers_).float()


def _with_faiss(
    x: Any, k: int, start: Any, iterations: int, restarts: int, seed: int
) -> tuple[Tensor, Tensor]:
    import faiss

    found = faiss.Kmeans(
        x.shape[1],
        k,
        niter=iterations,
        nredo=restarts,
        seed=seed,
        # As Cl-InfoNCE's code; faiss samples above the first number and warns below the second.
        max_points_per_centroid=1000,
        min_points_per_centroid=1,
    )
    points = np.ascontiguousarray(x)
    found.train(points, init_centroids=start)  # an empty cluster gets half of a large one
    _, ids = found.index.search(points, 1)
    return torch.from_numpy(ids[:, 0]).long(), torch.from_numpy(found.centroids).float()
