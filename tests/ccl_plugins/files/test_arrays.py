from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from ccl_plugins.files.arrays import as_float32, as_numbers, read_npy


def test_arrays_are_numbers_and_never_objects(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.array([[1, 2]], dtype=np.uint16))
    assert torch.equal(read_npy(path), torch.tensor([[1, 2]]))
    np.save(path, np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"a\.npy is no array of numbers: Object arrays"):
        read_npy(path)
    np.save(path, np.array(["a"]))
    with pytest.raises(ValueError, match="its values are of type <U1"):
        read_npy(path)


def test_a_file_of_another_name_is_quoted(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*b\.npy"):
        read_npy(tmp_path / "b.npy")
    with pytest.raises(ValueError, match=r"end in \.npy, not as 'a\.npz'"):
        read_npy(tmp_path / "a.npz")


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_numbers_that_float32_merges_are_named(dtype):
    days = torch.arange(6).to(dtype)[:, None] * torch.tensor([1, 100]).to(dtype)
    warned = pytest.warns(
        UserWarning,
        match=r"features, column 0 .* 1700000000\.0 to 1700000005\.0.* 128 apart: subtract",
    )
    with warned:
        as_float32(1_700_000_000 + days, "features", "subtract")
    torch.testing.assert_close(as_float32(1000 + days, "features", ""), (1000 + days).float())


@pytest.mark.parametrize(
    "values",
    [
        [1e9 + 0.1] * 3,
        [1e-60, 1.0, 3.0],
        [float("nan"), float("inf"), 2.0],
        [1e300, 1.0, 2.0],
        [16_777_217.0, 0.0, 1.0],
    ],
    ids=str,
)
def test_numbers_that_float32_tells_apart_are_no_matter(values):
    values = torch.tensor(values, dtype=torch.float64)
    assert torch.equal(as_float32(values, "z", "").nan_to_num(), values.float().nan_to_num())


def test_arrays_of_any_order_and_tables_are_numbers():
    array = np.arange(6.0).reshape(2, 3)
    expected = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    frame = pytest.importorskip("pandas").DataFrame(array, columns=["x", "y", "z"])
    learned = expected.clone().requires_grad_()
    turned = np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]
    for each in (turned, np.asfortranarray(array), array.astype(">f8"), frame, learned):
        found = as_numbers(each, "x")
        assert torch.equal(found, expected)
        assert not found.requires_grad


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ma.masked_greater(np.arange(4.0), 2), "x has masked values: give numbers"),
        (csr_matrix(np.eye(3)), r"x is a sparse matrix: give its \.toarray"),
    ],
)
def test_numbers_that_are_not_all_there_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        as_numbers(values, "x")
