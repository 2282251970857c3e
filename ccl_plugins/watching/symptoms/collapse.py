"""Embeddings that have become equal."""

from __future__ import annotations

from collections.abc import Iterator

from ccl_plugins.training.findings import Finding
from ccl_plugins.watching.embeddings import SAME_ROWS
from ccl_plugins.watching.symptoms.symptom import SHORT, UNMOVED, Observation, Symptom

NARROW = 1e-2
"""A variance of embeddings on the unit sphere that is small, if it was larger before."""


class Collapse(Symptom):
    """The embeddings of different samples have become nearly equal."""

    follows = True

    def __init__(self) -> None:
        self.equal_before = False
        """Whether they were equal at the last look."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the variance of the embeddings with 0, and with that at the start."""
        if seen.few:
            return
        spread, scale = seen.embeddings.spread, seen.start.scale
        equal, before = spread < SAME_ROWS, self.equal_before
        self.equal_before = equal
        narrowed = spread < min(NARROW, 0.2 * seen.start.embeddings.spread)
        if not (equal and before and seen.step >= SHORT) and not (seen.late and narrowed):
            return
        if seen.moved() < UNMOVED and not narrowed:
            return  # it has always been so, and the loss says why it stays so
        if scale is None:
            remedy = (
                f"lower fit.optimizer.lr (now {seen.rate:g}), or take an objective with negatives"
            )
        elif scale.distinguishes:
            remedy = f"lower fit.optimizer.lr (now {seen.rate:g})"
        else:
            remedy = (
                "nothing keeps samples apart: take an objective with negatives, or others of its"
            )
            remedy += " weights (objective)"
        yield Finding(
            "the-embeddings-collapse",
            seen.step,
            f"the embeddings collapse: those of different samples are nearly equal, with a variance of"
            f" {spread:.1g} on the unit sphere; {remedy}",
        )
