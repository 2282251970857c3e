"""What a run wrote into its folder, by exact names in a list there: it replaces and deletes these alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.sums import forget_sums

LIST = "written.json"
KEY = "written"


class InTheWay(FileExistsError):
    """A file that the run would replace, and that it did not write."""


def written(folder: Path) -> list[str]:
    """The names that a run's list has, in the order in which they were first written; none without a list.

    A name is that of a file below the folder, as ``"checkpoints/step-00000010.ckpt"``; what is no such name
    is left out.

    Raises:
        ValueError: If the list is damaged, or another's file of this name.
    """
    try:
        names = json.loads((folder / LIST).read_text("utf-8"))[KEY]
        if not isinstance(names, list):
            raise TypeError("no list")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{folder / LIST} is damaged ({error}): what the run wrote is not known, and nothing is"
            " replaced or deleted; bring a copy back, or name another folder"
        ) from error
    return [each for each in names if isinstance(each, str) and _is_name(folder, each)]


def note(folder: Path, *files: Path) -> None:
    """Put files below a folder into the list of what its run wrote; files elsewhere are passed over.

    A file is noted before it is written: so no process that is killed leaves one that is not.
    """
    known = written(folder)
    names = [*dict.fromkeys([*known, *(n for file in files if (n := _name(folder, file)))])]
    if names != known:
        _write(folder, names)


def claim(file: Path, folder: Path | None = None) -> Path:
    """Note a file that the run in a folder, by default the file's, is about to write; return it.

    Raises:
        InTheWay: See `refuse_others`.
    """
    folder = file.parent if folder is None else folder
    refuse_others(folder, [file])
    note(folder, file)
    return file


def refuse_others(folder: Path, files: Iterable[Path]) -> None:
    """Refuse to replace files that the run in a folder did not write.

    Raises:
        InTheWay: Naming the first that is there.
    """
    known = {*written(folder)}
    for file in files:
        if os.path.lexists(file) and _name(folder, file) not in known:
            raise InTheWay(
                f"{file} is in the way: {folder / LIST} does not have it as written by a run, which would"
                " replace it; move it, or name another folder"
            )


def delete(folder: Path, *files: Path) -> None:
    """Delete those of some files that the run in a folder wrote, and their checksums; no link is followed.

    Folders below it that are empty then go too.
    """
    known = written(folder)
    names = [name for file in files if (name := _name(folder, file)) in known]
    if not names:
        return
    forget_sums(folder, names)
    folders = set()
    for name in names:
        *parents, _ = parts = Path(name).parts
        above = [folder.joinpath(*parents[: i + 1]) for i in range(len(parents))]
        file = folder.joinpath(*parts)
        if any(each.is_symlink() for each in above) or (file.is_dir() and not file.is_symlink()):
            continue
        file.unlink(missing_ok=True)
        folders |= {*above}
    for each in sorted(folders, reverse=True):  # the deepest first
        if each.is_dir() and not any(each.iterdir()):
            each.rmdir()
    if left := [name for name in known if name not in names]:
        _write(folder, left)
    else:
        (folder / LIST).unlink()


def _name(folder: Path, file: Path) -> str | None:
    """The name of a file below a folder, as the list has it; None for a file elsewhere."""
    relative = os.path.relpath(os.path.abspath(file), os.path.abspath(folder))
    name = Path(relative).as_posix()
    return None if name in (".", "..") or name.startswith("../") else name


def _is_name(folder: Path, text: str) -> bool:
    return "\0" not in text and text == _name(folder, folder / text)


def _write(folder: Path, names: list[str]) -> None:
    with atomic_write(folder / LIST) as temporary:
        temporary.write_text(json.dumps({KEY: names}, indent=1) + "\n", "utf-8")
