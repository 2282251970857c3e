"""What a built-in component means without a parameter does not change unnoticed."""

from __future__ import annotations

import json

import pytest
from support.components import RECORD, components

RECORDED = json.loads(RECORD.read_text("utf-8"))
RENEW = "pipelines that leave it out change: say so in CHANGELOG.md and run python -m support.components"


@pytest.fixture(scope="module")
def now():
    return components()


@pytest.mark.parametrize("name", RECORDED)
def test_defaults_examples_and_declarations_are_as_recorded(name, now):
    assert now.get(name) == RECORDED[name], RENEW
