"""Fixtures that several tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from installed_plugins import InstalledPlugins
from two_processes import TwoProcesses

# Test processes share the cores, and torch's threads would fight for them.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def two_processes() -> Iterator[TwoProcesses]:
    """Two gloo ranks; starting them takes seconds, so a session has one pair."""
    ranks = TwoProcesses()
    yield ranks
    ranks.close()


@pytest.fixture(scope="session")
def installed_plugins(tmp_path_factory: pytest.TempPathFactory) -> InstalledPlugins:
    """The packages of ``tests/plugins``; installing one takes a second, so a session does it once."""
    return InstalledPlugins(tmp_path_factory.mktemp("plugins"))
