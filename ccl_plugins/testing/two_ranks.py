"""Two processes joined by gloo, to hold what many processes do against what one does."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import socket
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

PATIENCE = 120
"""Seconds that a rank may take; one whose neighbor failed waits for it in vain."""


class TwoRanks:
    """Call it with a function and its arguments: the results of rank 0 and rank 1.

    The function must be importable by name, and its arguments picklable; it asks
    ``torch.distributed`` for its rank.  What it raises is raised here.
    """

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        self._ends: list[Connection] = []
        self._processes = []
        for rank in range(2):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(rank, port, there), daemon=True)
            process.start()
            self._ends.append(here)
            self._processes.append(process)

    @property
    def alive(self) -> bool:
        """Whether both can be called."""
        return all(process.is_alive() for process in self._processes)

    def __call__(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """The results of both, in order of rank.

        Raises:
            TimeoutError: If a rank does not answer.
        """
        results, failure = [], None
        for end in self._ends:
            end.send((function, args))
        for rank, end in enumerate(self._ends):
            if not end.poll(5 if failure else PATIENCE):
                self.close()
                raise failure or TimeoutError(f"rank {rank} did not answer in {PATIENCE} s")
            error, result = end.recv()
            failure = failure or error
            results.append(result)
        if failure:
            raise failure
        return results

    def close(self) -> None:
        """End both."""
        for process in self._processes:
            process.kill()
            process.join()


@functools.cache
def _pool() -> list[TwoRanks]:
    return []


def on_two_ranks(function: Callable[..., Any], *args: Any) -> list[Any]:
    """As `TwoRanks`, on a pair that all callers share: starting one takes seconds."""
    pool = _pool()
    if not (pool and pool[0].alive):
        pool[:] = [TwoRanks()]
    return pool[0](function, *args)


def _serve(rank: int, port: int, end: Connection) -> None:
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    with contextlib.suppress(EOFError):  # the other end is closed: there is no more to do
        while True:
            function, args = end.recv()
            try:
                end.send((None, function(*args)))
            except Exception as error:  # it is raised where the function was called
                end.send((error, None))
