"""Jobs of submitit: on this machine, or on a cluster with SLURM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FOREVER = 60 * 24 * 365
"""The limit of local processes in minutes; submitit's default is five."""

INTERRUPTED = 130
"""The exit status of ``ccl train`` after it was asked to stop and has written a checkpoint."""


def submitit(purpose: str) -> Any:
    """The package, or an ImportError that says how to install it."""
    try:
        import submitit as package
    except ImportError as error:
        raise ImportError(f'{purpose} needs submitit: pip install "ccl-plugins[sweep]"') from error
    return package


def on_slurm(logs: Path, purpose: str, options: Mapping[str, Any]) -> Any:
    """Submitit's executor for SLURM.

    Args:
        logs: The folder of its output.
        purpose: The feature that needs submitit, for messages.
        options: Options of submitit, such as ``{"timeout_min": 600, "slurm_partition": "gpu"}``.

    Raises:
        ImportError: If submitit is not installed.
        RuntimeError: If this machine has no SLURM.
        ValueError: For options that submitit does not know.
    """
    executor = submitit(purpose).AutoExecutor(logs, cluster="slurm")
    try:
        executor.update_parameters(**options)
    except (NameError, TypeError, AssertionError) as error:
        raise ValueError(f"[slurm]: {' '.join(str(error).split())}") from error
    return executor


class Training:
    """A ``ccl train`` that a job runs, and resumes after it was stopped.

    Training runs in a separate process. When the job must end, it is asked to write a checkpoint,
    like after a first Ctrl-C, and submitit submits the job again.

    Args:
        arguments: The arguments of ``ccl train``, without ``--resume`` and ``--overwrite``.
        first: ``["--resume"]``, ``["--overwrite"]`` or ``[]``, for the first start.
    """

    def __init__(self, arguments: Sequence[str], first: Sequence[str] = ()) -> None:
        self.arguments, self.first = [*arguments], [*first]
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """Train.

        Raises:
            RuntimeError: If training failed; what it printed is in the job's output.
        """
        command = [sys.executable, "-m", "ccl_plugins", "train", *self.arguments, *self.first]
        # SLURM signals all processes of a job, by SIGUSR2, or by SIGUSR1 if submitit handles that.  Only
        # this process asks for the checkpoint.
        heard = [signal.SIGUSR2, *[signal.SIGUSR1] * callable(signal.getsignal(signal.SIGUSR1))]
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in heard}
        try:
            self._process = subprocess.Popen(command)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        while self._process.poll() is None:
            time.sleep(0.2)
        code = self._process.returncode
        if code not in (0, INTERRUPTED):
            raise RuntimeError(f"ccl train ended with status {code}; its output says why")
        return code

    def checkpoint(self) -> Any:
        """Return the job that submitit submits again, after training has written a checkpoint."""
        process = self._process
        if process is not None and not _has_ended(process.pid):
            os.kill(process.pid, signal.SIGTERM)
            while not _has_ended(process.pid):
                time.sleep(0.2)
        return submitit("a job").helpers.DelayedSubmission(Training(self.arguments, ["--resume"]))


def _has_ended(pid: int) -> bool:
    """Whether a process that this one started has ended; it may still be waited for elsewhere.

    For signal handlers, because the interrupted code may hold the lock of ``Popen.poll``.
    """
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def submit(
    trainings: Mapping[Path, tuple[Training, int, int]], launcher: str, options: Mapping[str, Any]
) -> dict[Path, Any]:
    """Submit runs as jobs, whose output is in the folder ``logs`` of each run.

    Args:
        trainings: By the run's folder, the training and its numbers of nodes and of devices per
            node.
        launcher: ``"local"``: on this machine, all at once; ``"slurm"``.
        options: submitit's for SLURM.

    Returns:
        submitit's jobs, by the run's folder.

    Raises:
        ImportError: If submitit is not installed.
        RuntimeError: If this machine has no SLURM.
        ValueError: For options that submitit does not know, before a job is submitted.
    """
    executors = {}
    for folder, (_, nodes, devices) in trainings.items():
        logs, purpose = folder / "logs", f"--launcher {launcher}"
        if launcher == "local":
            executors[folder] = submitit(purpose).LocalExecutor(logs)
            executors[folder].update_parameters(timeout_min=FOREVER)
            continue
        shape = {"nodes": nodes, "tasks_per_node": devices, "gpus_per_node": devices}
        executors[folder] = on_slurm(logs, purpose, {"name": folder.name, **shape, **options})
    return {folder: executors[folder].submit(trainings[folder][0]) for folder in trainings}
