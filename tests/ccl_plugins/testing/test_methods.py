from __future__ import annotations

import pytest
from support.broken import broken_laws, names
from support.broken_methods import BROKEN


@pytest.mark.parametrize("method", BROKEN)
def test_the_law_that_is_broken_is_named(method):
    assert broken_laws("method", method) == BROKEN[method]


def test_every_law_is_broken_once():
    assert set().union(*BROKEN.values()) == names("method")
