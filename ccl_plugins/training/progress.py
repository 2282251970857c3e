"""The progress bar, and the lines that replace it if there is no terminal."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import Any

from pytorch_lightning.callbacks import TQDMProgressBar
from pytorch_lightning.callbacks.progress.tqdm_progress import Tqdm

from ccl_plugins.training.loss_log import COSTS, PROBE, LossLog

SECONDS_BETWEEN_LINES = 30.0


class Progress(TQDMProgressBar):
    """Lightning's bar on standard error, one for the whole run, with loss and images per second.

    If standard error is not a terminal it writes a line every half minute and one at the end,
    because a bar that redraws itself makes a log unreadable: ``step 120 of 1500, loss 3.21, 4.1
    steps/s, 5:36 left``.
    """

    def __init__(self, losses: LossLog) -> None:
        super().__init__()
        self.losses = losses
        self._next_line = 0.0
        self._begun = (0.0, 0)
        """The time and the step at which training began here."""

    def init_train_tqdm(self) -> Tqdm:
        """The bar, which begins at the batches that a resumed run has already consumed."""
        now = time.monotonic()
        self._next_line, self._begun = now + SECONDS_BETWEEN_LINES, (now, self.trainer.global_step)
        module: Any = self.trainer.lightning_module
        return Tqdm(
            total=module.length.batches,
            initial=module.consumed.batches,
            unit="batch",
            dynamic_ncols=True,
            disable=self.is_disabled or not _in_terminal(),
        )

    def on_train_epoch_start(self, *_: Any) -> None:
        """Do nothing: Lightning would begin a new bar."""

    def on_train_batch_end(self, *_: Any) -> None:
        """Advance the bar, or write a line when it is due."""
        bar = self.train_progress_bar
        with suppress(OSError):  # the terminal may be gone, or the disk of a log be full
            if not bar.disable:
                bar.set_description(self._epoch(), refresh=False)
                bar.set_postfix_str(self._values(), refresh=False)
                bar.update()
            elif time.monotonic() >= self._next_line and self.trainer.global_step < self._total:
                self._write_line()

    def on_train_epoch_end(self, *_: Any) -> None:
        """Do nothing: Lightning would show other values."""

    def on_train_end(self, *_: Any) -> None:
        """Close the bar, or write the last line, with the cost of the monitors."""
        bar = self.train_progress_bar
        with suppress(OSError):
            if bar.disable:
                self._write_line(ended=True)
            else:
                bar.set_postfix_str("  ".join([self._values(), *self._cost()]), refresh=False)
            super().on_train_end()

    def on_exception(self, *_: Any) -> None:
        """Close the bar, so that the error begins on a new line."""
        with suppress(OSError):
            if self._train_progress_bar is not None:
                self._train_progress_bar.close()

    def _write_line(self, ended: bool = False) -> None:
        if self.is_disabled:
            return
        now, step = time.monotonic(), self.trainer.global_step
        self._next_line = now + SECONDS_BETWEEN_LINES
        total, (since, first) = self._total, self._begun
        words = [f"step {step} of {total}"]
        if "loss" in self.trainer.callback_metrics:
            words.append(f"loss {self.trainer.callback_metrics['loss']:.4g}")
        words += self._probe()
        if step > first:
            rate = (step - first) / max(now - since, 1e-9)
            words.append(f"{rate:.1f} steps/s" if rate >= 1 else f"{1 / rate:.1f} s/step")
            if not ended:
                words.append(f"{clock((total - step) / rate)} left")
        if ended:
            words.append(f"{'done in' if step >= total else 'ended after'} {clock(now - since)}")
            words += self._cost()
        print(", ".join(words), file=sys.stderr, flush=True)

    @property
    def _total(self) -> int:
        module: Any = self.trainer.lightning_module
        return module.length.steps

    def _epoch(self) -> str:
        epochs = self.trainer.max_epochs or 0
        return f"epoch {min(self.trainer.current_epoch + 1, epochs)}/{epochs}"

    def _values(self) -> str:
        latest = self.losses.latest
        if not latest:
            return ""
        speed = f"{latest['images_per_second']:,.0f} images/s"
        return "  ".join([f"loss {latest['loss']:.4f}", *self._probe(), speed])

    def _cost(self) -> list[str]:
        """The monitors' share of the time, if there are any."""
        share = self.trainer.callback_metrics.get(COSTS)
        return [] if share is None else [f"{float(share):.1%} of it for monitors"]

    def _probe(self) -> list[str]:
        """The latest accuracy of the label's online probe, if it is measured."""
        accuracy = self.trainer.callback_metrics.get(PROBE)
        return [] if accuracy is None else [f"label probe {float(accuracy):.3f}"]


def clock(seconds: float) -> str:
    """A time as ``5:36`` or ``1:05:36``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _in_terminal() -> bool:
    """Whether a bar is visible: tqdm draws none if the terminal does not report its size."""
    try:
        return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).lines > 1
    except OSError:
        return False
