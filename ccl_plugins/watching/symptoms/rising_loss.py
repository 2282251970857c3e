"""A loss that rises."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ccl_plugins.objectives.scalars import Scheduled
from ccl_plugins.protocols import trait
from ccl_plugins.training.findings import Finding
from ccl_plugins.watching.symptoms.symptom import SHORT, Observation, Symptom


class RisingLoss(Symptom):
    """The loss rose far above its start, or lost most of what it had gained.

    A loss that changes since a queue fills, clusters are formed again or a temperature is scheduled is not
    meant: it is compared with the chance of the present batch.
    """

    follows = True

    def __init__(self) -> None:
        self.best = math.inf
        """The lowest loss."""
        self.borne = math.inf
        """One up to which it may rise before the scale is computed again; infinite: not known yet."""
        self.regained = self.chance = -math.inf
        """One up to which a loss that had fallen may rise again, and the chance when the best was known."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the loss with its start and its best."""
        if trait(seen.objective, "adversarial"):
            return  # in a game it may be right that it rises
        if seen.fresh:  # another condition has another loss
            self.best = math.inf
        best = min(self.best, seen.start.loss) if seen.start.scale else self.best
        if self._rises(seen):
            yield from rise(seen.step, seen.recent, best, seen.deviation, seen.rate)
        self.best = min(self.best, seen.loss)

    def _rises(self, seen: Observation) -> bool:
        loss, start, scale = seen.recent, seen.start.loss, seen.start.scale
        if scale is None:
            return loss > start + 2 * max(abs(start), 0.5) and seen.step >= SHORT
        if self.chance == -math.inf:
            self.chance = scale.chance
        best, room = self.best, max(scale.room, 0.0)
        fallen = start - best  # far below 0 while there is no best
        borne = self.borne if self.borne < math.inf else start + 0.1 * room
        lost = fallen > 0.3 * room > 0 and loss > max(best + 0.7 * fallen, self.regained)
        rising = seen.step >= SHORT and (loss > borne or lost)
        if not seen.due and not rising:
            return False
        now = seen.scale()
        if now is None or not now.distinguishes:
            return False
        before = scale.progress(start) if scale.distinguishes else 0.0
        scheduled = any(isinstance(each, Scheduled) for each in seen.objective.modules())
        if abs(now.chance - self.chance) > 0.05 * now.room:
            self.chance, self.best = now.chance, loss  # a queue fills, or the objective changes
        if not rising:
            return False
        reached = 0.0 if scheduled else now.progress(min(self.best, loss))
        self.borne = max(loss, borne) + 0.05 * now.room
        self.regained = loss + 0.05 * now.room
        progress = now.progress(loss)
        fell = progress < before - (0.5 if scheduled else 0.15)
        return fell or (reached > 0.3 and progress < 0.25 * reached)


def rise(step: int, loss: float, best: float, deviation: float, rate: float) -> Iterator[Finding]:
    """The line of a loss that rose from its best, unless losses of single batches differ as much."""
    if loss - best > 2 * deviation:
        yield Finding(
            "the-loss-rises",
            step,
            f"the loss rises: it is {loss:.3g}, and was {best:.3g}; lower fit.optimizer.lr (now"
            f" {rate:g}), or set fit.warmup_epochs or fit.clip = 1.0",
        )
