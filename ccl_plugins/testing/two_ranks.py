"""Two processes joined by gloo, to compare the result of two ranks with that of one process."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

PATIENCE = 120
"""Seconds that a rank may take; a rank whose neighbor failed waits forever."""


def on_two_ranks(function: Callable[..., Any], *args: Any) -> list[Any]:
    """Call a function on rank 0 and rank 1 of a process group, and return both results.

    All calls share one pair of processes, because starting one takes seconds.

    Args:
        function: Importable by name; it asks ``torch.distributed`` for its rank.
        *args: Its arguments, picklable.

    Raises:
        TimeoutError: If a rank does not answer within `PATIENCE` seconds.
        Exception: Whatever the function raises.
    """
    if not (_pool and _pool[0].alive):
        _pool[:] = [_TwoRanks()]
    return _pool[0](function, *args)


_pool: list[_TwoRanks] = []


class _TwoRanks:
    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = multiprocessing.get_context("spawn")
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

    def __call__(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        results, failure = [], None
        for end in self._ends:
            end.send((function, args))
        for rank, end in enumerate(self._ends):
            if not end.poll(5 if failure else PATIENCE):
                self._close()
                raise failure or TimeoutError(f"rank {rank} did not answer in {PATIENCE} s")
            error, result = end.recv()
            failure = failure or error
            results.append(result)
        if failure:
            raise failure
        return results

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
            function, args = end.recv()
            try:
                end.send((None, function(*args)))
            except Exception as error:  # raised again where the function was called
                end.send((error, None))
