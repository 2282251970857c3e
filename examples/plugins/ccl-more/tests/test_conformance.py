"""Every objective of this package keeps the laws of an objective."""

from ccl_plugins.testing import parametrize_with_checks


@parametrize_with_checks("ccl-more")
def test_conformance(check):
    check()
