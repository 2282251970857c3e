"""TensorBoard's files of events in a run's folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EVENTS = "events.out.tfevents."
"""What the names of TensorBoard's files begin with; the second in which they were made follows."""


@contextmanager
def replacing_events(folder: Path, suffix: str) -> Iterator[Any]:
    """A writer of TensorBoard events whose file takes the place of those with the same suffix."""
    from torch.utils.tensorboard import SummaryWriter

    earlier = set(folder.glob(f"{EVENTS}*{suffix}"))
    with SummaryWriter(str(folder), filename_suffix=suffix) as writer:
        yield writer
    for file in folder.glob(f"{EVENTS}*{suffix}"):
        if file in earlier:
            file.unlink()
        else:  # TensorBoard reads by name: after the training's events of the same second
            second, rest = file.name.removeprefix(EVENTS).split(".", 1)
            file.rename(file.with_name(f"{EVENTS}{second}~{rest}"))
