"""Every objective of this package keeps the laws of an objective."""

import ccl_plugins as ccl
import pytest
from ccl_plugins.testing import check as check_all
from ccl_plugins.testing import parametrize_with_checks


@parametrize_with_checks("ccl-more")
def test_conformance(check):
    check()


SETTINGS = [
    ("fair_kl", {"over": "batch"}),
    ("fscl", {"group_normalization": True}),
    ("hmlc", {"form": "himulcon"}),
    ("paco", {"of": "projection", "rebalance": False}),
]
"""Settings that are computed in another way, beside the defaults."""


@pytest.mark.parametrize(("name", "params"), SETTINGS)
def test_conformance_in_other_settings(name, params):
    check_all(ccl.objective(name, **params))
