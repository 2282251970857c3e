"""The layout of a run's folder: where each file of a run lies, and what becomes of it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from ccl_plugins.files.atomic import abandoned, sync_folder
from ccl_plugins.files.sums import SUMS
from ccl_plugins.files.written import LIST, delete, note, refuse_others, written

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
PROGRAM = "backbone.pt2"
ADAPTERS = ("adapter_model.safetensors", "adapter_config.json")
README = "README.md"
EXPORTED = (WEIGHTS, CONFIG, PROGRAM, *ADAPTERS, README, SUMS)
"""The files of an export."""


class Layout:
    """The files of a run; what its loggers leave lies in the folder itself.

    A list there has the exact names of all that the run wrote: these alone are replaced and deleted.

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
        """The scalars over the steps, whatever the loggers: columns step, name, value."""
        self.diagnosis = folder / "diagnosis.json"
        """What was found to be off while it trained: ``{"name", "step", "line", "about"}`` each."""
        self.weights = folder / "weights.pt"
        """The weights of a finished run."""
        self.checkpoints = folder / "checkpoints"
        self.exports = {format: folder / format for format in ("timm", "torch")}
        """The folder that an export goes to by default, by its format."""

        self.lightning = folder / "lightning"
        """Where Lightning's own callbacks write, as ``ModelCheckpoint``."""

    @property
    def fixed(self) -> list[Path]:
        """The files of a run that have one name, but what loggers name."""
        measured = (self.metrics, self.measurements, self.original)
        return [self.record, *measured, self.history, self.diagnosis, self.weights]

    @property
    def steps(self) -> list[Path]:
        """The checkpoints to resume from, the newest first."""
        from ccl_plugins.training.checkpointing import by_step

        return by_step(self.checkpoints)

    @property
    def holds_run(self) -> bool:
        """Whether the folder holds a run.

        What is left of one that was overwritten, or stopped before its first checkpoint, is none.
        """
        if self.overwritten.exists():
            return False
        return self.weights.exists() or bool(self.steps)

    def refuse_others(self, *more: Path) -> None:
        """Refuse a folder in which a run would replace or delete what it did not write.

        Args:
            more: Further files that the run would write.

        Raises:
            InTheWay: Naming a file that is no run's.
            OSError: See `refuse_links`.
            ValueError: If the list of what the run wrote is damaged.
        """
        self.refuse_links()
        refuse_others(self.folder, [*self.fixed, *more])

    def refuse_links(self) -> None:
        """Refuse links in place of a run's folders, behind which it would write elsewhere, and files.

        Raises:
            OSError: Naming one.
        """
        for folder in (self.checkpoints, self.lightning, *self.exports.values()):
            if folder.is_symlink():
                raise OSError(
                    f"{folder} is a link, and a run writes and deletes in its folder alone: make"
                    f" {self.folder} itself a link, or put a folder there"
                )
            if folder.exists() and not folder.is_dir():
                raise OSError(f"{folder} is a file, and a run needs a folder there: move it")

    def adopt(self) -> None:
        """Note the files of a run that came without its list, as from a machine of somebody else.

        The caller has checked that they are a run's.
        """
        if not (self.folder / LIST).exists():
            note(self.folder, *(each for each in (*self.fixed, *self.steps) if each.exists()))

    def delete(self) -> None:
        """Delete all files that the run wrote, and nothing else in the folder.

        The run ends when its record gets another name: at once, and before anything is deleted.  So
        wherever the deletion stops, the run is whole or its files no longer count; the next call goes on.

        Raises:
            OSError: If a file cannot be deleted; a note says what becomes of the rest.
        """
        names = written(self.folder)
        if not names and not self.overwritten.exists():
            return
        if self.record.name in names and self.record.exists():
            os.replace(self.record, self.overwritten)
        else:
            with suppress(FileExistsError):
                self.overwritten.open("x").close()
        sync_folder(self.folder)
        try:
            delete(self.folder, *(self.folder / name for name in names))
            for each in (self.checkpoints, *self.exports.values()):  # of writes that were killed
                if each.is_dir() and not each.is_symlink() and not any(each.iterdir()):
                    each.rmdir()
        except OSError as error:
            error.add_note(f"the next run in {self.folder} deletes what is left of the old one")
            raise
        sync_folder(self.folder)
        self.overwritten.unlink()

    def delete_partial(self) -> None:
        """Delete the temporary files that a killed run left; the run's lock must be held."""
        for folder in (self.folder, self.checkpoints, *self.exports.values()):
            for each in abandoned(folder):
                shutil.rmtree(each)
