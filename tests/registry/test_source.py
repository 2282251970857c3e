"""Summaries are read without importing anything."""

from __future__ import annotations

import sys
import warnings

import pytest

from ccl_registry import Sources, source


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
        def method(self):
            """A method."""
            def inner(self):
                """Not reached."""
class Odd(dict, metaclass=type("A(B", (type,), {})):
    'A class with "quotes" in its head. \\d'

    def method(self):
        """A method of it."""
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
        ("inner.module:Ring.Inner.method", "A method."),
        ("inner.module:Ring.Inner.method.inner", ""),
        ("inner.module:Odd", r'A class with "quotes" in its head. \d'),
        ("inner.module:Odd.method", "A method of it."),
        ("inner.module:method", ""),
        ("inner.module:Silent", ""),
        ("inner.module:Nosuch", ""),
        ("inner.nosuch:Ring", ""),
        ("inner.module.deeper:Ring", ""),
        ("broken:Ring", ""),
    ],
)
def test_the_first_line_is_read_from_the_source(package, target, line):
    sources = Sources()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what Python says of another author's source stops nothing
        assert sources.summary(f"{package}.{target}") == line
    sources.summary(f"{package}.inner.module:Silent")
    assert sources.summary(f"{package}.{target}") == line


def test_a_file_that_is_no_utf_8_is_blank(package, tmp_path):
    (tmp_path / package / "latin.py").write_bytes(b"class A:\n    '\xe9'\n")
    assert Sources().summary(f"{package}.latin:A") == ""
    (tmp_path / package / "greek.py").write_bytes("class A:\n    '\u03c0'\n".encode())
    assert Sources().summary(f"{package}.greek:A") == "\u03c0"
    (tmp_path / package / "mark.py").write_bytes(b"\xef\xbb\xbfclass A:\n    'A.'\n")
    assert Sources().summary(f"{package}.mark:A") == "A."


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("inner.module:Nosuch", ""),
        ("broken:Ring", ""),
        ("inner.nosuch:Ring", "its module toy_unimported.inner.nosuch is missing"),
        ("inner.module.a:Ring", "its module toy_unimported.inner.module.a is missing"),
        ("nosuch.a.b:Ring", "its module toy_unimported.nosuch.a.b is missing"),
    ],
)
def test_a_module_that_is_missing_is_named_without_an_import(package, target, why):
    assert Sources().missing_module(f"{package}.{target}") == why


def test_a_module_that_exists_is_not_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "toy_strange", object())
    sources = Sources()
    for target in ("math:sqrt", "sys:exit", "toy_strange:A"):
        assert sources.missing_module(target) == sources.missing_module(target) == ""
    assert sources.missing_module("nosuch_top:A") == "its module nosuch_top is missing"
    assert sources.missing_module("toy_strange.a:A") == "its module toy_strange.a is missing"


def test_each_file_is_read_and_parsed_once(package, monkeypatch):
    read, parsed = [], []
    monkeypatch.setattr(source, "_text", lambda file: read.append(file) or "def a():\n    'A.'\n")
    monkeypatch.setattr(source, "_summaries", lambda text: parsed.append(text) or [("a", "A.")])
    sources = Sources()
    found = [sources.summary(f"{package}.inner.module:{name}") for name in ("a", "b", "a")]
    assert (found, len(read), len(parsed)) == (["A.", "", "A."], 1, 1)


@pytest.mark.parametrize("target", ["nosuch_top:A", "math:sqrt", "sys:exit", "zipimport:A"])
def test_what_cannot_be_read_is_blank(target):
    assert Sources().summary(target) == ""


def test_a_module_without_a_spec_is_blank(monkeypatch):
    monkeypatch.setitem(sys.modules, "toy_strange", object())
    assert Sources().summary("toy_strange:A") == ""
