"""The folder of a run: its files in one table, and the rules for writing and deleting them."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ccl_plugins.files.atomic import abandoned, atomic_write, sync_folder
from ccl_plugins.files.sums import (
    DamagedFile,
    check_sum,
    checksummed,
    forget_sums,
    has_sum,
    write_sums,
)
from ccl_registry.errors import Mistake

HISTORY = "history.csv"
"""The name of the curves, which a logger may declare as its own."""

TABLE = "table-"
"""The beginning of the names of files with large tables, to which checkpoints refer."""

STEP = re.compile(r"step-([0-9]{8,})\.ckpt")
"""The name of a checkpoint to resume from."""


class InTheWay(FileExistsError, Mistake):
    """A file that the run would replace, and that it did not write."""


class RunFolder:
    """The files of a run; loggers write into the folder itself.

    An inventory there has the exact names of all files that the run wrote: only these are replaced
    and deleted.

    Args:
        path: The folder, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fixed: list[Path] = []
        """The files with fixed names, without those of loggers."""
        self.record = self._file("pipeline.json")
        """The record of the training: the pipeline's record and the plug-ins of callbacks."""
        self.metrics = self._file("metrics.json")
        """The last measurements, as numbers by name."""
        self.measurements = self._file("measurements.json")
        """All measurements with their sentences, before training, after it and for the choice; and
        costs."""
        self.original = self._file("original.safetensors")
        """The features of the test split before training, if an evaluator reads them."""
        self.history = self._file(HISTORY)
        """The scalars over the steps, independent of the loggers: columns step, name, value."""
        self.diagnosis = self._file("diagnosis.json")
        """The findings while it trained: ``{"name", "step", "line", "about"}`` each."""
        self.weights = self._file("weights.pt")
        """The weights of a finished run."""

        self.checkpoints = path / "checkpoints"
        self.embeddings = {
            of: self.checkpoints / f"embeddings-{of}" for of in ("projection", "key", "features")
        }
        """The temporary files of large embeddings to which conditions are fitted, by their type."""
        self.exports = {format: path / format for format in ("timm", "torch")}
        """The folder that an export goes to by default, by its format."""
        self.lightning = path / "lightning"
        """The folder for Lightning's own callbacks, such as ``ModelCheckpoint``."""
        self.inventory = path / "written.json"
        """The names of the files that the run wrote."""
        self.overwritten = path / ".overwritten"
        """The record while its run is deleted: while this file exists, no other file of a run counts."""

    def _file(self, name: str) -> Path:
        self.fixed.append(self.path / name)
        return self.fixed[-1]

    @property
    def steps(self) -> list[Path]:
        """The checkpoints to resume from, the newest first, without callbacks' own and folders."""
        paths = {
            int(name[1]): path
            for path in self.checkpoints.glob("step-*.ckpt")
            if (name := STEP.fullmatch(path.name)) and path.is_file()
        }
        return [paths[step] for step in sorted(paths, reverse=True)]

    def checkpoint(self, step: int) -> Path:
        """The file of a step's checkpoint."""
        return self.checkpoints / f"step-{step:08d}.ckpt"

    def table(self, condition: str, epoch: int) -> Path:
        """The file of a condition's large table, as it was fitted in an epoch."""
        return self.checkpoints / f"{TABLE}{quote(condition, safe='')}-{epoch}.safetensors"

    @property
    def tables(self) -> list[Path]:
        """The files of tables that the run wrote."""
        own = map(self.path.joinpath, self.own_names())
        return [each for each in own if each.name.startswith(TABLE)]

    @property
    def holds_run(self) -> bool:
        """Whether the folder holds a run.

        The remains of a run that was overwritten, or stopped before its first checkpoint, do not
        count.
        """
        if self.overwritten.exists():
            return False
        return self.weights.exists() or bool(self.steps)

    # Reading and writing.

    def read(self, file: Path) -> Any:
        """The data of a JSON file; None if there is no such file.

        Raises:
            DamagedFile: If its checksum is wrong, or it holds no JSON; the message names it.
        """
        if not file.is_file():
            return None
        check_sum(file)
        try:
            return json.loads(file.read_text("utf-8"))
        except (ValueError, RecursionError) as error:
            raise DamagedFile(f"{file} is damaged: {error}") from error

    def write(self, file: Path, data: Any) -> None:
        """Write a JSON file atomically, note it as the run's, and write its checksum.

        Raises:
            InTheWay: See `refuse_others`.
        """
        with checksummed(self.claim(file)), atomic_write(file) as temporary:
            temporary.write_text(json.dumps(data, indent=2) + "\n", "utf-8")

    def seal(self, names: Iterable[str]) -> None:
        """Write the checksums of the run's files that have some names or patterns.

        Files that still have a checksum were found damaged by `unseal`, and keep it.
        """
        write_sums(self.path, [each.name for each in self._named(names) if not has_sum(each)])

    def unseal(self, names: Iterable[str]) -> None:
        """Delete the checksums of files before loggers write more; damaged files keep theirs.

        Warns:
            UserWarning: For a file whose checksum is wrong; it is continued anyway.
        """
        whole = []
        for file in self._named(names):
            try:
                check_sum(file)
                whole.append(file.name)
            except DamagedFile as error:
                warnings.warn(f"{error}; it is continued as it is, and stays damaged", stacklevel=3)
        forget_sums(self.path, whole)

    def _named(self, names: Iterable[str]) -> list[Path]:
        """The run's files with some names, in the folder itself."""
        own = {*self.own_names()}
        found = {file for name in names for file in self.path.glob(name) if file.name in own}
        return sorted(file for file in found if file.is_file() and not file.is_symlink())

    # What the run wrote.

    def own_names(self) -> list[str]:
        """The names of the files that the run wrote, by first writing; empty without an inventory.

        A name is that of a file below the folder, such as ``"checkpoints/step-00000010.ckpt"``;
        other entries are left out.

        Raises:
            DamagedFile: If the inventory is damaged, or is another program's file of this name.
        """
        try:
            names = json.loads(self.inventory.read_text("utf-8"))["written"]
            if not isinstance(names, list):
                raise TypeError("no list")
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedFile(
                f"{self.inventory} is damaged ({error}): what the run wrote is not known, and nothing is"
                " replaced or deleted; bring a copy back, or name another folder"
            ) from error
        return [n for n in names if isinstance(n, str) and "\0" not in n and n == self._name(n)]

    def note(self, *files: Path) -> None:
        """Add files below the folder to the inventory; files elsewhere are ignored.

        A file is noted before it is written, so a killed process leaves no unnoted file.
        """
        before = self.own_names()
        names = [*dict.fromkeys([*before, *filter(None, map(self._name, files))])]
        if names != before:
            self._write_inventory(names)

    def claim(self, file: Path) -> Path:
        """Note a file that the run is about to write; return it.

        Raises:
            InTheWay: See `refuse_others`.
        """
        self.refuse_others(file)
        self.note(file)
        return file

    def refuse_others(self, *files: Path) -> None:
        """Refuse to replace files that the run did not write.

        Raises:
            InTheWay: For the first such file.
        """
        own = {*self.own_names()}
        for file in files:
            if os.path.lexists(file) and self._name(file) not in own:
                raise InTheWay(
                    f"{file} is in the way: the run would replace it, but {self.inventory} does not list it"
                    " as a run's file; move it, or name another folder"
                )

    def refuse_links(self) -> None:
        """Refuse links, which would lead elsewhere, and files in place of the run's folders.

        Raises:
            OSError: For such a link or file.
        """
        for folder in (self.checkpoints, self.lightning, *self.exports.values()):
            if folder.is_symlink():
                raise OSError(
                    f"{folder} is a link, but a run writes and deletes only in its own folder: make"
                    f" {self.path} itself a link, or put a folder there"
                )
            if folder.exists() and not folder.is_dir():
                raise OSError(f"{folder} is a file, but a run needs a folder there: move it")

    def adopt(self) -> None:
        """Note the files of a run without an inventory, for example from another machine.

        The caller has checked that they belong to a run.
        """
        if not self.inventory.exists():
            self.note(*(each for each in (*self.fixed, *self.steps) if each.exists()))

    def _name(self, file: Path | str) -> str | None:
        """The inventory's name of a file below the folder; None for a file elsewhere."""
        absolute = os.path.abspath(self.path / file if isinstance(file, str) else file)
        name = Path(os.path.relpath(absolute, os.path.abspath(self.path))).as_posix()
        return None if name in (".", "..") or name.startswith("../") else name

    def _write_inventory(self, names: list[str]) -> None:
        with atomic_write(self.inventory) as temporary:
            temporary.write_text(json.dumps({"written": names}, indent=1) + "\n", "utf-8")

    # Deleting.

    def delete(self, *files: Path) -> None:
        """Delete the given files that the run wrote, and their checksums; no link is followed.

        Folders that become empty are deleted too.
        """
        own = self.own_names()
        names = [name for file in files if (name := self._name(file)) in own]
        if not names:
            return
        forget_sums(self.path, names)
        folders: set[Path] = set()
        for name in names:
            file = self.path / name
            above = {self.path / each for each in Path(name).parents} - {self.path}
            is_folder = file.is_dir() and not file.is_symlink()
            if not is_folder and not any(each.is_symlink() for each in above):
                file.unlink(missing_ok=True)
                folders |= above
        for folder in sorted(folders, reverse=True):  # the deepest first
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        if left := [name for name in own if name not in names]:
            self._write_inventory(left)
        else:
            self.inventory.unlink()

    def clear(self) -> None:
        """Delete all files that the run wrote, and nothing else in the folder.

        First the record is renamed, which ends the run at once. So if the deletion stops anywhere,
        the run is whole or its files no longer count, and the next call continues.

        Raises:
            OSError: If a file cannot be deleted; a note says what happens to the other files.
        """
        names = self.own_names()
        if not names and not self.overwritten.exists():
            return
        if self.record.name in names and self.record.exists():
            os.replace(self.record, self.overwritten)
        else:
            with suppress(FileExistsError):
                self.overwritten.open("x").close()
        sync_folder(self.path)
        try:
            self.delete(*(self.path / name for name in names))
            for folder in (self.checkpoints, *self.exports.values()):  # left by killed writes
                if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
                    folder.rmdir()
        except OSError as error:
            error.add_note(f"the next run in {self.path} deletes what is left of the old one")
            raise
        sync_folder(self.path)
        self.overwritten.unlink()

    def delete_partial(self) -> None:
        """Delete the temporary files that a killed run left; the run's lock must be held."""
        for folder in (self.path, self.checkpoints, *self.exports.values()):
            for left in abandoned(folder):
                shutil.rmtree(left)
