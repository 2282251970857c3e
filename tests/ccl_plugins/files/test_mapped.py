"""Tensors that stay in their files: equal to those that are read, and refused once a file has changed."""

from __future__ import annotations

import errno
import os
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.resuming import assert_equal

from ccl_plugins.files import mapped
from ccl_plugins.files.arrays import read_npy
from ccl_plugins.files.fingerprints import of_tensors
from ccl_plugins.files.mapped import (
    ChangedFile,
    Filling,
    Rows,
    blocks,
    map_at,
    place_of,
    rows,
    writing,
)
from ccl_plugins.files.tensors import read_tensors, write_tensors
from ccl_plugins.metadata.variable import Variable, check_values

GIVEN = {
    "a": torch.randn(7, 3),
    "b": torch.arange(5),
    "c": torch.tensor([True, False, True]),
    "d": torch.randn(4, dtype=torch.float64).to(torch.bfloat16),
    "e": torch.empty(0, 2),
}


@pytest.fixture
def small(monkeypatch):
    """Every file counts as large, and is read in blocks of a few rows."""
    monkeypatch.setattr(mapped, "LARGE", 0)
    monkeypatch.setattr(mapped, "BLOCK", 30)


def test_tensors_of_a_large_file_stay_there(tmp_path, small):
    write_tensors(tmp_path / "a.safetensors", GIVEN, {"about": "x"})
    found, metadata = read_tensors(tmp_path / "a.safetensors")
    assert metadata == {"about": "x"}
    assert found.keys() == GIVEN.keys()
    for name, tensor in GIVEN.items():
        assert_equal(found[name], tensor)
        assert (place_of(found[name]) is None) == (name == "e")
    path, first = place_of(found["a"][2:])
    again = map_at(path, first, torch.float32, (5, 3))
    assert_equal(again, GIVEN["a"][2:])
    assert place_of(found["a"][:, 1]) is None
    mapped.release_pages()
    assert_equal(found["a"], GIVEN["a"])


def test_small_files_are_copied(tmp_path):
    save_file(GIVEN, tmp_path / "a.safetensors")
    assert place_of(read_tensors(tmp_path / "a.safetensors")[0]["a"]) is None


@pytest.mark.parametrize(
    ("array", "maps"),
    [
        (np.random.default_rng(0).random((6, 4)), True),
        (np.arange(6, dtype=np.int32), True),
        (np.asfortranarray(np.arange(12.0).reshape(3, 4)), False),
        (np.arange(6, dtype=">f4"), False),
        (np.arange(6, dtype=np.uint32), False),
    ],
    ids=["float64", "int32", "by column", "another byte order", "uint32"],
)
def test_arrays_stay_in_their_file_where_torch_can_read_them_there(tmp_path, small, array, maps):
    np.save(tmp_path / "a.npy", array)
    found = read_npy(tmp_path / "a.npy")
    np.testing.assert_array_equal(found.numpy(), array)
    assert (place_of(found) is not None) == maps


@pytest.mark.parametrize("change", ["edited", "shorter", "deleted", "moved"])
def test_a_file_that_changed_is_refused(tmp_path, small, change):
    path = tmp_path / "a.safetensors"
    save_file(GIVEN, path)
    found, _ = read_tensors(path)
    first = torch.tensor([0])
    rows(found["a"], first)
    if change == "edited":
        os.utime(path, ns=(0, 0))
    elif change == "shorter":
        os.truncate(path, path.stat().st_size - 1)
    elif change == "deleted":
        path.unlink()
    else:
        path.rename(tmp_path / "b.safetensors")
    with pytest.raises(
        ChangedFile, match=r"a\.safetensors was changed while values were read from it"
    ):
        rows(found["a"], first)


def test_a_file_is_written_in_pieces(tmp_path, small):
    shapes = {"a": ((7, 3), torch.float32), "b": ((5,), torch.int64)}
    with writing(tmp_path / "new" / "a.safetensors", shapes) as tensors:
        assert not (tmp_path / "new" / "a.safetensors").exists()
        for rows in blocks(GIVEN["a"]):
            tensors["a"][rows] = GIVEN["a"][rows]
            mapped.release_pages()
        tensors["b"][:] = GIVEN["b"]
    found = load_file(tmp_path / "new" / "a.safetensors")
    assert_equal(found, {name: GIVEN[name] for name in "ab"})
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["a.safetensors"]


def test_a_full_disk_is_an_error_before_anything_is_written(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with (
        pytest.raises(OSError, match=r"No space left.*a\.safetensors"),
        writing(tmp_path / "a.safetensors", {"a": ((7,), torch.float32)}),
    ):
        pytest.fail("written")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "index", [torch.tensor([6, 0, 3, 3, -1]), torch.tensor([[1, 2], [0, 6]]), torch.tensor(4)]
)
def test_rows_are_read_as_tensors_give_them(tmp_path, small, index):
    save_file(GIVEN, tmp_path / "a.safetensors")
    found, _ = read_tensors(tmp_path / "a.safetensors")
    for name in "a", "d", "b", "c":
        given = GIVEN[name]
        within = index % len(given)
        assert_equal(rows(found[name], within), given[within])
        assert_equal(rows(given, within), given[within])
    assert rows(found["a"], torch.empty(0, dtype=torch.long)).shape == (0, 3)


@pytest.mark.parametrize("place", [7, -8])
def test_a_row_that_a_file_does_not_have_is_refused_as_in_memory(tmp_path, small, place):
    save_file(GIVEN, tmp_path / "a.safetensors")
    found, _ = read_tensors(tmp_path / "a.safetensors")
    for values in found["a"], GIVEN["a"]:
        with pytest.raises(IndexError):
            rows(values, torch.tensor([0, place]))


def test_samples_of_a_file_go_to_another_process(tmp_path, small):
    save_file(GIVEN, tmp_path / "a.safetensors")
    samples = Rows(read_tensors(tmp_path / "a.safetensors")[0]["a"][1:])
    content = pickle.dumps(samples)
    assert b"a.safetensors" in content
    for each in (samples, pickle.loads(content)):
        assert len(each) == 6
        assert torch.equal(torch.stack(each.__getitems__([5, 0])), GIVEN["a"][[6, 1]])
        assert torch.equal(torch.stack([*each]), GIVEN["a"][1:])
        assert torch.equal(each[-1], GIVEN["a"][6])
    with pytest.raises(IndexError, match="there are 6 rows, and none at 6"):
        samples[6]
    again = pickle.loads(pickle.dumps(Rows(GIVEN["a"])))
    assert torch.equal(again[2], GIVEN["a"][2])


def test_a_file_that_is_cut_is_no_end_of_the_process(tmp_path, small):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(40_000.0).reshape(-1, 4))
    found = read_npy(path)
    os.truncate(path, 4096)
    with pytest.raises(ChangedFile, match="it is shorter than it was"):
        rows(found, torch.tensor([9_999]))


@pytest.mark.parametrize("number", [0, 1, 7])
def test_blocks_are_all_rows_in_order(small, number):
    values = torch.randn(number, 3)
    found = [values[each] for each in blocks(values)]
    assert torch.equal(torch.cat(found), values)
    assert all(len(each) <= 2 for each in found)


def test_a_fingerprint_does_not_depend_on_blocks(monkeypatch):
    whole = of_tensors(GIVEN)
    monkeypatch.setattr(mapped, "LARGE", 0)
    monkeypatch.setattr(mapped, "BLOCK", 30)
    assert of_tensors(GIVEN) == whole


@pytest.mark.parametrize(
    ("value_type", "values"),
    [
        ("continuous", torch.randn(7, 3)),
        ("continuous", torch.randn(7, 3, dtype=torch.float64)),
        ("multi_label", torch.randint(0, 2, (7, 3))),
    ],
)
@pytest.mark.parametrize("gap", [False, True])
def test_values_are_checked_in_blocks_as_at_once(monkeypatch, value_type, values, gap):
    if gap:
        values = values.double().index_fill(0, torch.tensor([2, 6]), torch.nan)
    whole = check_values("z", values, value_type, 7, "ignore")[0]
    lost = Variable(values, value_type).missing
    monkeypatch.setattr(mapped, "LARGE", 0)
    monkeypatch.setattr(mapped, "BLOCK", 30)
    found = check_values("z", values, value_type, 7, "ignore")[0]
    torch.testing.assert_close(found, whole, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(Variable(values, value_type).missing, lost)
    if values.dtype == torch.float32:
        assert found.data_ptr() == values.data_ptr()


@pytest.mark.parametrize(
    ("value_type", "wrong", "message"),
    [
        (
            "continuous",
            float("inf"),
            r"rows 6 to 6, has infinite values in 1 of 1 rows \(6; from 0\)",
        ),
        ("continuous", float("nan"), r"missing \(NaN\) values in 1 of 1 rows \(6; from 0\)"),
        ("multi_label", 3.0, r"other values in 1 of 1 rows \(6; from 0\), such as 3.0"),
    ],
)
def test_a_wrong_value_in_a_block_is_named_by_its_row(small, value_type, wrong, message):
    values = torch.ones(7, 3)
    values[6, 1] = wrong
    with pytest.raises(ValueError, match=message):
        check_values("z", values, value_type, 7)
    with pytest.raises(ValueError, match="no value in any of its 7 rows"):
        check_values("z", torch.full((7, 3), torch.nan), value_type, 7, "drop")


@pytest.mark.parametrize("part", [range(7), range(2, 5), range(5, 7), range(7, 7)])
@pytest.mark.parametrize("shape", [(7, 3), (7,), (7, 2, 2)])
def test_rows_that_come_part_by_part(tmp_path, monkeypatch, shape, part):
    given = torch.randn(shape)
    for large, in_file in ((0, True), (1 << 20, False)):
        monkeypatch.setattr(mapped, "LARGE", large)
        filling = Filling(7, tmp_path / "made", "rows", part)
        for rows_of_part in given[part.start : part.stop].split(2):
            filling.add(rows_of_part)
        found, is_in_file = filling.done()
        assert is_in_file == in_file
        here = found[part.start : part.stop] if in_file else found
        assert_equal(here, given[part.start : part.stop])


def test_processes_fill_in_the_rows_of_one_file(tmp_path, small):
    given = torch.randn(7, 3)
    (tmp_path / "rows").write_bytes(b"x" * 1000)  # of a process that was killed
    parts = [Filling(7, tmp_path, "rows", part) for part in (range(4), range(4, 7))]
    for each in parts:
        each.add(given[each.part.start : each.part.stop])
    found = [each.done()[0] for each in parts]
    (tmp_path / "rows").unlink()
    for rows_found in found:
        assert_equal(rows_found, given)
        assert place_of(rows_found) is None, "no table may refer to it"
        torch.testing.assert_close(rows(rows_found, torch.tensor([6, 0])), given[[6, 0]])


def test_a_file_of_large_rows_without_a_name_is_seen_by_none(tmp_path, small):
    filling = Filling(2, tmp_path)
    filling.add(torch.ones(2, 3))
    found, _ = filling.done()
    assert not [*tmp_path.iterdir()]
    assert found.equal(torch.ones(2, 3))


def test_rows_that_do_not_come_are_missed(tmp_path, small):
    filling = Filling(3, tmp_path)
    with pytest.raises(ValueError, match="0 of 3 rows"):
        filling.done()
    filling.add(torch.ones(2, 3))
    with pytest.raises(ValueError, match="2 of 3 rows"):
        filling.done()
