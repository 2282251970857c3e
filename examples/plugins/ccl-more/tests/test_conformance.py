"""Every objective of this package keeps the laws of an objective, in its defaults and in other settings."""

from ccl_plugins.testing import parametrize_with_checks

SETTINGS = {
    "dcl": {
        "kernel": {"kernel": "rbf", "symmetric": False},
        "across views": {"kernel": "laplacian", "within_view": False},
    },
    "dhel": {"kernel": {"kernel": "rbf"}},
    "decoupled_uniformity": {"kernel": {"kernel": "rbf"}},
    "fair_kl": {"over the batch": {"over": "batch"}},
    "fare": {"buckets": {"buckets": 4, "own": False}},
    "fscl": {"group normalization": {"group_normalization": True}},
    "gca": {"kernel": {"kernel": "rbf", "row_penalty": None, "column_penalty": None}},
    "hmlc": {"himulcon": {"form": "himulcon"}},
    "paco": {"projection": {"of": "projection", "rebalance": False}},
    "supremix": {"window": {"share": None, "window": 0.7}},
    "accon": {"span": {"span": 3.0, "same": 0.2}},
}
"""Settings that are computed in another way, beside the defaults."""


@parametrize_with_checks(
    "ccl-more", variants={f"objective/{name}": variants for name, variants in SETTINGS.items()}
)
def test_conformance(check):
    check()
