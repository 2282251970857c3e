"""A hint of a plug-in that is imported under ``if TYPE_CHECKING:`` alone."""

from __future__ import annotations

import pytest

import ccl_plugins as ccl
from ccl_plugins.kinds import registry
from ccl_plugins.testing.every_kind import check_hints_its_parameters
from ccl_plugins.testing.subject import Subject

SOURCE = '''
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from ccl_plugins.protocols import Kernel

class Wrapped:
    """Wraps a kernel."""
    positive_definite = True
    def __init__(self, kernel: Kernel = "rbf") -> None:
        self.kernel = kernel
    def __call__(self, a, b):
        return self.kernel(a, b)
'''


def test_it_breaks_the_law_and_says_what_to_import_when_chosen(install_plugin):
    points = {"ccl_plugins.kernel": {"wrapped": "ccl_late:Wrapped"}}
    install_plugin("ccl-late", points, {"ccl_late.py": SOURCE})
    message = (
        r"kernel ccl-late/wrapped 0.1: the hint of kernel, 'Kernel', cannot be resolved .*:"
        " import Kernel at the top of ccl_late, not only for type checkers"
    )
    with pytest.raises(AssertionError, match=message):
        check_hints_its_parameters(Subject(registry().find("kernel", "wrapped")))
    with pytest.raises(ccl.InvalidSpec, match=message):
        ccl.kernel("wrapped")
