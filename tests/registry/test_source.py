"""Summaries are read without importing anything."""

from __future__ import annotations

import sys

import pytest

from registry import Sources


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that must not be imported."""
    folder = tmp_path / "toy_unimported"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('imported')\n")
    (folder / "inner" / "__init__.py").write_text("raise AssertionError('imported')\n")
    (folder / "inner" / "module.py").write_text(
        '''
raise AssertionError("imported")
class Ring:
    """A ring around the origin.

    More.
    """
    class Inner:
        r"""A ring in a ring."""
class Silent:
    pass
def function():
    """A function.

    More.
    """
'''
    )
    (folder / "broken.py").write_text("class Ring(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "toy_unimported"
    assert "toy_unimported" not in sys.modules


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("inner.module:Ring", "A ring around the origin."),
        ("inner.module:Ring.Inner", "A ring in a ring."),
        ("inner.module:function", "A function."),
        ("inner.module:Silent", ""),
        ("inner.module:Nosuch", ""),
        ("inner.nosuch:Ring", ""),
        ("inner.module.deeper:Ring", ""),
        ("broken:Ring", ""),
    ],
)
def test_the_first_line_is_read_from_the_source(package, target, line):
    assert Sources().summary(f"{package}.{target}") == line


@pytest.mark.parametrize("target", ["nosuch_top:A", "math:sqrt", "sys:exit", "zipimport:A"])
def test_what_cannot_be_read_is_blank(target):
    assert Sources().summary(target) == ""


def test_a_module_without_a_spec_is_blank(monkeypatch):
    monkeypatch.setitem(sys.modules, "toy_strange", object())
    assert Sources().summary("toy_strange:A") == ""
