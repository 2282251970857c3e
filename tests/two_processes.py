"""Two gloo ranks that live for a whole test session and run the functions they are given."""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def _join(rank: int, port: int) -> None:
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )


class TwoProcesses:
    """Call it with a function and its arguments: the results of rank 0 and rank 1.

    The function must be importable by name; it asks ``torch.distributed`` for its rank.
    """

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        self._ranks = [
            ProcessPoolExecutor(1, context, initializer=_join, initargs=(rank, port))
            for rank in range(2)
        ]

    def __call__(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        results = [rank.submit(function, *args) for rank in self._ranks]
        return [result.result(timeout=120) for result in results]

    def close(self) -> None:
        for rank in self._ranks:
            rank.shutdown()
