"""The findings of a run: one line each, given once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields

from ccl_plugins.files.processes import is_first
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.sums import DamagedFile

PAGE = "docs/how-to/when-it-does-not-learn.md"
"""The page that has a section for each line."""


@dataclass(frozen=True)
class Finding:
    """Something wrong in a run.

    Args:
        name: Its section of the page, such as ``"the-loss-stays-at-chance"``.
        step: The optimizer step at which it was found; 0 is before training.
        line: The problem, and the setting to change.
        about: The subject, such as the name of a condition, if a run may have several.
        explains: Whether it may be the reason why a run does not learn.
        page: The page that has the section.

    Raises:
        TypeError: For a value of another type.
    """

    name: str
    step: int
    line: str
    about: str = ""
    explains: bool = True
    page: str = PAGE

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if type(value).__name__ != each.type:
                raise TypeError(
                    f"the {each.name} of a finding must be of type {each.type}, not {value!r:.80}"
                )

    def __str__(self) -> str:
        return f"step {self.step}: {self.line}; see {self.page}#{self.name}"


@dataclass
class Findings:
    """The findings of a run: each is a warning of one line, once, on the first process.

    Args:
        said: Findings that were given before, for example before a resume: their names and
            subjects.
        listener: Called with each finding.
    """

    said: set[tuple[str, str]] = field(default_factory=set)
    listener: Callable[[Finding], None] | None = None
    found: list[Finding] = field(default_factory=list)

    def say(self, finding: Finding, stacklevel: int = 2) -> None:
        """Warn of a finding, unless one with the same name and subject was given."""
        if (finding.name, finding.about) in self.said:
            return
        self.said.add((finding.name, finding.about))
        if not is_first():
            return
        self.found.append(finding)
        if self.listener is not None:
            self.listener(finding)
        warnings.warn(str(finding), stacklevel=stacklevel + 1)


def read_findings(run: RunFolder) -> list[Finding]:
    """The findings of a run; none if there is no file.

    Raises:
        DamagedFile: If the file is damaged; the message names it.
    """
    rows = run.read(run.diagnosis)
    try:
        return [Finding(**each) for each in rows or ()]
    except TypeError as error:
        raise DamagedFile(f"{run.diagnosis} is damaged: it holds no findings") from error
