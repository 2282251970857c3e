"""Python programs, forked from a process that has imported the libraries: to import them takes seconds.

A program has the arguments, the environment, the folder and the output that it is given, and else is as one
that is started anew, but for what the libraries read of the environment when they are imported.  What tests
an import, or its time, starts Python itself.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any


class Program:
    """A program of Python in a session of its own, with the methods of ``subprocess.Popen``.

    Args:
        arguments: ``"-c", code`` or ``"-m", module`` and the module's arguments.
        env: Its environment.
        cwd: Its working directory.
    """

    def __init__(
        self, *arguments: str, env: Mapping[str, str], cwd: str | Path | None = None
    ) -> None:
        context: Any = multiprocessing.get_context("forkserver")
        (out, its_out), (err, its_err) = (context.Pipe(duplex=False) for _ in range(2))
        self._process = context.Process(
            target=_run,
            args=(arguments, dict(env), str(cwd or Path.cwd()), _usual_path(), its_out, its_err),
        )
        self._process.start()
        its_out.close()
        its_err.close()
        self.stdout, self.stderr = (os.fdopen(os.dup(end.fileno())) for end in (out, err))
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, when it has ended."""
        self._process.join(timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return status

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Output and errors, when it has ended and all its processes have closed them."""
        texts = ["", ""]

        def read(i: int, file: IO[str]) -> None:
            texts[i] = file.read()

        files = enumerate((self.stdout, self.stderr))
        readers = [threading.Thread(target=read, args=each, daemon=True) for each in files]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        self.wait(timeout)
        return texts[0], texts[1]

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def run(
    *arguments: str,
    env: Mapping[str, str],
    cwd: str | Path | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as ``subprocess.run``."""
    program = Program(*arguments, env=env, cwd=cwd)
    try:
        texts = program.communicate(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(arguments, program.wait(), *texts)


@functools.cache
def _usual_path() -> list[str]:
    """Where Python looks for modules, without the folders of the tests."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", "import sys; print(*sys.path[1:], sep='\\n')"]
    return subprocess.run(command, env=env, capture_output=True, text=True).stdout.splitlines()


def _run(
    arguments: tuple[str, ...],
    env: dict[str, str],
    cwd: str,
    path: list[str],
    out: Connection,
    err: Connection,
) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.set_start_method(None, force=True)  # its own processes start as usual
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for number, end in ((1, out), (2, err)):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w")
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", errors="backslashreplace", buffering=1)
    if "PYTHONFAULTHANDLER" in env:
        faulthandler.enable()
    added = [each for each in env.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [cwd if arguments[0] == "-m" else "", *added, *path]
    try:
        _begin(*arguments)
    finally:
        atexit._run_exitfuncs()


def _begin(kind: str, what: str, *rest: str) -> None:
    """Run a program as Python does."""
    sys.argv = [kind, *rest]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(what, "<string>", "exec"), vars(main))
