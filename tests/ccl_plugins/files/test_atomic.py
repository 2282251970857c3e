from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal

import pytest
import torch
from support.forks import another, forked, kill, status

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.cache import cached
from ccl_plugins.files.checkpoints import write_checkpoint
from ccl_plugins.files.tensors import write_tensors


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_write_that_is_broken_off_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "folder" / "file"
    with atomic_write(path) as temporary:
        temporary.write_text("old")

    def write_half():
        with atomic_write(path) as temporary:
            temporary.write_text("ne")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_checkpoint(path, {"x": torch.zeros(9999)}),
        lambda path: write_tensors(path, {"x": torch.zeros(9999)}, {}),
        lambda path: cached(path, "m", {}, 9999, lambda: torch.zeros(9999, 1)),
    ],
)
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, write):
    """A limit on the size of files stands in for a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
    try:
        with pytest.raises(OSError, match=f"could not be written; .* is unchanged: '{tmp_path}/x"):
            write(tmp_path / "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


def statuses(count, work):
    """The exit statuses of processes that work at once."""
    return [*map(status, [forked(work) for _ in range(count)])]


def test_processes_may_write_into_one_folder_at_once(tmp_path):
    """None takes the folder that another has just made for one that a killed process left."""

    def work():
        for i in range(200):
            with atomic_write(tmp_path / str(i % 5)) as temporary:
                temporary.write_text(str(i % 5))

    assert statuses(3, work) == [0, 0, 0]
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {
        str(i): str(i) for i in range(5)
    }


def test_two_processes_may_ask_the_cache_at_once(tmp_path):
    def make():
        return torch.arange(2000.0).view(-1, 2)

    def work():
        for i in range(5):
            got = cached(tmp_path / str(i), "m", {"dataset": "d"}, 1000, make)
            assert torch.equal(got, make())

    assert statuses(2, work) == [0, 0]
    assert len([*tmp_path.rglob("*.safetensors")]) == len([*tmp_path.rglob("m-*")]) == 5
    assert not [*tmp_path.rglob("*.partial")]


def begun(path):
    """Another process that has written a part of a file, and waits for what becomes of it."""

    def write(ready):
        with atomic_write(path) as temporary:
            temporary.write_text("par")
            (temporary.parent / ".tmpX").write_text("of a library")
            ready()
            signal.pause()

    return another(write)


def test_the_temporary_files_of_a_killed_process_are_deleted_by_the_next_write(tmp_path):
    for _ in range(3):
        with begun(tmp_path / "one") as child:
            kill(child)
    (tmp_path / ".empty.0a1b2c3d.partial").mkdir()  # killed before anything was written
    assert len([*tmp_path.glob(".*.partial")]) == 2  # the last, and the empty one
    write_checkpoint(tmp_path / "two", {"x": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["two"]


def test_folders_of_others_that_end_so_are_not_deleted(tmp_path):
    (tmp_path / ".mine.partial").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / ".one.0a1b2c3d.partial").symlink_to(tmp_path / "mine")
    write_checkpoint(tmp_path / "two", {"x": 1})
    names = {".mine.partial", "mine", ".one.0a1b2c3d.partial", "two"}
    assert {path.name for path in tmp_path.rglob("*")} == names


def test_the_temporary_files_of_a_living_process_stay(tmp_path):
    with begun(tmp_path / "one") as child:
        os.kill(child, signal.SIGSTOP)
        write_checkpoint(tmp_path / "two", {"x": 1})
        (left,) = tmp_path.glob(".one.*.partial")
        assert {path.name for path in left.iterdir()} == {".lock", ".tmpX", "one"}


def test_a_file_system_without_locks_is_written_to(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    write_checkpoint(tmp_path / "x", {"x": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
