"""Reading a run's files: its newest weights, and the checkpoint that it continues from."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.sums import DamagedFile
from ccl_plugins.training.table_files import tables_of

OURS = "ccl_plugins"
"""The key of this library's part of Lightning's checkpoints."""

NETWORKS = ("method", "objective")
"""The names of a run's networks in its files; see `ccl_plugins.training.parts.Parts`."""


def newest_checkpoint(run: RunFolder) -> tuple[Path, dict[str, Any]]:
    """The newest readable checkpoint of a run: its file and its content, written by Lightning.

    Raises:
        FileNotFoundError: If there is none.
        DamagedFile: If no file can be read.

    Warns:
        UserWarning: If an older file is read in place of a damaged one, which the warning names.
    """
    if not (paths := run.steps):
        raise FileNotFoundError(f"there is no checkpoint to resume from in {run.checkpoints}")
    damage: DamagedFile | None = None
    for path in paths:
        try:
            content = read_checkpoint(path)
            if OURS not in content:
                raise DamagedFile(f"{path} is not a checkpoint of a run")
        except DamagedFile as error:
            damage = damage or error
            continue
        if damage is not None:
            warnings.warn(f"{damage}; resuming from {path.name}, which is older", stacklevel=3)
        return path, content
    assert damage is not None
    raise damage


def last_good(run: RunFolder) -> str:
    """The checkpoint that a run can return to, as a sentence for an error message."""
    try:
        path, content = newest_checkpoint(run)
    except (FileNotFoundError, DamagedFile):
        return "No checkpoint was written before"
    return f"The last good checkpoint is {path}, of step {content['global_step']}"


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoint that a run continues from, and the part of it that Lightning does not restore.

    Args:
        path: The checkpoint's file.
        step: Optimizer steps taken until then.
        record: The record of the run, as plain data; its ``"data"`` identifies the data.
        consumed: Global batches consumed until then.
        tables: The state of the conditions' tables.
        generators: The states of the random generators of each process.
    """

    path: Path
    step: int
    record: Mapping[str, Any]
    consumed: int
    tables: Mapping[str, Any]
    generators: Sequence[Mapping[str, Any]]

    @classmethod
    def newest(cls, run: RunFolder) -> ResumePoint:
        """The newest readable checkpoint of a run.

        Raises:
            FileNotFoundError: If there is none.
            DamagedFile: If no file can be read.
            MissingTable: If the file of a condition's table is missing, or holds another table.

        Warns:
            UserWarning: If an older file is read in place of a damaged one, which the warning
                names.
        """
        path, content = newest_checkpoint(run)
        state = content[OURS]
        return cls(
            path,
            content["global_step"],
            record=json.loads(state["record"]),
            consumed=state["consumed"],
            tables=tables_of(state["tables"], run),
            generators=state["generators"],
        )


@dataclass(frozen=True)
class Weights:
    """The newest readable weights of a run, and the data saved with them.

    Args:
        file: Their file: the finished run's weights, or a checkpoint.
        step: Optimizer steps taken until then.
        networks: The state of each network, by name.
        about: The data saved with them: ``record`` as JSON, ``versions``, and in a checkpoint
            ``total``, the steps of the whole run, and ``tables``.
    """

    file: Path
    step: int
    networks: Mapping[str, Mapping[str, Tensor]]
    about: Mapping[str, Any]

    @classmethod
    def newest(cls, run: RunFolder) -> Weights:
        """The newest readable weights of a run.

        Raises:
            FileNotFoundError: If there are none.
            DamagedFile: If no file can be read.

        Warns:
            UserWarning: If another file is read in place of a damaged one, which the warning names.
        """
        latest = next(iter(run.steps), None)
        finished = _finished(run, or_else=latest)
        # A finished run that is resumed for more epochs has checkpoints of later steps.
        if finished and (latest is None or latest.name <= run.checkpoint(finished["step"]).name):
            states = {name: finished.pop(name) for name in NETWORKS}
            return cls(run.weights, finished["step"], states, finished)
        if latest is None:
            raise FileNotFoundError(
                f"{run.path} holds no weights: training stopped before its first checkpoint, or the"
                " folder was deleted"
            )
        file, content = newest_checkpoint(run)
        state = content["state_dict"]
        networks: dict[str, dict[str, Tensor]] = {name: {} for name in NETWORKS}
        for key, tensor in state.items():
            network, _, name = key.partition(".")
            if network in networks:
                networks[network][name] = tensor
        return cls(file, content["global_step"], networks, content[OURS])

    @property
    def progress(self) -> tuple[int, int]:
        """The steps taken, and those of the whole run."""
        return self.step, self.about.get("total", self.step)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the packages that the run was trained with; empty if unknown."""
        return self.about.get("versions") or {}

    @property
    def record(self) -> Mapping[str, Any]:
        """The record of the run, which is that of the folder unless somebody changed it."""
        record: Mapping[str, Any] = json.loads(self.about["record"])
        return record


def _finished(run: RunFolder, or_else: Path | None) -> dict[str, Any] | None:
    """The file of a finished run's weights; None if it is missing, or damaged while a checkpoint is not."""
    if not run.weights.is_file():
        return None
    try:
        return read_checkpoint(run.weights)
    except DamagedFile as damage:
        if or_else is None:
            raise
        warnings.warn(f"{damage}; the newest checkpoint is read instead", stacklevel=3)
        return None
