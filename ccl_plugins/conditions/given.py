"""Arrays and features in files that a user brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.files.arrays import read_npy
from ccl_plugins.files.fingerprints import of_split
from ccl_plugins.files.tables import choose, read_table
from ccl_plugins.files.tensors import read_tensor_metadata, read_tensors
from ccl_plugins.metadata.columns import encode
from ccl_plugins.metadata.matching import match_rows, require_rows, sample_names


def read_array(path: Path) -> Tensor:
    """The array of a ``.npy`` file, or the only tensor of a ``.safetensors`` file or its ``values``.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: For a damaged file, objects that only pickle could read, or several tensors.
    """
    if path.suffix == ".npy":
        return read_npy(path)
    tensors, _ = read_tensors(path)
    name = "values" if "values" in tensors else next(iter(tensors), "")
    if not tensors or (name != "values" and len(tensors) > 1):
        raise ValueError(f"{path} must hold one tensor, or one called 'values', not {[*tensors]}")
    return tensors[name]


def read_features(path: Path, key: str | None, split: Any) -> Tensor:
    """Features (N, f) of a split's samples, NaN for those that a table does not name.

    Args:
        path: ``.npy``, ``.safetensors`` or ``.parquet``.
        key: The column of a table that names the samples.
        split: A torch Dataset with ``metadata``.

    Raises:
        ValueError: For a file of another data set, and for columns of words.
    """
    if path.suffix not in (".npy", ".safetensors", ".parquet"):
        raise ValueError(
            f"a file of features ends in .npy, .safetensors or .parquet, not as {path.name!r}"
        )
    if path.suffix == ".parquet":
        table = read_table(path)
        choose(table, [] if key is None else [key], str(path))  # before a word is found elsewhere
        features = _columns_side_by_side({k: v for k, v in table.items() if k != key}, path)
        if key is not None:
            rows = torch.tensor(
                match_rows(table[key], sample_names(split, key), str(path), key), dtype=torch.long
            )
            features = features[rows].masked_fill((rows < 0)[:, None], torch.nan)
    elif key is not None:
        raise ValueError(f"key={key!r} names a column, and {path} has none")
    else:
        features = read_array(path)
        if path.suffix == ".safetensors":
            of = read_tensor_metadata(path).get("dataset")
            if of is not None and of != of_split(split):
                raise ValueError(f"{path} has features of another data set: its images differ")
    if features.ndim != 2:
        raise ValueError(f"{path} must hold (N, f) features, not {tuple(features.shape)}")
    require_rows(len(features), split, str(path))
    return features.float()


def _columns_side_by_side(table: dict[str, Any], path: Path) -> Tensor:
    encoded = encode(table)
    for name in encoded.vocabulary:
        raise ValueError(f"{path}: column {name!r} holds words; features are numbers, or give key=")
    columns = [c[:, None] if c.ndim == 1 else c for c in encoded.tables[0].values()]
    return torch.cat([column.float() for column in columns], 1)
