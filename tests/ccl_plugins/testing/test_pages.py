"""The code on the page about the kit runs, and the kit runs on the components of all pages."""

from __future__ import annotations

import ast
import contextlib
import re
import sys
import textwrap
from types import ModuleType
from unittest import SkipTest

import pytest
from support.imports import ROOT

import ccl_plugins as ccl
from ccl_plugins.testing import check

PAGE = ROOT / "docs" / "how-to" / "test-a-plugin.md"

SOURCE = '''
import torch

from ccl_plugins.datasets import InMemory
from ccl_plugins.kernels import RBF
from ccl_plugins.samplers import Uniform


class Ring(RBF):
    """A ring around the origin."""


class Bootstrap(Uniform):
    """Draws with replacement."""

    def __init__(self, *, size: int, batch_size: int, seed: int) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed)
        self.total = size, batch_size

    def batches(self, epoch, start=0):
        for number in range(start, len(self)):
            draws = np.random.default_rng((self.seed, epoch, number))
            drawn = draws.integers(self.total[0], size=self.total[1])
            yield torch.from_numpy(drawn)


class Photos:
    """Images of one gray each with labels from a file."""

    def __init__(self, path: str = "labels.txt") -> None:
        self.path = path

    def __call__(self, split):
        if split not in ("train", "test"):
            raise ValueError(split)
        label = torch.tensor([int(word) for word in open(self.path).read().split()])
        gray = torch.arange(len(label)) * 20 + 10 * (split == "test")
        images = gray[:, None, None, None].expand(-1, 3, 8, 8).byte()
        return InMemory(images, label, {"label": label})

    def schema(self):
        return {"label": "categorical"}
'''


def test_the_how_to_runs(install_plugin):
    points = {
        "ccl_plugins.kernel": {"ring": "ccl_ring_of_page:Ring"},
        "ccl_plugins.sampler": {"bootstrap": "ccl_ring_of_page:Bootstrap"},
        "ccl_plugins.dataset": {"photos": "ccl_ring_of_page:Photos"},
    }
    install_plugin("ccl-ring", points, {"ccl_ring_of_page.py": SOURCE})
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    (mark,) = names["test_conformance_of_all"].pytestmark
    assert {parameter.id for parameter in mark.args[1] if parameter.marks} == {
        "sampler/bootstrap-ranks_share_no_sample",
        "sampler/bootstrap-an_epoch_visits_every_sample_once",
    }
    for parameter in mark.args[1]:
        if parameter.id.startswith("dataset/photos-"):
            with contextlib.suppress(SkipTest):  # of a check, not of this test
                names["test_conformance_of_all"](*parameter.values)


COMPONENTS = {
    "Brightness": "condition",
    "Photometry": "condition",
    "Ring": "kernel",
    "Bell": "kernel",
    "Bootstrap": "sampler",
}
"""The kind of each class on a page that does not check it itself."""

OTHERS = {"SimCLR", "MoCo", "File", "Partners"}
"""Classes on pages that are no components: of lightly's and torch's, and what components make."""

PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]


def code_of(page):
    """The imports and the classes of a page's code."""
    blocks = re.findall(r"^( *)```python\n(.*?)^\1```", page.read_text("utf-8"), re.M | re.S)
    body = ast.parse("\n".join(textwrap.dedent(code) for _, code in blocks)).body
    # Of the package that the tutorial writes, nothing is installed.
    imports = [each for each in body if isinstance(each, ast.Import | ast.ImportFrom)]
    left_out = ("__future__", "ccl_ring")
    imports = [each for each in imports if getattr(each, "module", "") not in left_out]
    return imports, {each.name: each for each in body if isinstance(each, ast.ClassDef)}


def classes():
    """Each page and class on it that is not checked there, as ``check(ccl.local("kernel", Ring))``."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for name in code_of(page)[1] if "```python" in text else ():
            if not re.search(rf'check\(ccl\.local\("\w+", {name}\b', text) and name not in OTHERS:
                yield pytest.param(page, name, id=f"{page.stem}-{name}")


@pytest.mark.parametrize(("page", "name"), [*classes()])
def test_every_component_on_a_page_keeps_the_laws(page, name, monkeypatch):
    imports, found = code_of(page)
    # A page is one session, whose classes can be pickled; the compiler keeps modules by their names.
    session = ModuleType(f"classes_{page.stem.replace('-', '_')}_{name}")
    monkeypatch.setitem(sys.modules, session.__name__, session)
    code = ast.Module([*imports, *found.values()], [])
    exec(compile(code, str(page), "exec"), vars(session))
    check(ccl.local(COMPONENTS[name], vars(session)[name]))
