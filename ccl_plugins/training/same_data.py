"""The identity of a run's data, and the refusal of other data when a run is resumed or measured."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.files.fingerprints import doubts, of_data, of_image, other_data
from ccl_plugins.files.mapped import blocks, place_of
from ccl_plugins.numerics.generators import mix, seed_cpu, undisturbed
from ccl_plugins.protocols import Table, Transform, trait
from ccl_plugins.training.loader import read_batch
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.saved import ResumePoint
from ccl_plugins.training.tables import Tables
from ccl_plugins.transforms.modalities import by_modality
from ccl_registry.errors import Mistake

NEAR = 1e-3
"""The allowed difference of a table that is fitted again, relative to its largest number."""


class OtherData(Mistake):
    """The data differ from those of the run that is resumed or measured."""


def fingerprint(
    split: Any, workers: int | None = None, transform: Transform | None = None
) -> dict[str, Any]:
    """The identity of a split; see `ccl_plugins.files.fingerprints.of_data`.

    Args:
        split: The split.
        workers: See `FitSettings`.
        transform: The transform that reads the columns of texts; a tokenizer in a file counts as a
            column.
    """

    def read(indices: list[int]) -> list[str]:
        fingerprints: list[str] = read_batch(_Contents(split), indices, list, workers)
        return fingerprints

    identity = of_data(split, read)
    for name, each in by_modality(transform).items() if transform is not None else ():
        if (tokenizer := trait(each, "fingerprint")()) is not None:
            identity["columns"][f"tokens of {name}"] = ["tokens", tokenizer]
    content = {name: each for name, each in identity.items() if name != "written"}
    identity["digest"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return identity


class _Contents(torch.utils.data.Dataset[str]):
    """The fingerprint of each image; a transform of the data set draws the same numbers each time."""

    def __init__(self, split: Any) -> None:
        self.split = split

    def __getitem__(self, index: int) -> str:
        with undisturbed():
            seed_cpu(mix(0, index))
            return of_image(self.split[index][0])


def refuse_other_data(
    point: ResumePoint, now: Mapping[str, Any], parts: Parts, split: Any, seed: int
) -> None:
    """Refuse data that differ from those of the run to be resumed; called by one process only.

    Conditions that are fitted once, and not from embeddings, are fitted again and compared, because
    they may read files of their own.

    Raises:
        OtherData: With every difference.

    Warns:
        UserWarning: If image files may have changed.
    """
    before = point.record.get("data", {})
    differing = other_data(before, now)
    if not differing:
        warn_of_doubts(before, now)
        again = Tables(parts.conditions, len(split), seed).once(split)
        differing = [
            f"condition {name!r} has another table"
            for name, table in again.items()
            if name in point.tables and not _is_same(table, point.tables[name])
        ]
    if differing:
        raise OtherData(
            f"the data is not that of the run: {'; '.join(differing)}. A run is resumed with the data that"
            " it began with; --overwrite (overwrite=True) or another output folder begins anew"
        )


def require_data_of(
    record: Mapping[str, Any],
    splits: Mapping[str, Any],
    transform: Transform,
    workers: int | None,
    where: str,
) -> None:
    """Refuse splits that are not those of a run.

    Args:
        record: The run's record; splits that it does not identify are not compared.
        splits: The splits by name.
        transform: The run's transform.
        workers: See `FitSettings`.
        where: The run, for the message.

    Raises:
        OtherData: With every difference.

    Warns:
        UserWarning: If image files may have changed.
    """
    before = record.get("data", {})
    now = {k: fingerprint(split, workers, transform) for k, split in splits.items() if k in before}
    if differing := other_data(before, now):
        raise OtherData(
            f"the data is not that of the run in {where}: {'; '.join(differing)}. Its stored numbers are of"
            " other data: bring that back, or train a run on this"
        )
    warn_of_doubts(before, now)


def warn_of_doubts(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Warn if a part of the data may have changed."""
    for doubt in doubts(before, now):
        warnings.warn(f"the data may differ from the run's: {doubt}", stacklevel=3)


def _is_same(table: Table, saved: Mapping[str, Any]) -> bool:
    now = {"": table.values, **{f"/{name}": value for name, value in table.extras.items()}}
    before = {"": saved["values"], **{f"/{k}": value for k, value in saved["extras"].items()}}
    return now.keys() == before.keys() and all(_is_near(now[k], before[k]) for k in now)


def _is_near(now: Tensor, before: Tensor) -> bool:
    if now.shape != before.shape or now.dtype != before.dtype:
        return False
    if place_of(now) is not None and place_of(now) == place_of(before):
        return True  # the same place of the same file, whose fingerprint was compared
    if not now.is_floating_point():
        return torch.equal(now, before)
    sizes = (float(each.nan_to_num().abs().amax()) for each in _parts(before) if each.numel())
    near = NEAR * max(sizes, default=0.0)
    both = zip(_parts(now), _parts(before), strict=True)
    return all(torch.allclose(a, b, rtol=0, atol=near, equal_nan=True) for a, b in both)


def _parts(values: Tensor) -> Iterator[Tensor]:
    """The values in blocks of rows."""
    return (values[rows] for rows in blocks(values)) if values.ndim else iter([values])
