"""Features of a run as ``obsm`` of the file that its cells are from."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ccl_plugins.protocols import Command

NAMES = "obs_names"
"""The metadata column of the cells' names."""


def write_obsm(h5ad: str | Path, embedding: str | Path, key: str = "X_ccl") -> Path:
    """Write features, as ``ccl embed`` wrote them, into ``obsm`` of an ``.h5ad`` file, by the cells' names.

    Args:
        h5ad: The file, of which nothing else changes.  It is replaced at once, or not at all.
        embedding: The ``.parquet`` file of ``ccl embed``, of both splits.
        key: The name in ``obsm``; an entry of that name is replaced.

    Returns:
        The file.

    Raises:
        ValueError: If the two do not have the same cells, naming one, and for a key that is no name.
        FileNotFoundError: If one of them is not there.
    """
    import h5py
    import numpy as np
    from anndata.io import read_elem, write_elem
    from pyarrow import parquet

    h5ad, embedding = Path(h5ad).expanduser(), Path(embedding).expanduser()
    if not key or "/" in key:
        raise ValueError(f"key must be a name in obsm, such as 'X_ccl', not {key!r}")
    for file in (h5ad, embedding):
        if not file.is_file():
            raise FileNotFoundError(f"there is no file {str(file)!r}")
    there = parquet.read_schema(embedding).names
    if lacking := [name for name in (NAMES, "vector") if name not in there]:
        raise ValueError(
            f"{embedding} has no column {lacking[0]!r}: it must be what `ccl embed` writes of a run on the"
            " data set 'anndata'"
        )
    table = parquet.read_table(embedding, columns=[NAMES, "vector"])
    names = table[NAMES].to_pylist()
    places = {name: row for row, name in enumerate(names)}
    if len(places) < len(names):
        raise ValueError(f"{embedding} has cells twice: {len(names)} rows of {len(places)} names")
    with h5py.File(h5ad) as opened:
        cells = [*read_elem(opened["obs"]).index.astype(str)]
    for have, of, want, other in (
        (places, embedding, cells, h5ad),
        ({*cells}, h5ad, names, embedding),
    ):
        if lacking := [name for name in want if name not in have]:
            raise ValueError(
                f"{of} lacks {len(lacking)} of the {len(want)} cells of {other}, such as {lacking[0]!r}:"
                " both must have the same cells"
            )
    vectors = np.array(table["vector"].to_pylist(), dtype=np.float32)
    vectors = vectors[[places[name] for name in cells]]
    descriptor, aside = tempfile.mkstemp(dir=h5ad.parent, prefix=f".{h5ad.name}.")
    os.close(descriptor)
    try:
        shutil.copy(h5ad, aside)
        with h5py.File(aside, "r+") as opened:
            obsm = opened.require_group("obsm")
            if key in obsm:
                del obsm[key]
            write_elem(obsm, key, vectors)
        os.replace(aside, h5ad)
    finally:
        Path(aside).unlink(missing_ok=True)
    return h5ad


class WriteObsm:
    """Write a run's features, which ``ccl embed`` wrote, into ``obsm`` of an AnnData file."""

    example = "ccl write-obsm cells.h5ad features.parquet"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the two files and the key."""
        parser.add_argument("h5ad", metavar="FILE.h5ad", help="the file of the run's cells")
        parser.add_argument("embedding", metavar="FILE.parquet", help="what `ccl embed` wrote")
        parser.add_argument("--key", default="X_ccl", help="in obsm (default: %(default)s)")

    def run(self, arguments: argparse.Namespace) -> int:
        """Write it."""
        from ccl_plugins.commands import reporting_mistakes

        with reporting_mistakes():
            file = write_obsm(arguments.h5ad, arguments.embedding, arguments.key)
        print(f"{file}: obsm[{arguments.key!r}]")
        return 0


if TYPE_CHECKING:
    _: Command = WriteObsm()  # a type checker names missing members here
