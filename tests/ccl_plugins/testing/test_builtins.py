"""The built-in components pass the conformance kit."""

from __future__ import annotations

from support.builtin_examples import EXAMPLES

from ccl_plugins.testing import parametrize_with_checks


@parametrize_with_checks("ccl-plugins", examples=EXAMPLES)
def test_conformance(check):
    check()
