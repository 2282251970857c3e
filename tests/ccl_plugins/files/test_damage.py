"""A file with a wrong bit is never read as if it were whole."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support.damage import bits, each_wrong_bit
from support.resuming import assert_equal

from ccl_plugins.files import sums
from ccl_plugins.files.checkpoints import read_checkpoint, write_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.sums import DamagedFile, check_sum, checksummed, forget_sums, write_sums
from ccl_plugins.files.tensors import read_tensors, write_tensors
from ccl_plugins.training.saved import OURS, newest_checkpoint

TENSORS = {"weight": torch.randn(30, 20), "steps": torch.arange(9)}
DATA = {"state_dict": TENSORS, "global_step": 3, OURS: {"record": "{}", "rates": [0.1, None]}}


def all_over(path: Path) -> list[int]:
    """Positions of bits, those of the first and last bytes among them."""
    size = path.stat().st_size * 8
    return [*range(16), *bits(path, 400), *range(size - 800, size)]


def test_every_wrong_bit_in_a_checkpoint_is_noticed(tmp_path):
    path = tmp_path / "weights.pt"
    write_checkpoint(path, DATA)
    whole = path.read_bytes()
    for _ in each_wrong_bit(path, all_over(path)):
        with pytest.raises(DamagedFile, match=r"weights\.pt is damaged"):
            read_checkpoint(path)
    for size in (0, 1, 22, 71, 72, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(DamagedFile, match=r"weights\.pt is damaged"):
            read_checkpoint(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DamagedFile, match=r"weights\.pt is damaged"):
        read_checkpoint(path)


def test_a_checkpoint_with_its_checksum_is_a_file_that_torch_and_zip_read(tmp_path):
    path = tmp_path / "weights.pt"
    write_checkpoint(path, DATA)
    torch.testing.assert_close(torch.load(path, weights_only=True)["state_dict"], TENSORS)
    torch.testing.assert_close(read_checkpoint(path)["state_dict"], TENSORS)
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert file.comment.startswith(b"sha256:")


def test_a_checkpoint_with_a_wrong_bit_gives_way_to_the_one_before(tmp_path):
    for step in (3, 6):
        write_checkpoint(RunFolder(tmp_path).checkpoint(step), {**DATA, "global_step": step})
    path = RunFolder(tmp_path).checkpoint(6)
    for _ in each_wrong_bit(path, bits(path, 24)):
        with pytest.warns(UserWarning, match=r"step-0+6\.ckpt is damaged .*from step-0+3\.ckpt"):
            assert newest_checkpoint(RunFolder(tmp_path))[1]["global_step"] == 3


def test_every_wrong_bit_in_a_file_of_tensors_is_noticed_or_changes_no_value(tmp_path):
    path = tmp_path / "table.safetensors"
    write_tensors(path, TENSORS, {"value_type": "continuous"})
    whole = path.read_bytes()
    for _ in each_wrong_bit(path, all_over(path)):
        try:
            tensors, _ = read_tensors(path)
        except DamagedFile:
            continue
        assert_equal(tensors, TENSORS)
    path.write_bytes(whole.replace(b"continuous", b"continuums"))
    with pytest.raises(DamagedFile, match=r"table\.safetensors is damaged: its content does not"):
        read_tensors(path)
    path.write_bytes(whole)
    torch.testing.assert_close(load_file(path), TENSORS)


def test_every_wrong_bit_in_a_file_with_a_sum_is_noticed(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"architecture": "resnet18"}')
    assert not check_sum(path)  # a file of other programs has no sum
    write_sums(tmp_path, ["config.json"])
    with checksummed(tmp_path / "other.json"):
        (tmp_path / "other.json").write_text("{}")
    assert check_sum(path)
    assert check_sum(tmp_path / "other.json")
    for _ in each_wrong_bit(path, range(path.stat().st_size * 8)):
        with pytest.raises(DamagedFile, match=r"config\.json is damaged"):
            check_sum(path)


def test_a_sum_is_forgotten_before_its_file_changes(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    write_sums(tmp_path, ["one", "two"])
    forget_sums(tmp_path, ["one", "none"])
    (tmp_path / "one").write_text("more")
    assert not check_sum(tmp_path / "one")
    assert check_sum(tmp_path / "two")


def test_a_file_that_is_changed_or_truncated_later_leaves_what_was_read(tmp_path):
    """Mapped, the change would show, and the truncation end the process with SIGBUS."""
    path, values = tmp_path / "z.safetensors", torch.arange(10_000.0)
    write_tensors(path, {"values": values}, {})
    read, _ = read_tensors(path)
    with path.open("r+b") as file:
        file.seek(-64, 2)
        file.write(b"\xff" * 64)
        file.truncate(4096)
    assert_equal(read["values"], values)


def test_a_file_that_is_written_while_it_is_compared_is_not_called_damaged(tmp_path, monkeypatch):
    """As the measurements of a cell, which a sweep's table reads while another process measures it."""
    file = tmp_path / "measurements.json"
    with checksummed(file):
        file.write_text("old")
    of_file, written = sums._sum, []

    def slow(path):
        if path == file and not written:  # once the old checksum was read
            written.append(path)
            with checksummed(file):
                file.write_text("new")
        return of_file(path)

    monkeypatch.setattr(sums, "_sum", slow)
    assert check_sum(file)
    file.write_text("other")
    with pytest.raises(DamagedFile, match="is damaged"):
        check_sum(file)
