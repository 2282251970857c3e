"""The commands and code of the tutorial on plug-ins work, from first to last."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.imports import ROOT
from support.programs import run

PAGE = ROOT / "docs" / "tutorial" / "first-plugin.md"
BLOCK = re.compile(r"^```(\w+)(?: status=(\d))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
INSTALL = "pip install -e '.[dev]'"


MODULES = {"ccl": "ccl_plugins", "pytest": "pytest"}
"""What the commands run."""

WITHOUT_TORCH = """
[[tool.mypy.overrides]]
module = ["torch", "torch.*", "lightly.*", "numpy.*", "pytorch_lightning.*", "scipy.*", "sklearn.*"]
follow_imports = "skip"
"""


class Reader:
    """Follows the page in one folder, and installs into another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.target = folder / "installed"
        self.installed = False
        self.output = ""
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.target),
            "MYPYPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
        }

    def type(self, line: str, status: int = 0) -> None:
        """Run a line of the terminal."""
        words = shlex.split(line)
        if words[0] == "cd":
            self.folder /= words[1]
        elif line == INSTALL:
            self.install()
        else:
            if words == ["mypy"]:  # which does not see an installation from its source folder
                config = self.folder.parent / "mypy.toml"  # torch alone would take half a minute
                given = (self.folder / "pyproject.toml").read_text("utf-8")
                config.write_text(given + WITHOUT_TORCH, "utf-8")
                cache = ROOT / ".mypy_cache" / "first-plugin"  # what it found of our own modules
                options = ["--follow-imports=silent", "--ignore-missing-imports"]
                words += [*options, f"--config-file={config}", f"--cache-dir={cache}"]
            self.run(words, status)

    def run(self, words: list[str], status: int = 0) -> None:
        if words[0] in MODULES:
            words = ["-m", MODULES[words[0]], *words[1:]]
        if words[0] in ("-m", "-c"):
            done = run(*words, env=self.environment, cwd=self.folder, timeout=300)
        else:
            options = {"cwd": self.folder, "env": self.environment, "timeout": 300}
            done = subprocess.run(words, capture_output=True, text=True, **options)
        self.output = done.stdout + done.stderr
        assert done.returncode == status, f"{words}: {self.output[-3000:]}"

    def install(self) -> None:
        """Install the package without changing this environment."""
        options = ["--no-deps", "--no-build-isolation", "--upgrade", "--target", str(self.target)]
        self.run([sys.executable, "-m", "pip", "install", "--quiet", *options, "."])
        self.installed = True

    def python(self, code: str) -> None:
        """Write the file that the first line names, or run the code."""
        named = re.match(r"# (\S+\.py)\n", code)
        if named:
            (self.folder / named[1]).write_text(code[named.end() :])
            self.install()
        else:
            self.run(["-c", code])


@pytest.mark.slow
def test_the_page_is_true_from_nothing_to_a_green_kit(tmp_path):
    reader = Reader(tmp_path)
    seen = []
    for language, status, body in BLOCK.findall(PAGE.read_text("utf-8")):
        if language == "sh":
            for line in body.splitlines():
                reader.type(line, int(status or 0))
                seen.append(line.split()[0])
        elif language == "python":
            reader.python(body)
        elif language == "text":
            assert " ".join(body.split()) in " ".join(reader.output.split())
        elif language == "toml" and "entry-points" in body:
            assert body.strip() in (reader.folder / "pyproject.toml").read_text()
    assert {"ccl", "cd", "pip", "pytest", "ruff", "mypy"} == set(seen)
