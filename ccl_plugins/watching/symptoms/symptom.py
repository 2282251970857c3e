"""What a symptom is, and what it sees of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.training.findings import Finding
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.tables import Tables
from ccl_plugins.watching.chance import Scale
from ccl_plugins.watching.embeddings import Embeddings

SHORT = 20
"""Optimizer steps before which nothing is judged."""

FEW = 4
"""Samples of a batch from which it is judged: fewer lie on a line, or at one point, by their number."""

UNMOVED, THROWN, FAR_THROWN = 1e-3, 2.0, 10.0
"""Changes of the weights, in parts of their norm, by a rate that is too low or too high."""


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What is known of a run without looking at a batch.

    Args:
        step: Optimizer steps taken; 0 before training.
        total: Those of the whole run.
        settings: The settings of training.
        rate: The learning rate that was chosen, before schedules.
        objective: The objective.
        read: The conditions that the objective or the sampler reads.
        tables: The tables of the conditions.
        fresh: The conditions whose tables were fitted since the last look.
        temperatures: The setting and the value of each temperature; of a scheduled one both ends.
    """

    step: int
    total: int
    settings: FitSettings
    rate: float
    objective: Any
    read: frozenset[str]
    tables: Tables
    fresh: tuple[str, ...]
    temperatures: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Start:
    """What was seen at the first step of a run, also by a run that was resumed.

    Args:
        embeddings: Of its batch.
        loss: Of its batch.
        scale: The ends of the loss on its pairs; None where they are not defined.
    """

    embeddings: Embeddings
    loss: float
    scale: Scale | None


@dataclass(frozen=True, kw_only=True)
class Observation(Beginning):
    """What is seen of a run where it logs its losses: at the first step, and after every interval.

    Args:
        first: Whether this is the first step of the run.
        halfway: Whether half of the time has passed after which it is late.
        late: Whether half of the run and the warm-up have passed, so that a run should have learned.
        due: Whether this is the first look that is late, or the end of the run.
        pairs: Those of the last batch, without gradient.
        loss: The mean loss of the interval.
        recent: The mean of this loss and of the one before.
        deviation: The standard deviation of the losses of the interval.
        embeddings: Numbers of the last batch's embeddings.
        start: What was seen at the first step.
        momentum: That of a momentum encoder; None: there is none.
        moved: How far the weights are from where they were, in parts of their norm.
        scale: The ends of the loss on these pairs.  All processes must ask for them at the same time.
    """

    first: bool
    halfway: bool
    late: bool
    due: bool
    pairs: Pairs
    loss: float
    recent: float
    deviation: float
    embeddings: Embeddings
    start: Start
    momentum: float | None
    moved: Callable[[], float]
    scale: Callable[[], Scale | None]

    @property
    def few(self) -> bool:
        """Whether the batch has too few samples on this process to judge its embeddings."""
        return self.pairs.anchors.shape[1] < FEW


class Symptom:
    """Something that may be off in a run: what to look at, and the line that says it.

    What it remembers are attributes of plain data; they are in the checkpoint.

    Example:
        ```python
        class LossIsZero(Symptom):
            def look(self, seen):
                if seen.recent == 0:
                    yield Finding("the-loss-is-zero", seen.step, "the loss is 0: give the objective work")
        ```
    """

    follows: bool = False
    """Whether it follows from other things: it is said of no run in which another was found."""

    def begin(self, seen: Beginning) -> Iterable[Finding]:
        """What is off before the first step of a run, or of a resumed one."""
        return ()

    def look(self, seen: Observation) -> Iterable[Finding]:
        """What is off at this step; of one name about the same thing it is said once."""
        return ()

    def state_dict(self) -> dict[str, Any]:
        """What it remembers, as plain data."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Remember what it had seen until a checkpoint."""
        vars(self).update(state)
