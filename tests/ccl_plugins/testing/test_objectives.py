"""Objectives that break one law each."""

from __future__ import annotations

import pytest
from support.broken import broken_laws, names
from support.broken_objectives import BROKEN


@pytest.mark.parametrize("objective", BROKEN)
def test_the_law_that_is_broken_is_named(objective):
    assert broken_laws("objective", objective) == BROKEN[objective]


def test_every_law_is_broken_once():
    assert set().union(*BROKEN.values()) == names("objective")
