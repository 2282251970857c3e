"""Embeddings that lie on a line."""

from __future__ import annotations

from collections.abc import Iterator

from ccl_plugins.training.findings import Finding
from ccl_plugins.training.tables import Tables
from ccl_plugins.watching.embeddings import SAME_ROWS
from ccl_plugins.watching.symptoms.symptom import FAR_THROWN, Observation, Symptom

LEAST_RANK = 1.5
"""An effective rank of embeddings below this is that of a line."""


class Line(Symptom):
    """Nearly all variance of the embeddings is in one direction."""

    follows = True

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Look at their rank, unless the objective reads so few values that a line is enough."""
        now = seen.embeddings
        if not seen.late or seen.few or now.spread < SAME_ROWS or now.width <= 3:
            return
        if any(_is_narrow(seen.tables, name) for name in seen.objective.conditions):
            return
        thrown = now.rank < 2 * LEAST_RANK and seen.moved() > FAR_THROWN
        if not thrown and now.rank >= LEAST_RANK:
            return
        remedy = f"lower fit.optimizer.lr (now {seen.rate:g})"
        if thrown:
            remedy = f"the weights are thrown about: {remedy}"
        else:
            remedy = (
                f"widen the head (method.hidden), {remedy}, or take views that leave more than one"
            )
            remedy += " thing to tell images apart by"
        yield Finding(
            "the-embeddings-lie-on-a-line",
            seen.step,
            f"the embeddings lie on a line: their effective rank is {now.rank:.1f} of"
            f" {now.width:.0f} dimensions; {remedy}",
        )


def _is_narrow(tables: Tables, name: str) -> bool:
    """Whether a condition has so few values that embeddings on a line may tell them apart."""
    if name not in [*tables]:
        return True
    values = tables[name].values
    if values.is_floating_point():
        return values.ndim == 1 or values.shape[1] < 3
    return values.ndim == 1 and len(values.unique()) <= 3
