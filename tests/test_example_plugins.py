"""The packages in ``examples/plugins`` install beside each other, are listed, and pass their own tests."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from support.imports import ROOT
from support.installed_plugins import install_packages
from support.programs import run

PACKAGES = sorted(path.parent.name for path in (ROOT / "examples/plugins").glob("*/pyproject.toml"))
LEFT_BY_TOOLS = shutil.ignore_patterns("build", "runs", "*.egg-info", ".*_cache", "__pycache__")


class Installed:
    """All packages installed in one folder, and copies of their sources."""

    def __init__(self, root: Path) -> None:
        self.sources = root / "sources"
        self.target = root / "installed"
        for name in PACKAGES:
            source = ROOT / "examples/plugins" / name
            shutil.copytree(source, self.sources / name, ignore=LEFT_BY_TOOLS)
        install_packages({self.sources / name: self.target for name in PACKAGES})

    def python(self, *arguments: str, may_fail: bool = False) -> str:
        """The output of Python in the folder of the sources; it must succeed unless it may fail."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("CCL_", "PYTEST_"))}
        env = {**clean, "PYTHONPATH": str(self.target), "OMP_NUM_THREADS": "1"}
        done = run(*arguments, env=env, cwd=self.sources, timeout=900)
        assert may_fail or done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
        return done.stdout


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("example-plugins"))


def test_none_is_in_the_way_of_another(installed):
    output = installed.python("-m", "ccl_plugins", "doctor", may_fail=True)
    assert all(re.search(rf"{name} +0.1.0 +ok", output) for name in PACKAGES), output
    # They are installed without what they need, and not all of that is here.
    problems = output.partition("problems:\n")[2].splitlines()
    assert all(line.endswith("which is not installed") for line in problems), output


@pytest.mark.slow
def test_they_pass_their_own_tests(installed):
    """In one process, which starts Python and its two ranks once."""
    folders = [f"{name}/tests" for name in PACKAGES]
    options = f"[pytest]\naddopts = --import-mode=importlib\npythonpath = {' '.join(folders)}\n"
    (installed.sources / "pytest.ini").write_text(options)
    output = installed.python("-m", "pytest", "-p", "no:cacheprovider", *folders)
    for name in PACKAGES:
        assert re.search(rf"^{name}/tests/test_\w+\.py \.", output, re.MULTILINE), output


@pytest.mark.parametrize("name", PACKAGES)
def test_its_wheel_has_its_package_alone(installed, name):
    module = name.replace("-", "_")
    files = (installed.target / f"{module}-0.1.0.dist-info" / "RECORD").read_text().splitlines()
    folders = {line.partition("/")[0] for line in files}
    assert folders <= {module, f"{module}-0.1.0.dist-info"}, folders
