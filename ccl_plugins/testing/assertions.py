"""The assertions that checks are made of; a `Check` puts its law before their text."""

from __future__ import annotations

import contextlib
import copy
import functools
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import SkipTest, mock

import numpy as np
import torch
from torch import Tensor, nn

from ccl_plugins.testing.inputs import seeded
from ccl_plugins.testing.listing import listed
from ccl_plugins.testing.two_ranks import CannotBeSent, on_two_ranks
from ccl_registry.errors import one_line


def require(kept: bool, report: str = "") -> None:
    """Raise an AssertionError with the input and the result, unless a law is kept."""
    if not kept:
        raise AssertionError(report)


def require_equal(
    result: Any,
    expected: Any,
    where: str = "",
    *,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Raise an AssertionError unless trees of tensors are close; the report begins with ``where``."""
    torch.testing.assert_close(
        result,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=True,
        msg=lambda text: f"{where}: {text}" if where else text,
    )


require_identical = functools.partial(require_equal, rtol=0, atol=0)


@contextlib.contextmanager
def require_unchanged(read: Callable[[], Any], where: str = "") -> Iterator[None]:
    """Raise an AssertionError if a tree of tensors, read before and afterwards, changes inside."""
    before = copy.deepcopy(read())
    yield
    require_identical(read(), before, where)


def require_same_draws(draw: Callable[[], Any], seeds: tuple[int, int] = (0, 1)) -> None:
    """Raise an AssertionError unless a function gives equal results under two seeds."""
    results = []
    for seed in seeds:
        with seeded(seed):
            results.append(draw())
    require_identical(results[1], results[0], f"under the seeds {seeds}")


def require_no_seeding(use: Callable[[], Any]) -> None:
    """Raise an AssertionError if a function seeds a global generator; it may draw from one."""
    drawn = []
    for seed in (0, 1):
        with seeded(seed):
            use()
            drawn.append(
                {"random": random.random(), "numpy": np.random.random(), "torch": torch.rand(())}
            )
    same = [name for name, number in drawn[0].items() if number == drawn[1][name]]
    report = f"it seeds the global generator of {', '.join(same)}: seed a generator of its own"
    require(not same, report)


def require_same_in_any_order_of_files(observe: Callable[[], Any]) -> None:
    """Raise an AssertionError unless results are independent of the order in which a folder lists files."""
    with listed(reverse=False) as folders:
        expected = observe()
    if not folders:
        raise SkipTest("it lists no folder of several files")
    with listed(reverse=True):
        result = observe()
    where = f"with the files of {folders[0]} listed in the reverse order"
    require_identical(result, expected, where)


WORD = "hashed"
"""A string whose hash tells processes apart."""


def require_same_in_another_process(function: Callable[..., Any], *args: Any) -> None:
    """Raise an AssertionError unless another process, where strings have other hashes, gives the same."""
    expected = function(*args)
    try:
        (theirs, result), _ = on_two_ranks(_with_hash, function, *args)
    except CannotBeSent as error:
        raise SkipTest(f"it cannot be sent to another process: {error}") from error
    except AssertionError as error:
        if "daemonic" not in str(error):  # the word of multiprocessing's error
            raise
        raise SkipTest("it starts processes, which the kit's other process cannot") from error
    if theirs == hash(WORD):
        raise SkipTest("PYTHONHASHSEED is set: all processes have the same hashes")
    # Not to the bit: that process computes on one thread.
    require_equal(result, expected, "in another process", rtol=1e-4, atol=1e-5)


def _with_hash(function: Callable[..., Any], *args: Any) -> tuple[int, Any]:
    if torch.distributed.get_rank() != 0:  # one answer is enough
        return hash(WORD), None
    # As in a process alone: a function that gathers over a group would see the batch twice.
    with mock.patch.object(torch.distributed, "is_initialized", return_value=False):
        return hash(WORD), function(*args)


@torch.no_grad()
def require_independent_rows(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """Raise an AssertionError unless each row's result depends on this row alone."""
    together = function(x)
    require_equal(function(x), together, "the same batch again")
    alone = torch.cat([function(row[None]) for row in x])
    require_equal(alone, together, "each row in a batch of its own", rtol=1e-4, atol=1e-5)


def require_same_on_two_ranks(
    function: Callable[..., Any], *args: Any, rtol: float, atol: float
) -> None:
    """Raise an AssertionError unless two processes give what this one gives; see `on_two_ranks`."""
    expected = function(*args)
    try:
        results = on_two_ranks(function, *args)
    except CannotBeSent as error:
        raise SkipTest(f"it cannot be sent to another process: {error}") from error
    for rank, result in enumerate(results):
        require_equal(result, expected, f"on rank {rank}", rtol=rtol, atol=atol)


@contextlib.contextmanager
def warnings_ignored() -> Iterator[None]:
    """A component may warn inside, even if warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def letters(text: str) -> Tensor:
    """A text as data to compare."""
    return torch.tensor([*text.encode()], dtype=torch.long)


def all_equal(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether two lists have as many tensors, each equal to the other's."""
    return len(some) == len(others) and all(map(torch.equal, some, others))


@contextlib.contextmanager
def on_meta() -> Iterator[None]:
    """A call on the device ``meta``, which has no numbers, must not use tensors on the CPU.

    Raises:
        AssertionError: If it does.
        SkipTest: For another error, such as that of a value that is read.
    """
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        words = one_line(error)
        mixed = "not on the expected device" in words or ("meta" in words and "cpu" in words)
        require(not mixed, words)
        raise SkipTest(f"it does not run on the device meta: {words}") from error


def leaves_of(result: Tensor) -> list[Tensor]:
    """The tensors that a gradient reaches."""
    todo, seen, leaves = [result.grad_fn], set[Any](), list[Tensor]()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if (leaf := getattr(node, "variable", None)) is not None:
            leaves.append(leaf)
        todo += [before for before, _ in node.next_functions]
    return leaves


def require_gradients(module: nn.Module) -> None:
    """Raise an AssertionError unless every weight that is not frozen has a gradient."""
    unused = [n for n, p in module.named_parameters() if p.requires_grad and p.grad is None]
    require(not unused, f"no gradient reaches {', '.join(unused)}: freeze it or use it in the loss")


EVENTS = {"open", "os.listdir", "os.scandir", "socket.connect", "subprocess.Popen", "os.system"}
"""Audit events of opening a file, a folder, a connection or a program."""

_seen = threading.local()


def what_it_opens(function: Callable[[], Any]) -> list[str]:
    """The audit events of opening while a function runs, except for Python's own modules."""
    _install()
    _seen.events = events = list[str]()
    try:
        function()
    finally:
        del _seen.events
    return events


@functools.cache  # once per process: Python cannot remove an audit hook
def _install() -> None:
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple[Any, ...], events: Any = EVENTS, seen: Any = _seen) -> None:
    # Defaults, since Python empties a module before the last audited events of a process.
    if event in events and hasattr(seen, "events"):
        what = str(arguments[0]) if arguments else ""
        if not what.endswith((".py", ".pyc", ".so")):
            seen.events.append(f"{event} {what}")
