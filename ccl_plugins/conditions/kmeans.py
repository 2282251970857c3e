"""K-means by scikit-learn or faiss: the algorithm behind the condition `clusters`."""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of

Backend = Literal["auto", "sklearn", "faiss"]


@dataclass(frozen=True)
class KMeans:
    """The settings of k-means; calling them finds clusters.

    Args:
        iterations: The most Lloyd steps.
        restarts: Random starts, of which the one with the least squared distances is kept.
        seed: Of the random starts.
        backend: ``"auto"``: faiss where it is installed, else scikit-learn.

    Raises:
        ValueError: For another backend.
    """

    iterations: int = 20
    restarts: int = 5
    seed: int = 0
    backend: Backend = "auto"

    def __post_init__(self) -> None:
        one_of("backend", self.backend, get_args(Backend))

    def __call__(self, x: Tensor, k: int, start: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Class ids (n,) of the nearest centroid, and k centroids (k, d).

        Args:
            x: (n, d) points.
            k: Clusters, up to n.
            start: (k, d) centroids to start from, once, in place of random ones.

        Raises:
            ValueError: For more clusters than points, or points that are not finite.
            ImportError: For faiss, where it is not installed.

        Warns:
            UserWarning: If clusters stay empty, since fewer points than clusters differ.
        """
        if k > len(x):
            raise ValueError(f"k={k} clusters cannot be made of {len(x)} samples")
        if not x.isfinite().all():
            row = int((~x.isfinite().all(1)).nonzero()[0])
            raise ValueError(f"k-means needs finite numbers, and row {row} is not")
        x = x.detach().float().cpu()
        find = _with_faiss if self._backend() == "faiss" else _with_sklearn
        ids, centroids = find(x, k, start, self)
        empty = k - ids.unique().numel()
        if empty:
            warnings.warn(
                f"{empty} of {k} clusters are empty: there are only {len(x.unique(dim=0))} different"
                " points",
                stacklevel=2,
            )
        return ids, centroids

    def _backend(self) -> str:
        installed = importlib.util.find_spec("faiss") is not None
        if self.backend == "faiss" and not installed:
            raise ImportError(
                "backend='faiss' needs faiss, which is not installed: pip install"
                " 'ccl-plugins[faiss]'; backend='sklearn' needs nothing more"
            )
        return self.backend if self.backend != "auto" else "faiss" if installed else "sklearn"


def spread(x: Tensor, ids: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """The number of points of each cluster, (k,), and their mean distance to its centroid, (k,) float32.

    Args:
        x: (n, d) points.
        ids: (n,) the cluster of each.
        centroids: (k, d).
    """
    distances = (x.detach().float().cpu() - centroids[ids]).norm(dim=1)
    sizes = torch.bincount(ids, minlength=len(centroids))
    sums = torch.zeros(len(centroids)).index_add_(0, ids, distances)
    return sizes, sums / sizes.clamp_min(1)  # 0 for an empty cluster


def _with_sklearn(
    x: Tensor, k: int, start: Tensor | None, settings: KMeans
) -> tuple[Tensor, Tensor]:
    from sklearn import cluster
    from sklearn.exceptions import ConvergenceWarning

    found = cluster.KMeans(
        k,
        init="k-means++" if start is None else start.float().numpy(),
        n_init=settings.restarts if start is None else 1,
        max_iter=settings.iterations,
        tol=0.0,
        algorithm="lloyd",
        random_state=settings.seed,
    )
    with warnings.catch_warnings():
        # The caller warns of empty clusters for both backends.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found.fit(x.numpy())  # an empty cluster gets the point farthest from its centroid
    return torch.from_numpy(found.labels_).long(), torch.from_numpy(found.cluster_centers_).float()


def _with_faiss(x: Tensor, k: int, start: Tensor | None, settings: KMeans) -> tuple[Tensor, Tensor]:
    import faiss

    found = faiss.Kmeans(
        x.shape[1],
        k,
        niter=settings.iterations,
        nredo=settings.restarts if start is None else 1,
        seed=settings.seed,
        # As Cl-InfoNCE's code; faiss samples above the first number and warns below the second.
        max_points_per_centroid=1000,
        min_points_per_centroid=1,
    )
    points = x.contiguous().numpy()
    # An empty cluster gets half of a large one.
    found.train(points, init_centroids=None if start is None else start.float().numpy())
    _, ids = found.index.search(points, 1)
    return torch.from_numpy(ids[:, 0]).long(), torch.from_numpy(found.centroids).float()
