"""The lock of a folder: who holds it, and when it is free."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.forks import another, kill

from ccl_plugins.files import lock
from ccl_plugins.files.lock import LOCK, MARKER, OWNER, FolderInUse, owning, refuse_in_use


@contextlib.contextmanager
def held(folder: Path) -> Iterator[int]:
    """Another process that holds the lock of a folder."""

    def hold(ready: Callable[[], object]) -> None:
        with owning(folder):
            ready()
            signal.pause()

    with another(hold) as child:
        yield child


@pytest.fixture(
    params=[
        "flock",
        errno.ENOSYS,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (errno.ENOTSUP, errno.ENOLCK)),
    ]
)
def file_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | int:
    """A file system with locks, or one that answers with an error."""
    if request.param != "flock":

        def refuse(*_: object) -> None:
            raise OSError(request.param, os.strerror(request.param))

        monkeypatch.setattr(fcntl, "flock", refuse)
    return request.param


@pytest.mark.usefixtures("file_system")
def test_a_second_owner_is_told_host_and_process_and_since_when(tmp_path):
    with held(tmp_path / "run") as child:
        where = rf"process {child} on '{socket.gethostname()}' has held it since '20\d\d-"
        with pytest.raises(FolderInUse, match=rf"run is in use: {where}"):
            refuse_in_use(tmp_path / "run")
        os.kill(child, signal.SIGSTOP)  # it lives, and may go on
        with pytest.raises(FolderInUse), owning(tmp_path / "run"):
            pass


@pytest.mark.usefixtures("file_system")
def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path):
    with held(tmp_path) as child:
        kill(child)
        refuse_in_use(tmp_path)
        with owning(tmp_path):
            assert json.loads((tmp_path / OWNER).read_text())[1] == os.getpid()


@pytest.mark.usefixtures("file_system")
def test_nothing_is_left_of_a_lock(tmp_path):
    with owning(tmp_path):
        assert any(tmp_path.iterdir())
    refuse_in_use(tmp_path)
    assert not any(tmp_path.iterdir())
    with owning(tmp_path / "none"):
        pass
    refuse_in_use(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", [OWNER, LOCK])
def test_nothing_is_written_through_a_link_that_somebody_put_there(tmp_path, name):
    victim, folder = tmp_path / "victim", tmp_path / "run"
    victim.write_text("mine")
    folder.mkdir()
    (folder / name).symlink_to(victim)
    with contextlib.suppress(OSError), owning(folder):  # the lock itself is refused
        pass
    assert victim.read_text() == "mine"


def test_a_file_of_others_that_has_the_name_of_the_lock_is_not_deleted(tmp_path):
    (tmp_path / LOCK).write_text("mine")
    with owning(tmp_path), pytest.raises(FolderInUse), owning(tmp_path):
        pass
    assert (tmp_path / LOCK).read_text() == "mine"


def test_a_process_of_another_machine_is_not_passed_over(tmp_path, monkeypatch):
    """Without locks nobody can know whether it has ended; the error says what to delete."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOLCK, "")))
    (tmp_path / MARKER).write_text("77\nelsewhere\n")
    (tmp_path / OWNER).write_text('["else\x1b[2Jwhere", 77, "2026"]')
    with pytest.raises(FolderInUse) as raised, owning(tmp_path):
        pass
    assert f"if that process has ended, delete {tmp_path / MARKER}" in str(raised.value)
    assert "\x1b" not in str(raised.value)
    (tmp_path / MARKER).unlink()
    with owning(tmp_path):
        pass


def test_workers_that_outlive_their_process_do_not_hold_its_lock(tmp_path):
    """As those of a data loader do, for a moment."""
    orphan = tmp_path / "orphan"

    def work(ready: Callable[[], object]) -> None:
        with owning(tmp_path / "run"):
            child = os.fork()
            if child == 0:
                signal.pause()
            orphan.write_text(str(child))
            ready()
            signal.pause()

    with another(work) as process:
        kill(process)
        try:
            with owning(tmp_path / "run"):
                pass
        finally:
            os.kill(int(orphan.read_text()), signal.SIGKILL)


def test_a_folder_that_its_last_owner_deletes_meanwhile_is_made_again(tmp_path, monkeypatch):
    folder = tmp_path / "cell"
    acquire, calls = lock._acquire, []

    def acquire_late(path, patience):
        calls.append(path)
        if len(calls) == 1:
            path.rmdir()
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return acquire(path, patience)

    monkeypatch.setattr(lock, "_acquire", acquire_late)
    with owning(folder):
        assert (folder / OWNER).exists()
    assert len(calls) == 2
    assert not folder.exists()
