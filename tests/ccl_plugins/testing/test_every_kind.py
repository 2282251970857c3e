"""Components that break one law of every kind."""

from __future__ import annotations

import os
from typing import ClassVar

import pytest
import torch
from support.broken import broken_laws, law_names

from ccl_plugins.numerics import inner
from ccl_plugins.testing import every_kind
from ccl_plugins.testing.inputs import SmallBackbone


class Sound:
    """The inner product."""

    positive_definite = False

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def __call__(self, a, b):
        return inner(a, b) / self.scale


class Undocumented(Sound):
    pass


class Incomplete(Sound):
    """Needs a parameter."""

    def __init__(self, scale: float) -> None:
        super().__init__(scale)


class Unhinted(Sound):
    """Has no type hint."""

    def __init__(self, scale=1.0) -> None:
        super().__init__(scale)


class Variadic(Sound):
    """Takes anything."""

    def __init__(self, **options: float) -> None:
        super().__init__(1.0)


class Lacking(Sound):
    """Does not say whether it is positive definite."""

    def __getattribute__(self, name):
        if name == "positive_definite":
            raise AttributeError(name)
        return super().__getattribute__(name)


class FromNowhere(Sound):
    """Draws from the system."""

    def __init__(self) -> None:
        super().__init__(1 + int.from_bytes(os.urandom(4)) / 2**32)


class CopiedOtherwise(Sound):
    """Changes when it is copied."""

    def __deepcopy__(self, memo):
        return type(self)(2 * self.scale)


class Unpicklable(Sound):
    """Holds a lambda."""

    def __init__(self) -> None:
        super().__init__()
        self.divide = lambda x: x


class Nameless(Sound):
    """Refuses a number without a word about which."""

    def __init__(self, scale: float = 1.0) -> None:
        if not scale > 0:
            raise ValueError("must be above 0")
        super().__init__(scale)


class Renamed(Sound):
    """Has an old name for a parameter."""

    OLD_PARAMETERS: ClassVar = {"width": "scale"}


class Misnamed(Sound):
    """Has an old name for a parameter that it does not have."""

    OLD_PARAMETERS: ClassVar = {"width": "radius"}


class Hidden(SmallBackbone):
    """A number that is in no state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.rand(())

    def forward(self, x):
        return super().forward(x) * self.scale


BROKEN = {
    Sound: set(),
    Renamed: set(),
    Misnamed: {"is_found_by_its_old_names"},
    Undocumented: {"has_a_summary"},
    Unhinted: {"hints_its_parameters"},
    Nameless: {"names_a_number_that_it_refuses"},
    Lacking: {"satisfies_its_protocol", "is_positive_definite_if_it_says_so"},
    FromNowhere: {"is_rebuilt_from_its_record"},
    CopiedOtherwise: {"copies_do_the_same"},
    Unpicklable: {"pickles"},
}
UNBUILT = {
    Incomplete: "is_built_from_its_example",
    Variadic: "refuses_unknown_parameters",
}
"""Components for which no other check can run."""


@pytest.mark.parametrize("kernel", BROKEN)
def test_the_law_that_is_broken_is_named(kernel):
    assert broken_laws("kernel", kernel) == BROKEN[kernel]


@pytest.mark.parametrize("kernel", UNBUILT)
def test_what_cannot_be_built_is_named(kernel):
    assert {UNBUILT[kernel], "is_built_from_its_example"} <= broken_laws("kernel", kernel)


def test_what_no_checkpoint_holds_is_named():
    assert broken_laws("backbone", Hidden) == {
        "keeps_its_state_in_its_weights",
        "what_learns_is_in_its_weights",
    }


def test_every_law_is_broken_once():
    found = set().union(*BROKEN.values(), UNBUILT.values(), {"keeps_its_state_in_its_weights"})
    assert law_names(every_kind) <= found
