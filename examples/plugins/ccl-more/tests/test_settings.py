"""Settings that change what an objective reads keep the laws too, as its defaults do."""

import ccl_plugins as ccl
import pytest
from ccl_plugins.testing import checks

SETTINGS = {
    "dcl": {"kernel": "rbf", "symmetric": False},
    "dcl across views": {"kernel": "laplacian", "within_view": False},
    "dhel": {"kernel": "rbf"},
    "fare": {"buckets": 4, "own": False},
    "gca": {"kernel": "rbf", "row_penalty": None, "column_penalty": None},
    "supremix": {"share": None, "window": 0.7},
    "accon": {"span": 3.0, "same": 0.2},
}
CHECKS = {
    f"{name}, {check.name}": check
    for name, params in SETTINGS.items()
    for check in checks(ccl.objective(name.split()[0], **params))
}


@pytest.mark.parametrize("law", CHECKS)
def test_a_setting_keeps_the_law(law):
    CHECKS[law]()
