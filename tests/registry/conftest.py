"""A registry of toy components."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.toy_registry import ENTRY_POINTS, new_registry, write_metadata

from registry import Registry


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A host and two plug-ins on the path, and a registry that finds them."""
    for name, entry_points in ENTRY_POINTS.items():
        write_metadata(tmp_path, name, "1.0", entry_points)
    monkeypatch.syspath_prepend(tmp_path)
    return new_registry()
