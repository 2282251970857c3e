"""How a broken law is told: which law, what was given, what came out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


def hold(law: str, kept: bool, found: str = "") -> None:
    """An assertion that teaches.

    Args:
        law: The law, as a sentence.
        kept: Whether it was kept.
        found: What was given and what came out.
    """
    if not kept:
        raise AssertionError(f"{law}\n  {found}" if found else law)


def agree(
    law: str, found: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None
) -> None:
    """Tensors, or trees of them, that must be equal up to rounding."""
    torch.testing.assert_close(
        found, expected, rtol=rtol, atol=atol, equal_nan=True, msg=lambda said: f"{law}\n{said}"
    )


@contextlib.contextmanager
def may_not(law: str) -> Iterator[None]:
    """Whatever is raised inside breaks the law; a file that is missing does not."""
    try:
        yield
    except (AssertionError, FileNotFoundError):
        raise
    except Exception as error:  # a stranger's component may raise anything
        raise AssertionError(f"{law}\n  it raised {type(error).__name__}: {error}") from error
