"""The progress bar, and the lines that replace it without a terminal."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from pytorch_lightning.callbacks import TQDMProgressBar
from pytorch_lightning.callbacks.progress.tqdm_progress import Tqdm

from ccl_plugins.training.monitor import Monitor

SECONDS_BETWEEN_LINES = 30.0


class Progress(TQDMProgressBar):
    """Lightning's bar on standard error, one for the whole run, with loss and images per second.

    If standard error is not a terminal it writes a line every half minute and one at the end,
    since a bar that redraws itself makes a log unreadable.
    """

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self.monitor = monitor
        self._next_line = 0.0
        self._written = -1

    def init_train_tqdm(self) -> Tqdm:
        """The bar, which begins at the batches that a resumed run has already consumed."""
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
        module: Any = self.trainer.lightning_module
        return Tqdm(
            total=(self.trainer.max_epochs or 0) * int(self.total_train_batches),
            initial=module.consumed.batches,
            unit="batch",
            dynamic_ncols=True,
            disable=self.is_disabled or not _in_terminal(),
        )

    def on_train_epoch_start(self, *_: Any) -> None:
        """Nothing: Lightning would begin a new bar."""

    def on_train_batch_end(self, *_: Any) -> None:
        """Advance the bar, or write a line when it is due."""
        bar = self.train_progress_bar
        if not bar.disable:
            bar.set_description(self._epoch(), refresh=False)
            bar.set_postfix_str(self._values(), refresh=False)
            bar.update()
        elif time.monotonic() >= self._next_line:
            self._write_line()

    def on_train_epoch_end(self, *_: Any) -> None:
        """Nothing: Lightning would show other values."""

    def on_train_end(self, *_: Any) -> None:
        """Close the bar, or write the last line."""
        if self.train_progress_bar.disable and self._written != self.trainer.global_step:
            self._write_line()
        super().on_train_end()

    def on_exception(self, *_: Any) -> None:
        """Close the bar, so that the error begins on a new line."""
        if self._train_progress_bar is not None:
            self._train_progress_bar.close()

    def _write_line(self) -> None:
        if self.is_disabled:
            return
        self._written = self.trainer.global_step
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
        line = f"{self._epoch()}  step {self._written}  {self._values()}"
        print(line.rstrip(), file=sys.stderr, flush=True)

    def _epoch(self) -> str:
        epochs = self.trainer.max_epochs or 0
        return f"epoch {min(self.trainer.current_epoch + 1, epochs)}/{epochs}"

    def _values(self) -> str:
        latest = self.monitor.latest
        if not latest:
            return ""
        return f"loss {latest['loss']:.4f}  {latest['images_per_second']:,.0f} images/s"


def _in_terminal() -> bool:
    """Whether a bar would be seen: tqdm draws none if the terminal does not report its size."""
    try:
        return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).lines > 1
    except OSError:
        return False
