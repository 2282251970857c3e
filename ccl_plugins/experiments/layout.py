"""The layout of a run's folder: where each file of a run lies."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ccl_plugins.files.atomic import PARTIAL, sync_folder
from ccl_plugins.files.checkpoints import EMBEDDINGS, TABLE
from ccl_plugins.files.sums import SUMS
from ccl_plugins.watching.logging import delete_files

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
PROGRAM = "backbone.pt2"
ADAPTERS = ("adapter_model.safetensors", "adapter_config.json")
README = "README.md"
EXPORTED = (WEIGHTS, CONFIG, PROGRAM, *ADAPTERS, README, SUMS)
"""The files of an export."""


class Layout:
    """The files of a run; what its loggers leave lies in the folder itself.

    Args:
        folder: The run's folder, which need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = folder / "pipeline.json"
        """What was trained: the pipeline's record and the plug-ins that gave callbacks."""
        self.overwritten = folder / ".overwritten"
        """The record while its run is deleted: as long as it is here, no other file of a run counts."""
        self.metrics = folder / "metrics.json"
        """What was measured last, as numbers by name."""
        self.measurements = folder / "measurements.json"
        """All measurements, with what they say, before training, after it and for choosing; and costs."""
        self.original = folder / "original.safetensors"
        """The features of the test split before training, if an evaluator reads them."""
        self.history = folder / "history.csv"
        """The scalars over the steps, where a logger wrote them: columns step, name, value."""
        self.diagnosis = folder / "diagnosis.json"
        """What was found to be off while it trained: ``{"name", "step", "line", "about"}`` each."""
        self.weights = folder / "weights.pt"
        """The weights of a finished run."""
        self.checkpoints = folder / "checkpoints"
        self.exports = {format: folder / format for format in ("timm", "torch")}
        """The folder that an export goes to by default, by its format."""

    @property
    def holds_run(self) -> bool:
        """Whether the folder holds a run.

        What is left of one that was overwritten, or stopped before its first checkpoint, is none.
        """
        if self.overwritten.exists():
            return False
        return self.weights.exists() or any(self._checkpoint_files())

    def delete(self) -> None:
        """Delete all files of the run, and nothing else in the folder.

        The run ends when its record gets another name: at once, and before anything is deleted.  So
        wherever the deletion stops, the run is whole or its files no longer count; the next call goes on.

        Raises:
            OSError: If a file cannot be deleted; a note says what becomes of the rest.
        """
        if not self.folder.is_dir():
            return
        if self.record.exists():
            os.replace(self.record, self.overwritten)
        else:
            self.overwritten.touch()
        sync_folder(self.folder)
        try:
            self._delete_files()
        except OSError as error:
            error.add_note(f"the next run in {self.folder} deletes what is left of the old one")
            raise
        sync_folder(self.folder)
        self.overwritten.unlink()

    def _delete_files(self) -> None:
        exported = [folder / name for folder in self.exports.values() for name in EXPORTED]
        measured = (self.metrics, self.measurements, self.original)
        files = (*measured, self.diagnosis, self.folder / SUMS, self.weights)
        for file in (*files, *exported):
            file.unlink(missing_ok=True)
        delete_files(self.folder)
        large = (*self.checkpoints.glob(f"{TABLE}*"), *self.checkpoints.glob(f"{EMBEDDINGS}*"))
        for file in (*self._checkpoint_files(), *large):
            file.unlink()
        for folder in (self.checkpoints, *self.exports.values()):
            if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
                folder.rmdir()

    def _checkpoint_files(self) -> list[Path]:
        return [file for file in self.checkpoints.glob("*.ckpt") if not file.is_dir()]

    def delete_partial(self) -> None:
        """Delete the temporary files that a killed run left; the run's lock must be held."""
        for folder in (self.folder, self.checkpoints, *self.exports.values()):
            for each in folder.glob(f".*{PARTIAL}"):
                if each.is_dir():
                    shutil.rmtree(each)
                else:
                    each.unlink()
