"""A process says that it waits for another one, and tells that this one has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from torch.utils.data import DataLoader, Dataset

from ccl_plugins.training.interrupt import LostProcess, Waiting


def test_a_step_that_does_not_end_is_said_again_and_again_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = Waiting(after=0.2)
    with waiting.watching(several=True):
        time.sleep(1.0)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3  # after 0.2, 0.4 and 0.8 s
    assert said[0].startswith("no step has ended for 0 s, after step 0: process 0 of 1 on ")
    assert " is in test_a_step_that_does_not_end" in said[0]
    assert "after 60 minutes this one ends" in said[0]


def test_steps_that_end_and_a_process_alone_are_quiet(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting(after=0.2)
    with waiting.watching(several=True):
        for _ in range(10):
            waiting.note(1)
            time.sleep(0.05)
    with Waiting(after=0.05).watching(several=False):
        time.sleep(0.2)
    assert not caplog.records


def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="shape") as caught, Waiting().watching(several=True):
        raise RuntimeError("a wrong shape")
    assert not isinstance(caught.value, LostProcess)


class Deadly(Dataset[int]):
    """Its second batch ends the worker, as the system does where memory is short."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


def test_a_worker_that_is_killed_is_told_with_step_checkpoint_and_cure() -> None:
    waiting = Waiting(lambda: "The last good checkpoint is x")
    line = r"a worker .* after step 0, .* memory is short .*fit\.workers.* The last good checkpoint is x"
    with pytest.raises(LostProcess, match=line), waiting.telling_of_workers():
        list(DataLoader(Deadly(), num_workers=1))
    with pytest.raises(RuntimeError, match="shape") as caught, waiting.telling_of_workers():
        raise RuntimeError("a wrong shape")
    assert not isinstance(caught.value, LostProcess)


def test_a_launched_process_that_ends_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting(lambda: "The last good checkpoint is x", after=0.4)
    fine, failed = (subprocess.Popen([sys.executable, "-c", f"exit({n})"]) for n in (0, 3))
    with waiting.watching(True, lambda: [fine, failed]):
        time.sleep(0.3)
        assert failed.wait(10) == 3
        waiting._since = time.monotonic()
        time.sleep(0.3)
    (line,) = (record.getMessage() for record in caplog.records if "status" in record.getMessage())
    assert line.startswith(f"process {failed.pid}, launched by process 0 of 1 on ")
    assert line.endswith("ended with status 3 after step 0. The last good checkpoint is x")
