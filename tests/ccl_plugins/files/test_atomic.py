from __future__ import annotations

import resource
import subprocess
import sys

import pytest
import torch

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
        with pytest.raises(OSError, match=f"could not be written, .* is whole: '{tmp_path}/x"):
            write(tmp_path / "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


def test_two_processes_may_ask_the_cache_at_once(tmp_path):
    code = (
        "import sys, torch; from pathlib import Path\n"
        "from ccl_plugins.files.cache import cached\n"
        "def make(): return torch.arange(20000.).view(-1, 2)\n"
        "for i in range(5):\n"
        "    got = cached(Path(sys.argv[1]) / str(i), 'm', {'dataset': 'd'}, 10000, make)\n"
        "    assert torch.equal(got, make())\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", code, str(tmp_path)], cwd=tmp_path)
        for _ in range(2)
    ]
    assert [process.wait(timeout=500) for process in both] == [0, 0]
    assert len([*tmp_path.rglob("*.safetensors")]) == len([*tmp_path.rglob("m-*")]) == 5
    assert not [*tmp_path.rglob("*.partial")]
