"""The numbers of scib-metrics, scikit-learn and copairs, in ``mixing_peers.json``, and what they are of.

Run ``PYTHONPATH=tests python -m support.mixing_peers``, where these are installed, to compute them anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

RECORD = Path(__file__).with_suffix(".json")

NEIGHBORS = {"drawn": 30, "uneven": 24, "digits": 90}
"""How many neighbors each case has."""

NEGATIVES = {
    "all": {"neg_sameby": [], "neg_diffby": ["label"]},
    "same": {"neg_sameby": ["batch"], "neg_diffby": ["label"]},
    "other": {"neg_sameby": [], "neg_diffby": ["label", "batch"]},
}
"""What copairs takes for the samples of other classes that a sample is to be told from."""


def cases() -> dict[str, dict[str, Any]]:
    """Features, batches and labels; by the name of each case."""
    draw = np.random.RandomState(0)
    label, batch = draw.randint(4, size=300), draw.choice(3, size=300, p=[0.6, 0.3, 0.1])
    x = draw.normal(size=(300, 8)) + 2 * np.eye(8)[label] + 1.5 * np.eye(8)[4 + batch]
    uneven_label, uneven_batch = label[:120].copy(), batch[:120].copy()
    uneven_batch[uneven_label == 3] = 1  # a class in one batch alone
    uneven_batch[5], uneven_label[9] = 3, 4  # a batch, and a class, of one sample
    return {
        "drawn": {"x": x, "label": label, "batch": batch},
        "uneven": {"x": x[:120], "label": uneven_label, "batch": uneven_batch},
        "digits": digits(),
    }


def digits() -> dict[str, Any]:
    """The digits of scikit-learn in thirds, which different people wrote."""
    from sklearn.datasets import load_digits

    pixels, label = load_digits(return_X_y=True)
    # Pixels are whole numbers, so that many digits are equally far from one: no peer says which come first.
    x = (pixels - pixels.mean(0)) / (1 + pixels.std(0))
    return {"x": x, "label": label, "batch": np.arange(len(x)) // 600}


def of_peers(case: Mapping[str, Any], k: int) -> dict[str, Any]:
    """What the peers measure of a case."""
    import pandas as pd
    import scib_metrics
    from copairs.map import average_precision
    from scib_metrics.nearest_neighbors import NeighborsResults
    from sklearn.metrics import silhouette_score
    from sklearn.neighbors import NearestNeighbors

    x, label, batch = case["x"], case["label"], case["batch"]
    distances, places = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(x).kneighbors(x)
    near = NeighborsResults(indices=places, distances=distances)
    found = {
        "ilisi": scib_metrics.ilisi_knn(near, batch),
        "kbet": 1 - scib_metrics.kbet(near, batch)[0],
        "silhouette_batch": scib_metrics.silhouette_batch(x, label, batch),
        "clisi": scib_metrics.clisi_knn(near, label),
        "silhouette_label": scib_metrics.silhouette_label(x, label),
        "silhouette_score": silhouette_score(x, label),
    }
    told = pd.DataFrame({"label": label, "batch": batch})
    for name, negatives in NEGATIVES.items():
        of_each = average_precision(told, x, ["label"], ["batch"], **negatives, progress_bar=False)
        found[f"map, {name}"] = of_each.average_precision[of_each.n_pos_pairs > 0].mean()
    return {name: float(value) for name, value in found.items()}


def main() -> None:
    """Write the record."""
    import jax

    jax.config.update("jax_enable_x64", True)  # scib-metrics computes in float32 otherwise
    packages = ("scib-metrics", "scikit-learn", "copairs", "jax", "numpy")
    record = {
        "versions": {each: version(each) for each in packages},
        "numbers": {name: of_peers(case, NEIGHBORS[name]) for name, case in cases().items()},
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
