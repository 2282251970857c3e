"""The progress of a run: a bar in a terminal, lines in a log."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ProgressBar
from tqdm import tqdm  # type: ignore[import-untyped]  # it ships no types

from ccl_plugins.training.monitor import Monitor

SECONDS_BETWEEN_LINES = 30.0


class Progress(ProgressBar):
    """One bar for the whole run, with loss and images per second.

    Where standard error is no terminal, a line every half minute and one at the end instead, since
    a bar that redraws itself makes a log unreadable.

    Args:
        monitor: Knows the loss and the speed.
    """

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self.monitor = monitor
        self.enabled = True
        self._bar: tqdm[Any] | None = None
        self._next_line = 0.0
        self._written = -1

    def disable(self) -> None:
        """Show nothing, as Lightning asks of every process but the first."""
        self.enabled = False

    def enable(self) -> None:
        """Show progress again."""
        self.enabled = True

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Open the bar."""
        if not self.enabled:
            return
        if _in_terminal():
            whole = (trainer.max_epochs or 0) * int(trainer.num_training_batches)
            done = pl_module.consumed.batches
            self._bar = tqdm(total=whole, initial=done, unit="batch", dynamic_ncols=True)
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Advance."""
        if self._bar is not None:
            self._bar.set_description(self._epoch(trainer), refresh=False)
            self._bar.set_postfix_str(self._values(), refresh=False)
            self._bar.update()
        elif self.enabled and time.monotonic() >= self._next_line:
            self._write_line(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Close the bar, or write the last line."""
        if self._bar is None and self.enabled and self._written != trainer.global_step:
            self._write_line(trainer)
        self._close()

    def on_exception(self, trainer: pl.Trainer, pl_module: Any, exception: BaseException) -> None:
        """Leave the terminal as it was."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _write_line(self, trainer: pl.Trainer) -> None:
        self._written = trainer.global_step
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
        line = f"{self._epoch(trainer)}  step {trainer.global_step}  {self._values()}"
        sys.stderr.write(line.rstrip() + "\n")
        sys.stderr.flush()

    def _epoch(self, trainer: pl.Trainer) -> str:
        return (
            f"epoch {min(trainer.current_epoch + 1, trainer.max_epochs or 0)}/{trainer.max_epochs}"
        )

    def _values(self) -> str:
        latest = self.monitor.latest
        if not latest:
            return ""
        return f"loss {latest['loss']:.4f}  {latest['images_per_second']:,.0f} images/s"


def _in_terminal() -> bool:
    """Whether a bar would be seen: tqdm draws none where a terminal does not say how large it is."""
    try:
        return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).lines > 1
    except OSError:
        return False
