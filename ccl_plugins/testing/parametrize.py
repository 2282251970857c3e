"""The checks of a distribution as the parameters of a pytest test."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ccl_plugins.testing.subject import Example
from ccl_plugins.testing.suite import Check, checks

if TYPE_CHECKING:
    import pytest


def parametrize_with_checks(
    distribution: str,
    *,
    expected_failures: Mapping[tuple[str, str], str] | None = None,
    examples: Mapping[str, Example] | None = None,
) -> pytest.MarkDecorator:
    """One test per component and check, as ``kernel/ring-symmetric``.

    The test function takes one argument, ``check``, and calls it.

    Args:
        distribution: The name of an installed distribution.
        expected_failures: Reasons by component and check, as ``("kernel/ring", "symmetric")``: strict
            xfails, which fail the tests once the check passes.
        examples: Parameters in place of a class's ``EXAMPLE``, by ``"dataset/photos"``; a function is
            given an empty folder and returns the parameters, for components that read files.

    Raises:
        LookupError: While tests are collected: for a distribution that is not installed or offers
            nothing, and for an expected failure or an example that names nothing there is.
    """
    import pytest

    found = checks(distribution, examples)
    expected = dict(expected_failures or {})
    _refuse_unknown(expected, found)
    parameters = []
    for each in found:
        reason = expected.get((each.component, each.name))
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
        parameters.append(pytest.param(each, id=str(each), marks=marks))
    return pytest.mark.parametrize("check", parameters)


def _refuse_unknown(expected: Mapping[tuple[str, str], str], found: list[Check]) -> None:
    known = {str(each): (each.component, each.name) for each in found}
    for key in expected:
        if key not in known.values():
            said = "-".join(map(str, key))
            near = difflib.get_close_matches(said, known, n=1)
            hint = f"did you mean {known[near[0]]!r}?" if near else f"there are {', '.join(known)}"
            raise LookupError(f"expected_failures has {key!r}, but there is no such check: {hint}")
