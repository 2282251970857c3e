"""Two processes joined by gloo, to compare the result of two ranks with that of one process."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import socket
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any


class CannotBeSent(TypeError):
    """A function or an argument cannot be sent to another process, such as a class of a notebook."""


PATIENCE = 120
"""Seconds that a rank may take; a rank whose neighbor failed waits forever."""


def on_two_ranks(function: Callable[..., Any], *args: Any) -> list[Any]:
    """Call a function on rank 0 and rank 1 of a process group, and return both results.

    All calls share one pair of processes, because starting one takes seconds.

    Args:
        function: Importable by name; it asks ``torch.distributed`` for its rank.
        *args: Its arguments, picklable.

    Raises:
        CannotBeSent: If the function or an argument cannot be pickled, or not imported by the processes.
        TimeoutError: If a rank does not answer within `PATIENCE` seconds.
        Exception: Whatever the function raises.
    """
    try:
        sent = pickle.dumps((function, args))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise CannotBeSent(str(error)) from error
    if not (_pool and _pool[0].alive):
        _pool[:] = [_TwoRanks()]
    return _pool[0](sent)


_pool: list[_TwoRanks] = []


class _TwoRanks:
    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # A fork server, where there is one, imports the libraries once for both ranks.
        forked = "forkserver" in multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("forkserver" if forked else "spawn")
        context.set_forkserver_preload(["ccl_plugins.testing.methods"])
        self._ends: list[Connection] = []
        self._processes = []
        for rank in range(2):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(rank, port, theirs), daemon=True)
            process.start()
            self._ends.append(ours)
            self._processes.append(process)

    @property
    def alive(self) -> bool:
        return all(process.is_alive() for process in self._processes)

    def __call__(self, sent: bytes) -> list[Any]:
        for end in self._ends:
            end.send_bytes(sent)
        results: dict[int, Any] = {}
        failure = None
        while waiting := {end: rank for rank, end in enumerate(self._ends) if rank not in results}:
            # Whichever rank answers first: a rank that failed leaves the other waiting.
            ready = wait([*waiting], 5 if failure else PATIENCE)
            for end, rank in waiting.items():
                if end not in ready:
                    continue
                try:
                    error, results[rank] = end.recv()
                except EOFError:
                    self._close()
                    raise failure or RuntimeError(f"the process of rank {rank} ended") from None
                except Exception as unreadable:  # the answer cannot be unpickled
                    error, results[rank] = unreadable, None
                failure = failure or error
            if not ready:
                self._close()
                late = min(waiting.values())
                raise failure or TimeoutError(f"rank {late} did not answer in {PATIENCE} s")
        if failure:
            raise failure
        return [results[rank] for rank in sorted(results)]

    def _close(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def _serve(rank: int, port: int, end: Connection) -> None:
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    with contextlib.suppress(EOFError):  # the caller has closed the connection
        while True:
            sent = end.recv_bytes()
            try:
                function, args = pickle.loads(sent)
            except Exception as error:  # this process may not have the classes that were sent
                end.send((CannotBeSent(str(error)), None))
                continue
            try:
                end.send((None, function(*args)))
            except Exception as error:  # raised again where the function was called
                end.send((_sendable(error), None))


def _sendable(error: Exception) -> Exception:
    """An error, or its text if it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever a stranger's class raises there
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
