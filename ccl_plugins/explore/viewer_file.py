"""A run's features as a Parquet file, for programs that show embeddings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of, whole
from ccl_plugins.experiments.neighbors import nearest, thumbnail
from ccl_plugins.files.arrays import real
from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.fingerprints import paths_of
from ccl_plugins.metadata.columns import encode
from ccl_plugins.metadata.variable import Variable

if TYPE_CHECKING:
    import pyarrow as pa

    from ccl_plugins.experiments.pipeline import Run
    from ccl_plugins.protocols import ValueType

SPLITS = {"train": ("train",), "test": ("test",), "both": ("train", "test")}
METHODS = ("pca", "tsne", "umap")
SLOW = 10_000
"""With more samples, coordinates are by PCA by default, because t-SNE would take many minutes."""

WIDE = 8
"""The most numbers of a row that become separate columns."""

ROWS = 10_000
"""Rows of a row group, the part of a file that is written and read at once."""


def embed(
    run: Run,
    file: str | Path,
    *,
    split: str = "both",
    method: str | None = None,
    neighbors: int = 15,
) -> Path:
    """Write a run's features with all columns of the samples as a Parquet file, a row per sample.

    The columns are

    - ``id``: the row's number in the file; ``split`` and ``index``: the sample's place in the data set;
    - ``vector``: the features;
    - ``projection_x``, ``projection_y``: the features in two dimensions;
    - ``neighbors``: ``{"ids": [...], "distances": [...]}``, the most similar rows and their cosine
      distances, the most similar first;
    - ``label`` and every other metadata column; words if the data set has them;
    - ``z_<name>``: the conditions as training read them, empty for test samples and for conditions that are
      computed in every step;
    - ``image_path``: the image's file, if the data set has files; ``image``: otherwise a small
      picture, ``{"bytes": ..., "path": None}``.

    A metadata column or condition with 2 to 8 numbers a sample has a column for each: ``color_0``,
    ``color_1``, ...; one with more is a list. A metadata column with one of the names above is
    called ``metadata_<name>``. Missing values are empty. The file's metadata has the run's record.

    Args:
        run: A run with weights.
        file: The file; it is replaced.
        split: ``"train"``, ``"test"`` or ``"both"``; coordinates and neighbors are among the rows of the
            file.
        method: Method of the coordinates: ``"pca"``, ``"tsne"``, or ``"umap"``, which needs the
            extra ``umap``;
            None: t-SNE for at most 10,000 samples, else PCA.
        neighbors: Neighbors of each row; 0: none.  The time grows with the square of the samples.

    Returns:
        The file.

    Raises:
        FileNotFoundError: If the run has no weights.
        ValueError: For a wrong argument, for another ending than ``.parquet``, and without pyarrow.
        OSError: If the file cannot be written, as on a full disk; an older one stays whole.
    """
    file = Path(file).expanduser()
    one_of("split", split, tuple(SPLITS))
    whole("neighbors", neighbors, 0)
    if method is not None:
        one_of("method", method, METHODS)
    if file.suffix != ".parquet":
        raise ValueError(f"the file's name must end in .parquet, not {file.name!r}")
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ValueError(
            f"{file} needs pyarrow, which is not installed: pip install 'ccl-plugins[table]'"
        ) from error

    parts = _tables(run, SPLITS[split], method, neighbors)
    first = next(parts)
    with (
        atomic_write(file) as temporary,
        parquet.ParquetWriter(temporary, first.schema) as writer,
    ):
        writer.write_table(first)
        for part in parts:
            writer.write_table(part)
    return file


@dataclass(frozen=True)
class _Column:
    """A column of all rows.

    Args:
        values: (N,) or (N, c).
        missing: (N,) the rows without a value.
        words: The word of each id, if there are words.
    """

    values: Tensor
    missing: Tensor
    words: Sequence[str] = ()

    def arrays(self, name: str, rows: slice) -> Iterator[tuple[str, pa.Array]]:
        """Some rows as an Arrow array, or as one for each number, with their names."""
        import pyarrow as pa

        values, missing = self.values[rows], self.missing[rows].numpy()
        if self.words and values.ndim == 1:
            ids = values.where(~self.missing[rows], -1).tolist()
            yield name, pa.array([self.words[i] if i >= 0 else None for i in ids], pa.string())
        elif values.ndim == 1:
            yield name, pa.array(values.numpy(), mask=missing)
        elif values.shape[1] <= WIDE:
            for i, each in enumerate(values.T):
                yield f"{name}_{i}", pa.array(each.numpy(), mask=missing)
        else:
            yield name, _lists(values, missing)


def _tables(
    run: Run, splits: Sequence[str], method: str | None, neighbors: int
) -> Iterator[pa.Table]:
    """The rows of the file, in parts."""
    import pyarrow as pa

    from ccl_plugins.numerics.two_dimensions import project

    frozen = [run.features(split).features for split in splits]
    features = torch.cat(frozen)
    n = len(features)
    points = project(features, method or ("tsne" if n <= SLOW else "pca"))  # type: ignore[arg-type]
    k = min(neighbors, n - 1)
    near = nearest(features, features, k, leave_out_own=True) if k else None
    datas = [run.splits[SPLITS["both"].index(split)] for split in splits]
    sizes = [len(each) for each in frozen]
    metadata, conditions = _metadata(run, datas, sizes), _conditions(run, splits, sizes)
    reserved = ("neighbors", "image", "image_path", *(f"z_{n}" for n in run.record["conditions"]))
    places = [(at, i) for at, size in enumerate(sizes) for i in range(size)]
    for start in range(0, n, ROWS):
        rows = slice(start, min(start + ROWS, n))
        here = places[rows]
        arrays = {
            "id": pa.array(range(rows.start, rows.stop), pa.int64()),
            "split": pa.array([splits[at] for at, _ in here], pa.string()),
            "index": pa.array([i for _, i in here], pa.int64()),
            "vector": _lists(features[rows]),
            "projection_x": pa.array(points[rows, 0].float().numpy()),
            "projection_y": pa.array(points[rows, 1].float().numpy()),
        }
        if near is not None:
            lists = [_lists(each[rows]) for each in near]
            arrays["neighbors"] = pa.StructArray.from_arrays(lists, ["ids", "distances"])
        for name, column in conditions.items():
            arrays |= column.arrays(name, rows)
        for name, column in metadata.items():
            for each, array in column.arrays(name, rows):
                place = each
                while place in arrays or place in reserved:
                    place = f"metadata_{place}"
                arrays[place] = array
        arrays |= _images(datas, here)
        yield pa.table(arrays).replace_schema_metadata({"ccl_plugins": json.dumps(run.record)})


def _metadata(run: Run, datas: Sequence[Any], sizes: Sequence[int]) -> dict[str, _Column]:
    """The metadata columns, of some splits one after the other."""
    schema = run.dataset.schema()
    columns = {}
    for name in dict.fromkeys(name for data in datas for name in data.metadata):
        given = [data.metadata.get(name) for data in datas]
        value_type = schema.get(name, "continuous")
        words = next((w for data in datas if (w := getattr(data, "vocabulary", {}).get(name))), ())
        if not all(each is None or isinstance(each, torch.Tensor) for each in given):
            encoded = encode(*({name: each} for each in given if each is not None))
            tables = iter(encoded.tables)
            given = [None if each is None else next(tables)[name] for each in given]
            value_type, words = encoded.schema[name], encoded.vocabulary.get(name, ())
        columns[name] = _joined(given, sizes, value_type, words)
    return columns


def _conditions(run: Run, splits: Sequence[str], sizes: Sequence[int]) -> dict[str, _Column]:
    """The fitted conditions, which have values for training samples."""
    if "train" not in splits or not run.record["conditions"]:
        return {}
    known = run.recorded.built_conditions
    return {
        f"z_{name}": _joined(
            [table.values if split == "train" else None for split in splits],
            sizes,
            known[name].value_type if name in known else _value_type(table.values),
        )
        for name, table in run.condition_tables().items()
    }


def _value_type(values: Tensor) -> ValueType:
    """The value type of a condition that cannot be read back."""
    return "continuous" if values.is_floating_point() else "categorical"


def _joined(
    given: Sequence[Tensor | None],
    sizes: Sequence[int],
    value_type: ValueType,
    words: Sequence[str] = (),
) -> _Column:
    """The values of splits as one column; for a split without values, all rows are missing."""
    like = next(each for each in given if each is not None)
    values, missing = [], []
    for each, size in zip(given, sizes, strict=True):
        if each is None:
            values.append(like.new_zeros(size, *like.shape[1:]).cpu())
            missing.append(torch.ones(size, dtype=torch.bool))
        else:
            values.append(real(each.detach().cpu(), "a column"))
            missing.append(Variable(values[-1], value_type).missing)
    joined = torch.cat(values)
    return _Column(joined.flatten(1) if joined.ndim > 2 else joined, torch.cat(missing), words)


def _lists(values: Tensor, missing: Any = None) -> pa.ListArray:
    """Rows (n, c) as lists of c numbers."""
    import numpy as np
    import pyarrow as pa

    n, c = values.shape
    # 32 bits count the numbers of a part: 10,000 rows of 200,000 numbers.
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * c)
    flat = pa.array(values.contiguous().view(-1).numpy())
    mask = None if missing is None else pa.array(missing)
    return pa.ListArray.from_arrays(offsets, flat, mask=mask)


def _images(datas: Sequence[Any], places: Sequence[tuple[int, int]]) -> dict[str, pa.Array]:
    """The images' files, or small pictures if there are no files."""
    import pyarrow as pa

    files = [paths_of(data) for data in datas]
    if all(each is not None for each in files):
        paths = [os.path.abspath((files[at] or ())[i]) for at, i in places]
        # A name that is no UTF-8 has no other spelling in Parquet.
        names = [name.encode("utf-8", "replace").decode() for name in paths]
        return {"image_path": pa.array(names, pa.string())}
    pictures = [thumbnail(datas[at][i][0]) for at, i in places]
    if not any(pictures):
        return {}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": each[0], "path": None} if each else None for each in pictures]
    return {"image": pa.array(rows, kind)}
