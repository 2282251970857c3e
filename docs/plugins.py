"""The directory of plug-ins: write its page, and check its entries.

``python docs/plugins.py`` writes ``docs/plugins.md`` from ``docs/plugins.toml``.

``python docs/plugins.py --names`` prints the names of the entries as JSON.

``python docs/plugins.py --check NAME...`` installs entries by pip into this environment, compares the kinds
of their components with the entry's, and runs ``ccl check``; the exit status is 1 if one fails.  It runs
code of others: use an environment, and a machine, that have nothing to lose.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ccl_plugins.kinds import KINDS

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
DATA = DOCS / "plugins.toml"
PAGE = DOCS / "plugins.md"


class WrongEntry(ValueError):
    """An entry that cannot be listed; the message says what would be right."""


@dataclass(frozen=True)
class Entry:
    """A plug-in of the directory.

    Args:
        name: The name of its distribution.
        summary: What it adds, in a line.
        kinds: The kinds of its components, in the order of their names.
        install: What pip installs: a name with a version, an address, or a folder of this repository.
        repository: The address of its source, or that folder.
        license: As in its metadata.
        tested_with: The version of ccl-plugins with which its checks passed last.
    """

    name: str
    summary: str
    kinds: list[str]
    install: str
    repository: str
    license: str
    tested_with: str

    @property
    def source(self) -> str:
        """What pip takes, wherever it is called."""
        return str(ROOT / self.install) if self.is_here else self.install

    @property
    def is_here(self) -> bool:
        """Whether it is a folder of this repository."""
        here = ROOT / self.install / "pyproject.toml"
        return self.install.startswith("examples/plugins/") and here.is_file()

    def refuse(self) -> str:
        """What is wrong with it; empty if nothing is."""
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            return f"name must be a distribution's, in lower case with dashes, not {self.name!r}"
        if not self.kinds or self.kinds != sorted({*self.kinds} & {kind.name for kind in KINDS}):
            known = ", ".join(sorted(kind.name for kind in KINDS))
            return f"kinds must be some of {known}, each once and in this order, not {self.kinds}"
        if not self.is_here and not re.match(
            rf"{re.escape(self.name)}\s*(==|@\s*\S)", self.install
        ):
            right = f"'{self.name}==VERSION' or '{self.name} @ ADDRESS'"
            return f"install must be {right}, not {self.install!r}"
        if not self.is_here and not self.repository.startswith("https://"):
            return f"repository must begin with https://, not {self.repository!r}"
        for field in ("summary", "license", "tested_with"):
            text = getattr(self, field)
            if not text.strip() or "\n" in text or "|" in text:
                return f"{field} must be one line without |, not {text!r}"
        return ""


def entries(text: str) -> list[Entry]:
    """The entries of a data file.

    Raises:
        WrongEntry: Naming the entry and what is wrong.
    """
    given, names = tomllib.loads(text)["plugin"], [field.name for field in fields(Entry)]
    found = []
    for each in given:
        if {*each} != {*names}:
            raise WrongEntry(f"{each.get('name', each)!r}: an entry has {', '.join(names)}")
        entry = Entry(**each)
        if reason := entry.refuse():
            raise WrongEntry(f"{entry.name!r}: {reason}")
        found.append(entry)
    listed = [entry.name for entry in found]
    if listed != sorted({*listed}):
        raise WrongEntry(f"entries must be in the order of their names, each once, not {listed}")
    return found


def page(listed: Sequence[Entry]) -> str:
    """The text of the page."""
    rows = "\n".join(
        f"| [{e.name}]({f'../{e.repository}' if e.is_here else e.repository}) | {e.summary} |"
        f" {', '.join(e.kinds)} |"
        f" `pip install {f'./{e.install}' if e.is_here else shlex.quote(e.install)}` | {e.license} |"
        f" {e.tested_with} |"
        for e in listed
    )
    return f"""\
# Plug-ins

<!-- Written by docs/plugins.py from docs/plugins.toml; run it after a change. -->

These packages add components to the [built-in ones](../ccl_plugins/kinds.py). Run an *install* line
that names a folder in a checkout of this repository. *Tested with* is the last version of ccl-plugins with
which the checks passed.

| plug-in | what it adds | kinds | install | license | tested with |
|---|---|---|---|---|---|
{rows}

## What a listing means

Every week, and whenever the list changes, each package is installed beside the current ccl-plugins, and
`ccl check` checks its components against the laws of their kinds. Nobody has read the code, which runs with
your rights: read [what installing a plug-in means](explanation/trust.md) first.

If a package fails, its author is told; if it keeps failing, it is taken off the list.

## How to be listed

1. Write a plug-in ([your first plug-in](tutorial/first-plugin.md)); `ccl new` writes a complete package.
2. Make `ccl check YOUR-PLUGIN` pass. If a component breaks a law on purpose, the component
   [declares it](how-to/test-a-plugin.md).
3. Publish the source under a license, with a release on PyPI or a tag in the repository.
4. Add an entry to `docs/plugins.toml`, in the order of the names, and run `docs/plugins.py`; then open a
   pull request with `plugins.toml` and `plugins.md`:

```toml
[[plugin]]
name = "ccl-ring"
summary = "A ring around the origin, as kernel"
kinds = ["kernel"]
install = "ccl-ring==1.0.0"  # or "ccl-ring @ git+https://example.org/me/ccl-ring@v1.0.0"
repository = "https://example.org/me/ccl-ring"
license = "MIT"
tested_with = "0.1.0"
```

```bash
python docs/plugins.py
python docs/plugins.py --check ccl-ring
```

The checks of the pull request also install and check the package.
"""


def check(entry: Entry) -> list[str]:
    """Install an entry and check it; what is wrong with it, nothing if it is right."""
    if _run("-m", "pip", "install", "--quiet", entry.source).returncode:
        return [f"pip install {entry.source} failed"]
    listed = _run("-m", "ccl_plugins", "list", "--json", capture=True)
    if listed.returncode:
        return ["ccl list failed"]
    kinds = sorted(
        {row["kind"] for row in json.loads(listed.stdout) if row["plugin"] == entry.name}
    )
    wrong = [f"its kinds are {kinds}, and the entry has {entry.kinds}"] * (kinds != entry.kinds)
    if _run("-m", "ccl_plugins", "check", entry.name).returncode:
        wrong.append(f"ccl check {entry.name} failed")
    return wrong


def _run(*words: str, capture: bool = False) -> subprocess.CompletedProcess[str]:
    stdout = subprocess.PIPE if capture else None
    return subprocess.run([sys.executable, *words], stdout=stdout, text=True, check=False)


def main(words: Sequence[str] | None = None) -> int:
    """Run the script and return its exit status."""
    parser = argparse.ArgumentParser(
        description="Write the directory of plug-ins, or check entries."
    )
    parser.add_argument("--names", action="store_true", help="print the names of the entries")
    parser.add_argument("--check", nargs="+", metavar="NAME", help="install and check entries")
    options = parser.parse_args(words)
    try:
        listed = {entry.name: entry for entry in entries(DATA.read_text("utf-8"))}
    except (WrongEntry, tomllib.TOMLDecodeError) as error:
        print(f"{DATA.name}: {error}", file=sys.stderr)
        return 2
    if options.names:
        print(json.dumps([*listed]))
    elif options.check:
        if missing := [name for name in options.check if name not in listed]:
            print(f"not listed: {', '.join(missing)}", file=sys.stderr)
            return 2
        wrong = {name: check(listed[name]) for name in options.check}
        for name, reasons in wrong.items():
            print(f"{name}: {'; '.join(reasons) or 'passed'}")
        return int(any(wrong.values()))
    else:
        PAGE.write_text(page([*listed.values()]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
