"""Where what broke a law was raised."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from ccl_plugins.testing.causes import Cause, cause_of

PYTHON = Path(functools.__file__).parent


def raised(source: str, file: Path) -> Exception:
    """What a module raises that lies in a file."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  any
        exec(compile(source, str(file), "exec"))
    return caught.value


@pytest.mark.parametrize("folder", ["/home/me", str(PYTHON / "site-packages")])
def test_code_of_a_plugin_has_a_place_wherever_it_is_installed(folder):
    file = Path(folder) / "ccl_ring" / "ring.py"
    found = cause_of(raised("\nraise ValueError('no ring')", file))
    assert found == Cause("ValueError", "no ring", "ccl_ring/ring.py:2")
    found = cause_of(raised("assert False, 'no ring'", file))
    assert found == Cause("AssertionError", "no ring", "ccl_ring/ring.py:1")


def test_code_of_python_is_not_of_a_plugin():
    error = raised(
        "import json\njson.loads('{')", PYTHON / "site-packages" / "ccl_ring" / "ring.py"
    )
    found = cause_of(error)
    assert found is not None
    assert found.place == "ccl_ring/ring.py:2"
