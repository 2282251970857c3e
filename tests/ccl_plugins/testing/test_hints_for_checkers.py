"""Hints of a plug-in that are imported under ``if TYPE_CHECKING:``, as in the package of ``ccl new``."""

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
    from typing import Literal
    from ccl_plugins.protocols import Kernel
    from nowhere import Nothing

class Wrapped:
    """Wraps a kernel."""
    positive_definite = True
    def __init__(self, kernel: Kernel = "rbf", mode: Literal["a", "b"] = "a") -> None:
        self.kernel = kernel
    def __call__(self, a, b):
        return self.kernel(a, b)

class Lost:
    """Has a hint of nothing."""
    positive_definite = True
    def __init__(self, a: Nothing = None) -> None:
        pass
    def __call__(self, a, b):
        return a @ b.T
'''


@pytest.fixture
def _installed(install_plugin):
    points = {"wrapped": "ccl_late:Wrapped", "lost": "ccl_late:Lost"}
    install_plugin("ccl-late", {"ccl_plugins.kernel": points}, {"ccl_late.py": SOURCE})


@pytest.mark.usefixtures("_installed")
def test_a_name_becomes_a_component_and_a_wrong_word_is_refused():
    assert ccl.create("kernel", "wrapped", kernel="linear").kernel.positive_definite
    with pytest.raises(ccl.InvalidParameter, match=r"mode must be Literal\['a', 'b'\], not 'c'"):
        ccl.kernel("wrapped", mode="c")


@pytest.mark.usefixtures("_installed")
def test_a_hint_that_cannot_be_resolved_breaks_the_law_and_is_refused_when_chosen():
    message = "kernel ccl-late/lost 0.1: the hint of a, 'Nothing', cannot be resolved"
    with pytest.raises(AssertionError, match=message):
        check_hints_its_parameters(Subject(registry().find("kernel", "lost")))
    with pytest.raises(ccl.InvalidSpec, match=message):
        ccl.kernel("lost")
    check_hints_its_parameters(Subject(registry().find("kernel", "wrapped")))
