from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning import Callback
from support.training_fakes import fit, make_parts

from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.runs.layout import Layout
from ccl_plugins.training import FitSettings
from ccl_plugins.training.checkpointing import Interrupt


class SignalToAll(Callback):
    """Signals the process and its workers, as a terminal does and a scheduler that ends a job."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.workers = 0
        # Processes of other tests, which are none of this run's business.
        self.others = set(multiprocessing.active_children())

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == 3:
            workers = set(multiprocessing.active_children()) - self.others
            self.workers = len(workers)
            for pid in [*(worker.pid for worker in workers), os.getpid()]:
                os.kill(pid, self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_a_run_and_its_workers_leaves_a_checkpoint(tmp_path: Path, number: int) -> None:
    signals = SignalToAll(number)
    settings = FitSettings(epochs=9, batch_size=4, workers=2)
    result = fit(make_parts(), settings, tmp_path, {}, callbacks=[signals], progress=False)
    assert signals.workers == 2
    assert not result.finished
    assert result.step == 4
    assert read_checkpoint(tmp_path / "checkpoints" / "step-00000004.ckpt")["global_step"] == 4
    assert not (Layout(tmp_path).weights).exists()
    assert set(multiprocessing.active_children()) <= signals.others


def test_a_second_interrupt_stops_at_once() -> None:
    with Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_second_interrupt_ends_the_run_and_not_the_process(tmp_path: Path) -> None:
    class Twice(Callback):
        def on_train_batch_start(self, *_: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(make_parts(), FitSettings(1, 8, workers=0), tmp_path, {}, callbacks=[Twice()])


def test_the_signals_are_given_back(tmp_path: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    fit(make_parts(), FitSettings(1, 8, workers=0), tmp_path, {}, progress=False)
    assert [signal.getsignal(number) for number in numbers] == before
