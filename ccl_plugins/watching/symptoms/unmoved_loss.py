"""A loss that stays at chance, or where it began."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ccl_plugins.protocols import trait
from ccl_plugins.training.findings import Finding
from ccl_plugins.watching.chance import Scale
from ccl_plugins.watching.symptoms.symptom import SHORT, THROWN, UNMOVED, Observation, Symptom


class UnmovedLoss(Symptom):
    """The loss is near that of guessing, or near its start, when the run should have learned."""

    follows = True

    def __init__(self) -> None:
        self.halfway = math.inf
        """The loss at half of the time that is waited."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the loss with its start, with half of the time before, and with guessing."""
        if trait(seen.objective, "adversarial"):
            return  # in a game it may be right that it stays
        loss = seen.recent
        if self.halfway == math.inf and seen.halfway:
            self.halfway = loss
        if not seen.due:
            return
        if seen.start.scale is None:
            if seen.step >= SHORT and loss > 0.9 * seen.start.loss and seen.moved() < UNMOVED:
                yield Finding(
                    "the-loss-stays-at-chance",
                    seen.step,
                    f"the loss does not fall: it is {loss:.3g}, and began at {seen.start.loss:.3g};"
                    f" the weights hardly move: raise fit.optimizer.lr (now {seen.rate:g})",
                )
            return
        scale = seen.scale()
        if scale is None or not scale.distinguishes or seen.step < SHORT:
            return
        remedy = self._remedy(seen, seen.start.scale, scale)
        self.halfway = loss
        if remedy:
            at_chance = scale.progress(loss) < 0.1
            yield Finding(
                "the-loss-stays-at-chance",
                seen.step,
                f"the loss {'stays at chance' if at_chance else 'does not fall'}: it is {loss:.3g},"
                f" began at {seen.start.loss:.3g}, and guessing gives {scale.chance:.3g}; {remedy}",
            )

    def _remedy(self, seen: Observation, first: Scale, scale: Scale) -> str:
        """What to change; nothing if the loss falls, or the embeddings of views come nearer."""
        progress, moved = scale.progress(seen.recent), seen.moved()
        gained = progress - (first.progress(seen.start.loss) if first.distinguishes else 0.0)
        # Weights that stay where they are gain nothing but the noise of the first batch.
        least = 0.1 if moved < UNMOVED else 0.02
        lately = progress - scale.progress(self.halfway)
        stays = (progress < 0.5 and gained < least) or (progress < 0.05 and lately < 0.05)
        now, start = seen.embeddings.nearer, seen.start.embeddings.nearer
        nearer = now > 0.1 and abs(now - start) > 0.1
        if not stays or (nearer and UNMOVED < moved < THROWN):
            return ""
        rate = f"fit.optimizer.lr (now {seen.rate:g})"
        if moved < UNMOVED:
            return f"the weights hardly move: raise {rate}"
        if not seen.late:
            return ""
        if moved > THROWN:
            return f"the weights are thrown about: lower {rate}"
        if now < 0.1:
            return (
                "two views of an image are as far apart as two images: take weaker views (transform), or"
                f" change {rate}"
            )
        return f"change {rate}, or lower objective.temperature"
