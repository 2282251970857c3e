"""The built-in components under the kit that others use."""

from __future__ import annotations

from ccl_plugins.testing import parametrize_with_checks


@parametrize_with_checks("ccl-plugins")
def test_conformance(check):
    check()
