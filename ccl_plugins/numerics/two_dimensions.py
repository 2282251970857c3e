"""Features in two dimensions, for maps of them."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

Projection = Literal["pca", "tsne", "umap"]


def project(features: Tensor, method: Projection = "tsne") -> Tensor:
    """(n, f) -> (n, 2); equal features give equal results."""
    given = features.double().numpy()
    if method == "pca":
        from sklearn.decomposition import PCA

        places = PCA(2, svd_solver="full").fit_transform(given)
    elif method == "tsne":
        from sklearn.manifold import TSNE

        perplexity = min(30.0, (len(given) - 1) / 3)
        places = TSNE(
            init="pca", metric="cosine", perplexity=perplexity, random_state=0
        ).fit_transform(given.astype("float32"))
    else:
        places = _umap(given)
    return torch.from_numpy(places)


def _umap(given: Any) -> Any:
    import warnings

    try:
        from umap import UMAP
    except ImportError as error:
        raise ImportError(
            'a map by UMAP needs umap-learn, which is not installed: pip install "ccl-plugins[umap]"'
        ) from error
    with warnings.catch_warnings():
        # It takes one process with a seed, and says so.
        warnings.filterwarnings("ignore", module="umap")
        neighbors = min(15, len(given) - 1)
        return UMAP(metric="cosine", random_state=0, n_jobs=1, n_neighbors=neighbors).fit_transform(
            given
        )
