"""What is read of installed distributions, and what is said of metadata that cannot be read."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path

import pytest
from support.toy_registry import write_metadata

from ccl_registry.distributions import Metadata, Remnant, installed
from ccl_registry.plugin import Entry, Plugin


class Stored(Distribution):
    """A distribution whose files are given; without a path of its own."""

    def __init__(self, files, folder="/nowhere"):
        self.files_of, self.folder = files, folder

    def read_text(self, filename):
        found = self.files_of.get(filename)
        if isinstance(found, Exception):
            raise found
        return found

    def locate_file(self, path):
        return Path(self.folder) / path


def of(entry_points="", head="Name: a\nVersion: 1\n", **given):
    return Metadata(Stored({"entry_points.txt": entry_points, "METADATA": head}, **given))


def test_entry_points_are_the_lines_of_their_groups():
    text = """
# a comment
; another
[b]
  z = m:Z
y= m:Y = 1
[ a ]
x =m:X
"""
    found = of(text)
    assert found.entries == (
        Entry("a", "x", "m:X"),
        Entry("b", "y", "m:Y = 1"),
        Entry("b", "z", "m:Z"),
    )
    assert not found.faults


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[a]\nb\n", "line 2 of its entry_points.txt must be name = module:Class: 'b'"),
        ("[a]\n = m:A\n", "line 2 of its entry_points.txt must be name = module:Class: '= m:A'"),
        ("[a]\nb =\n", "line 2 of its entry_points.txt must be name = module:Class: 'b ='"),
        ("[a\nb = m:B\n", "line 1 of its entry_points.txt stands before any [group]: '[a'"),
        ("a]\n", "line 1 of its entry_points.txt stands before any [group]: 'a]'"),
        ("\nb = m:B\n", "line 2 of its entry_points.txt stands before any [group]: 'b = m:B'"),
    ],
)
def test_a_line_that_is_no_entry_point_is_quoted_with_its_number(text, fault):
    found = of(text + "[kept]\nz = m:Z\n")
    assert Entry("kept", "z", "m:Z") in found.entries
    assert found.faults[0] == fault


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("[toy.kernel]\na = m:A\n", True),
        ("[toy]\na = m:A\n", True),
        ("[toy.kernel.deep]\n", True),
        ("[toys]\na = m:A\n", False),
        ("[other]\na = toy:A\n", False),
        ("[other]\na = m:A\n", False),
        ("[other]\ntoy.kernel\n", True),
        ("[other]\nkernel\n[another]\ntoy = m:A\n", False),
        ("[other]\na = toy.m:A\nkernel\n", False),
        ("", False),
        (None, False),
        (OSError("gone"), True),
    ],
)
def test_a_distribution_concerns_a_project_by_its_groups(text, ours):
    assert of(text).concerns("toy") is ours


@pytest.mark.parametrize(
    ("head", "name", "version", "unnamed", "faults"),
    [
        ("Name: A_b.C\nVersion: 1.0\n", "a-b-c", "1.0", "", []),
        ("name:a\r\nVERSION:\t1.0 \r\n\r\nName: b\r\n", "a", "1.0", "", []),
        ("Summary: Name: b\nName: a\nName: c\nVersion: 1\n", "a", "1", "", []),
        ("Name: a\n \t\nVersion: 1\n", "a", "", "", ["its METADATA has no Version"]),
        (
            "Version: x\nName: a b\n",
            "",
            "",
            "its METADATA has no valid Name, 'a b'",
            ["its METADATA has no valid Version, 'x'"],
        ),
        ("Version: 1\n", "", "1", "its METADATA has no Name", []),
        ("", "", "", "it has no METADATA", []),
        ("\ufeffName: a\nVersion: 2", "a", "2", "", []),
    ],
)
def test_name_and_version_are_fields_of_the_head(head, name, version, unnamed, faults):
    found = of(head=head)
    assert (found.name, found.version, found.unnamed) == (name, version, unnamed)
    assert found.faults == faults
    assert found.has_metadata is bool(head)


def test_a_long_name_or_version_is_quoted_without_its_middle():
    found = of(head=f"Name: {'!' * 500}\nVersion: {'!' * 500}\n")
    assert len(found.unnamed) == len("its METADATA has no valid Name, ") + 80
    assert found.version == ""
    assert len(found.faults[0]) == len("its METADATA has no valid Version, ") + 80


def test_an_old_distribution_has_its_fields_in_another_file():
    found = Metadata(Stored({"PKG-INFO": "Name: old\nVersion: 1\n"}))
    assert (found.name, found.version) == ("old", "1")
    found = Metadata(Stored({"METADATA": "Name: new\n", "PKG-INFO": "Name: old\n"}))
    assert found.name == "new"


def test_a_file_that_cannot_be_read_is_a_fault_with_its_reason():
    found = of(PermissionError(13, "Permission denied"))
    assert found.entries == ()
    assert found.faults == ["its entry_points.txt cannot be read: [Errno 13] Permission denied"]
    wrong = UnicodeDecodeError("utf-8", b"[g]\n\xffa = m:A\0\n", 4, 5, "wrong")
    found = of(wrong)
    assert found.entries == (Entry("g", "\ufffda", "m:A"),)
    assert found.faults == ["its entry_points.txt is not UTF-8"]


def test_the_place_of_a_distribution_is_its_folder(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = of(folder=str(tmp_path / "link"))
    assert found.place == found.folder == str((tmp_path / "real").resolve())
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert of(folder=str(tmp_path / "loop")).place == str(tmp_path / "loop")
    assert of(folder="/no\0where").place == r"/no\x00where"
    long = f"/{'a' * 200}" * 6
    assert len(of(folder=long).place) == len(of(folder=long).folder) == 1000
    assert len(of(folder=f"{long}\0").place) == 1000 + len(r"\x00") - 1


def write(folder, name, entry_points="[toy.kernel]\na = m:A\n", head=None, version="1"):
    write_metadata(folder, name, version, entry_points)
    info = folder / f"{name}-{version}.dist-info"
    if head is not None:
        (info / "METADATA").write_text(head)
    return str(info)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Two folders on the path, the first of which counts."""
    for each in ("second", "first"):
        (tmp_path / each).mkdir()
        monkeypatch.syspath_prepend(tmp_path / each)
    return tmp_path / "first", tmp_path / "second"


def test_distributions_are_read_whatever_stands_before_them_on_the_path(path):
    first, second = path
    write(first, "unrelated", "[other]\na = m:A\n")
    nameless = write(first, "nameless", head="Version: 1\n")
    write(second, "toy_b", "[toy.kernel]\nb = m:B\na = m:A\n", version="2")
    entries = (Entry("toy.kernel", "a", "m:A"), Entry("toy.kernel", "b", "m:B"))
    assert installed("toy") == (
        [Plugin("toy-b", "2", (), entries, ())],
        (Remnant("", nameless, "its METADATA has no Name"),),
    )


def test_copies_are_told_apart_and_the_first_counts(path):
    first, second = path
    write(first, "toy_a", version="2")
    write(second, "toy_a", "[toy.kernel]\nold = m:A\n")
    copies = (f"2 in {first.resolve()}", f"1 in {second.resolve()}")
    entries = (Entry("toy.kernel", "a", "m:A"),)
    assert installed("toy")[0] == [Plugin("toy-a", "2", copies, entries, ())]


def test_a_folder_that_is_twice_on_the_path_holds_one_copy(path, monkeypatch, tmp_path):
    (tmp_path / "again").symlink_to(path[0])
    monkeypatch.syspath_prepend(tmp_path / "again")
    write(path[0], "toy_a")
    (found,) = installed("toy")[0]
    assert found.copies == ()


def test_a_build_in_a_source_folder_is_no_copy(path):
    first, second = path
    write(first, "toy_a")
    info = second / "toy_a.egg-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[toy.kernel]\na = m:A\n")
    found, remnants = installed("toy")
    assert [each.copies for each in found] == [()]
    assert remnants == (Remnant("", str(info), "it has no METADATA"),)


def test_an_earlier_copy_without_components_offers_nothing_and_is_no_failure(path):
    first, second = path
    write(first, "toy_a", "[other]\na = m:A\nno entry point\n", version="2")
    write(second, "toy_a")
    copies = ()
    assert installed("toy")[0] == [Plugin("toy-a", "2", copies, (), ())]


def test_faults_are_those_of_the_copy_that_counts_each_once(path):
    first, second = path
    write(first, "toy_a", "[toy.kernel]\nb\n", head="Name: toy_a\n")
    write(second, "toy_a", "[toy.kernel]\nc\n")
    (found,) = installed("toy")[0]
    assert found.faults == (
        "line 2 of its entry_points.txt must be name = module:Class: 'b'",
        "its METADATA has no Version",
    )
    assert found.version == ""


def test_what_is_left_of_a_distribution_has_its_folder_and_reason(path):
    infos = [
        write(path[0], "~oy_a", head="Name: oy_a\nVersion: 1\n"),
        write(path[0], "toy_b", head="Name: another\nVersion: 1\n"),
    ]
    assert set(installed("toy")[1]) == {
        Remnant("oy-a", infos[0], "an uninstall left parts of it"),
        Remnant("another", infos[1], "its METADATA names it another, and its folder otherwise"),
    }
