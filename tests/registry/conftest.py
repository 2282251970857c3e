"""A registry of toy components."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.toy_registry import ENTRY_POINTS, new_registry, write_metadata

from ccl_registry import Registry


@pytest.fixture(autouse=True)
def _installed_nothing() -> Iterator[None]:
    """Look-ups find the distributions of a test alone; reading all that are installed takes longer."""
    before = sys.path
    sys.path = [each for each in before if "site-packages" not in each]
    yield
    sys.path = before


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A host and two plug-ins on the path, and a registry that finds them."""
    for name, entry_points in ENTRY_POINTS.items():
        write_metadata(tmp_path, name, "1.0", entry_points)
    monkeypatch.syspath_prepend(tmp_path)
    return new_registry()
