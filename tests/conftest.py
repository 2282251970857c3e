"""Fixtures that several tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from two_processes import TwoProcesses


@pytest.fixture(scope="session")
def two_processes() -> Iterator[TwoProcesses]:
    """Two gloo ranks; starting them takes seconds, so a session has one pair."""
    ranks = TwoProcesses()
    yield ranks
    ranks.close()
