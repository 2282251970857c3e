"""The assertions that checks are made of; each failure begins with the law that is broken."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


def require(law: str, kept: bool, found: str = "") -> None:
    """Raise an AssertionError unless a law is kept.

    Args:
        law: The law, as a sentence.
        kept: Whether it is kept.
        found: The input and the result that break it.
    """
    if not kept:
        raise AssertionError(f"{law}\n  {found}" if found else law)


def require_equal(
    law: str, found: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None
) -> None:
    """Raise an AssertionError unless tensors, or trees of tensors, are equal up to rounding."""
    torch.testing.assert_close(
        found, expected, rtol=rtol, atol=atol, equal_nan=True, msg=lambda text: f"{law}\n{text}"
    )


@contextlib.contextmanager
def require_no_error(law: str) -> Iterator[None]:
    """Turn exceptions into an AssertionError with the law, but for files that do not exist."""
    try:
        yield
    except (AssertionError, FileNotFoundError):
        raise
    except Exception as error:  # a plug-in may raise anything
        raise AssertionError(f"{law}\n  it raised {type(error).__name__}: {error}") from error
