from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import select
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning import Callback
from support.programs import Program, run
from support.training_fakes import fit, make_parts

from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.training.interrupt import LAUNCHER, OTHERS, SIGNALS, Interrupt
from ccl_plugins.training.settings import FitSettings


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


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_to_a_run_and_its_workers_leaves_a_checkpoint(tmp_path: Path, number: int) -> None:
    signals = SignalToAll(number)
    settings = FitSettings(epochs=9, batch_size=4, workers=2)
    result = fit(make_parts(), settings, tmp_path, {}, callbacks=[signals], progress=False)
    assert signals.workers == 2
    assert not result.finished
    assert result.step == 4
    assert read_checkpoint(tmp_path / "checkpoints" / "step-00000004.ckpt")["global_step"] == 4
    assert not RunFolder(tmp_path).weights.exists()
    assert set(multiprocessing.active_children()) <= signals.others


def test_a_second_interrupt_stops_at_once() -> None:
    with Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_second_signal_stops_at_once_but_not_one_that_says_the_same(
    second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell whose terminal is lost tells its programs, which the system has told already."""
    with Interrupt() as interrupt:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGHUP)
        assert interrupt.requested
        monkeypatch.setattr("ccl_plugins.training.interrupt.TOGETHER", 0.05)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGXCPU)  # which comes every second
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), second)


@pytest.mark.parametrize("number", OTHERS, ids=lambda number: number.name)
@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None], ids=["ignored", "heard"])
def test_a_signal_that_does_not_end_the_process_is_left_alone(number: int, handler: Any) -> None:
    """As that of a lost terminal below nohup, and those that a job of submitit listens to."""
    former = signal.signal(number, handler)
    try:
        with Interrupt() as interrupt:
            assert signal.getsignal(number) is handler
            for _ in range(2):
                os.kill(os.getpid(), number)
                time.sleep(0.01)
        assert not interrupt.requested
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, former)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the worker is forked")
def test_a_signal_to_a_forked_worker_is_not_taken_for_one_to_the_run() -> None:
    """Ctrl-C goes to both, and would count twice, as if it were a second one."""
    with Interrupt() as interrupt:
        worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        worker.start()
        time.sleep(0.2)  # until it is apart
        for pid in (worker.pid, os.getpid()):
            os.kill(pid or 0, signal.SIGINT)
        time.sleep(0.1)
        assert interrupt.requested
        assert interrupt._stop_at == 0
        worker.kill()
        worker.join()


LOSES_ITS_TERMINAL = """
import os, pty, signal, sys
from pathlib import Path
from pytorch_lightning import Callback
from support.training_fakes import fit, make_parts
from ccl_plugins.training.settings import FitSettings

keeps, terminal = pty.openpty()

class Loses(Callback):
    def on_train_batch_start(self, trainer, *_):
        if trainer.global_step == 3:
            os.close(keeps)
            os.kill(os.getpid(), signal.SIGHUP)

os.dup2(terminal, 2)
os.close(terminal)
fit(make_parts(), FitSettings(9, 4, workers=0), Path("."), {}, callbacks=[Loses()])
print("goes on", file=sys.stderr)
"""


def test_a_run_whose_terminal_is_lost_leaves_a_checkpoint(tmp_path: Path) -> None:
    """What it then writes there would be an error, as that of the progress bar."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert run("-c", LOSES_ITS_TERMINAL, env=env, cwd=tmp_path).returncode == 0
    assert (tmp_path / "checkpoints" / "step-00000004.ckpt").exists()


def test_a_second_interrupt_ends_the_run_and_not_the_process(tmp_path: Path) -> None:
    class Twice(Callback):
        def on_train_batch_start(self, *_: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(make_parts(), FitSettings(1, 8, workers=0), tmp_path, {}, callbacks=[Twice()])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the workers are forked")
def test_the_end_of_a_run_does_not_wait_for_a_forked_worker() -> None:
    with Interrupt() as interrupt:
        worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        worker.start()
        watcher = interrupt._watcher
        join = watcher.join
        watcher.join = lambda: join(10)  # rather than waiting for ever
    assert not watcher.is_alive()
    assert worker.is_alive()
    worker.kill()
    worker.join()


def test_the_signals_are_given_back(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    fit(make_parts(), FitSettings(1, 8, workers=0), tmp_path, {}, progress=False)
    assert [signal.getsignal(number) for number in SIGNALS] == before


def start(function: str, folder: Path) -> Program:
    """A program of its own, in its own group of processes, as a terminal starts it."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONFAULTHANDLER": "1"}
    return Program("-m", "support.stuck_ranks", function, str(folder), env=env)


def wait_until_stuck(program: Program) -> bool:
    """Wait until one rank waits for the other; False if that takes too long."""
    assert program.stdout is not None
    if not select.select([program.stdout], [], [], 180)[0]:
        return False
    assert program.stdout.readline().strip() == "waiting"
    time.sleep(2)  # until the other rank waits for it
    return True


def train_until_stuck(folder: Path) -> Program:
    """Two ranks that train, of which the first waits for the second.

    They are started twice, if need be: another process may take the port that Lightning found free.
    """
    for _ in range(2):
        program = start("train_with_a_stuck_rank", folder)
        if wait_until_stuck(program):
            return program
        os.killpg(program.pid, signal.SIGABRT)  # each process says where it is
        said = program.communicate(timeout=30)[1]
        warnings.warn(f"the ranks did not come to train: {said}", stacklevel=1)
    pytest.fail(said)


def end(program: Program) -> None:
    """End a program and all processes of its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.communicate(timeout=30)


def is_any_left(group: int) -> bool:
    """Whether a process of a group stays alive; one that ends has closed its output a moment before."""
    until = time.monotonic() + 5
    while is_any_alive(group) and time.monotonic() < until:
        time.sleep(0.05)
    return is_any_alive(group)


def is_any_alive(group: int) -> bool:
    """Whether a process of a group is alive; one that nobody has waited for counts as ended."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                return True
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("to_all", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_second_interrupt_ends_all_ranks_of_which_one_is_stuck(
    tmp_path: Path, to_all: bool
) -> None:
    """Ctrl-C in a terminal goes to all processes; `kill -INT` to the first alone."""
    program = train_until_stuck(tmp_path)
    send = os.killpg if to_all else os.kill
    try:
        send(program.pid, signal.SIGINT)
        time.sleep(1.5)
        assert program.poll() is None
        send(program.pid, signal.SIGINT)
        begun = time.monotonic()
        _, err = program.communicate(timeout=30)  # until the last process has closed its output
        assert time.monotonic() - begun < 10
        assert program.returncode == 130
        assert err.count("Ctrl-C again stops at once") == 1
        assert "ccl: stopped at once\n" in err
        assert not is_any_left(program.pid)
    finally:
        end(program)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_rank_that_is_killed_is_told_in_a_line_with_step_and_checkpoint(tmp_path: Path) -> None:
    program = train_until_stuck(tmp_path)
    try:
        os.kill(int((tmp_path / "second").read_text()), signal.SIGKILL)
        _, err = program.communicate(timeout=30)
        assert program.returncode in (
            1,
            -signal.SIGKILL,
        )  # Lightning ends all ranks after some seconds
        assert re.search(
            r"process \d+, launched by process 0 of 2 on \S+, ended with status -9 after step 2\. The last"
            r" good checkpoint is \S+, of step 2"
            r"|process 0 of 2 on \S+ lost another one after step 2: it ended, or did not answer for 60"
            r" minutes; its own output says why \(.*\)\. The last good checkpoint is \S+, of step 2",
            err,
        )
        assert not is_any_left(program.pid)
    finally:
        end(program)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_rank_outlives_the_process_that_launched_it(tmp_path: Path) -> None:
    program = train_until_stuck(tmp_path)
    try:
        program.kill()
        program.communicate(timeout=30)
        assert not is_any_left(program.pid)
    finally:
        end(program)


def test_a_rank_that_is_launched_by_a_process_that_is_gone_ends() -> None:
    """Its launcher ended while it was starting, as one does whose port was taken."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    code = (
        "import time; from ccl_plugins.training.interrupt import Interrupt\n"
        "with Interrupt(): time.sleep(60)"
    )
    env = {**os.environ, "LOCAL_RANK": "1", LAUNCHER: str(gone.pid)}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    ended = run("-c", code, env=env, timeout=50)
    assert ended.returncode == 130
    assert ended.stderr == "ccl: stopped, since the process that launched this one has ended\n"
