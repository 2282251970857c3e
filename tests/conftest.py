"""Fixtures that several tests share."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from typing import Any

import pytest
from support.installed_plugins import InstalledPlugins

from ccl_plugins.kinds import registry
from ccl_plugins.testing.two_ranks import on_two_ranks

# Test processes share the cores, and torch's threads would fight for them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The libraries are a million objects that stay: to look for garbage among them takes time.
gc.set_threshold(50_000, 10, 50)

# Bringing a file to the disk takes milliseconds, and none of these files outlives its machine.
os.fsync = lambda _: None


# Processes are forked from one that has imported the libraries, with the heads of methods and Lightning.
multiprocessing.set_forkserver_preload(
    [
        "ccl_plugins.testing.methods",
        "ccl_plugins.sweep.cells",
        "lightly.models.modules",
        "pytorch_lightning",
    ]
)


@pytest.fixture(scope="session")
def two_processes() -> Callable[..., list[Any]]:
    """Two gloo ranks, the pair that the conformance kit has: starting them takes seconds."""
    forkserver.ensure_running()  # with what is named above, before the kit names less
    return on_two_ranks


@pytest.fixture(scope="session")
def installed_plugins(tmp_path_factory: pytest.TempPathFactory) -> InstalledPlugins:
    """The packages of ``tests/plugins``; installing them takes seconds, so a session does it once."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # of all processes
    (root / "plugins").mkdir(exist_ok=True)
    return InstalledPlugins(root / "plugins")


@pytest.fixture
def printed_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are printed as outside of pytest, which would record them, and are no errors."""

    def show(message: Any, category: Any, file: str, line: int, *_: Any) -> None:
        sys.stderr.write(warnings.formatwarning(message, category, file, line))

    warnings.simplefilter("default")  # pytest brings its own back after the test
    monkeypatch.setattr(warnings, "showwarning", show)


@pytest.fixture
def in_float64() -> Iterator[None]:
    """For the numbers in lightly's losses that have torch's default type."""
    import torch  # late, for the process that only hands tests to others

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def _forget() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry(), "_session", dict(registry()._session))
        if intervals := sys.modules.get("ccl_plugins.evaluators.intervals"):
            patch.setattr(intervals, "_SAID", set())
        yield


_forget_module = pytest.fixture(autouse=True, scope="module")(_forget)
"""What the fixtures of a module define with `ccl.local` is forgotten after it."""

_forget_test = pytest.fixture(autouse=True)(_forget)
"""What a test defines with `ccl.local`, or says once, is forgotten after it."""


FIRST = (
    "test_example_plugins.py",
    "test_first_plugin.py",
    "test_interrupt.py",
    "test_new.py",
    "test_pages_as_a_package.py",
    "test_typing.py",
)
"""Files with tests that take a minute: last, they would leave one process waiting for the other."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in FIRST)


@pytest.hookimpl(optionalhook=True)  # of a plugin that may be missing
def pytest_xdist_auto_num_workers():
    """One process more than cores: many a test waits for a process that it started."""
    return (os.cpu_count() or 1) + 1
