from __future__ import annotations

import numpy as np
import pytest
import torch

from ccl_plugins.files.arrays import read_npy


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
