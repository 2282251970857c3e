"""The documents are true: their code runs, and nothing on offer is without its heading."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from ccl_plugins.cli import _parser
from ccl_plugins.hooks import Hooks
from ccl_plugins.kinds import KINDS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", DOCS / "tutorial" / "first-pipeline.md"]


def headings(page: str) -> str:
    return "\n".join(re.findall(r"^#+ .*$", (DOCS / page).read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)  # a page is one session


def test_the_loop_of_one_s_own_runs(capsys):
    source = (ROOT / "examples" / "lightly_loop.py").read_text()
    exec(compile(source, "lightly_loop.py", "exec"), {"__name__": "__main__"})
    losses = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert len(losses) == 10
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_every_kind_has_its_heading(kind):
    assert f"## {kind}" in headings("reference/kinds.md")


@pytest.mark.parametrize("hook", [name for name in vars(Hooks) if name.startswith("ccl_")])
def test_every_hook_has_its_heading_with_its_arguments(hook):
    parameters = getattr(Hooks, hook).__code__.co_varnames[
        1 : getattr(Hooks, hook).__code__.co_argcount
    ]
    assert f"## {hook}({', '.join(parameters)})" in headings("reference/hooks.md")


def test_every_command_has_its_heading():
    commands = _parser()._subparsers._group_actions[0].choices
    for name in commands:
        assert f"## ccl {name}" in headings("reference/cli.md")


def test_the_reference_is_fresh():
    path = DOCS / "reference" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate", path)
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert generate.TARGET.read_text() == generate.render(), (
        "run python docs/reference/generate.py, and pip install -e . after a change of entry points"
    )


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"
