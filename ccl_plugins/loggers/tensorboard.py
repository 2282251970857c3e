"""TensorBoard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ccl_plugins.arguments import checked, positive, whole
from ccl_plugins.files.events import EVENTS

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger


@dataclass(eq=False, repr=False)
class TensorBoard:
    """TensorBoard events in the run's folder.

    Args:
        flush_secs: Seconds after which events are on the disk, above 0.
        max_queue: The number of events that are held before they are written, 1 or more.

    Raises:
        ValueError: For a value out of range.
    """

    files = (f"{EVENTS}*",)
    on_disk = True

    flush_secs: float = checked(positive, default=120)
    max_queue: int = checked(whole, least=1, default=10)

    def open(self, folder: Path, done: int | None) -> Logger:
        """Open the events of the run in a folder; those after step ``done`` are hidden."""
        from ccl_plugins.loggers.events import Events

        return Events(folder, done, flush_secs=self.flush_secs, max_queue=self.max_queue)
