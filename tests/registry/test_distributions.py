"""What is read of installed distributions, and what is said of metadata that cannot be read."""

from __future__ import annotations

import json

import pytest
from support.toy_registry import write_metadata

from ccl_registry.distributions import Remnant, installed
from ccl_registry.plugin import Entry, Plugin


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


@pytest.mark.parametrize(
    ("changed", "copies"), [("", 0), ("Version", 2), ("url", 2), ("editable", 2), ("file", 2)]
)
def test_sources_of_an_editable_installation_are_no_copy(path, changed, copies):
    first, second = path
    write(first, "toy_a", version="1")
    (installation,) = first.glob("*.dist-info")
    origin = {
        "url": (first if changed == "url" else second.parent).as_uri(),
        "dir_info": {"editable": changed != "editable"},
    }
    if changed != "file":
        (installation / "direct_url.json").write_text(json.dumps(origin))
    sources = second / "toy_a.egg-info"
    sources.mkdir()
    (sources / "entry_points.txt").write_text("[toy.kernel]\na = m:A\n")
    version = 2 if changed == "Version" else 1
    (sources / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: toy_a\nVersion: {version}\n")
    (found,) = installed("toy")[0]
    assert (found.version, len(found.copies)) == ("1", copies)


def test_a_build_in_a_source_folder_is_no_copy(path):
    first, second = path
    write(first, "toy_a")
    info = second / "toy_a.egg-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[toy.kernel]\na = m:A\n")
    found, remnants = installed("toy")
    assert [each.copies for each in found] == [()]
    assert remnants == (Remnant("", str(info), "it has no METADATA"),)


def test_a_finder_that_refuses_metadata_that_is_missing_leaves_a_remnant(path, monkeypatch):
    def metadata(self):
        raise FileNotFoundError("No package metadata was found.")

    monkeypatch.setattr("importlib.metadata.Distribution.metadata", property(metadata))
    info = path[0] / "toy_a.egg-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[toy.kernel]\na = m:A\n")
    assert installed("toy") == ([], (Remnant("", str(info), "it has no METADATA"),))


def test_an_earlier_copy_without_components_offers_nothing_and_is_no_failure(path):
    first, second = path
    write(first, "toy_a", "[other]\na = m:A\n", version="2")
    write(second, "toy_a")
    assert installed("toy")[0] == [Plugin("toy-a", "2", (), (), ())]


@pytest.mark.parametrize(
    ("entry_points", "head", "entries", "faults"),
    [
        (b"[toy]\na = m:A\n", None, (Entry("toy", "a", "m:A"),), ()),
        (b"[toys]\na = toy:A\n", None, None, ()),
        (b"", None, None, ()),
        (
            b"[toy.kernel]\nb\n",
            None,
            (),
            ("its entry_points.txt has a line that is not name = module:Class",),
        ),
        (
            b"[toy]\na = \xff\n",
            None,
            (),
            (
                "its entry_points.txt cannot be read (UnicodeDecodeError: 'utf-8' codec can't decode"
                " byte 0xff in position 10: invalid start byte)",
            ),
        ),
        (
            b"[toy]\na = m:A\n",
            "Name: toy_a\n",
            (Entry("toy", "a", "m:A"),),
            ("its METADATA has no Version",),
        ),
    ],
)
def test_a_distribution_is_a_plugin_by_its_entry_points(path, entry_points, head, entries, faults):
    write(path[0], "toy_a", head=head)
    (path[0] / "toy_a-1.dist-info" / "entry_points.txt").write_bytes(entry_points)
    version = "" if head else "1"
    expected = [] if entries is None else [Plugin("toy-a", version, (), entries, faults)]
    assert installed("toy") == (expected, ())


@pytest.mark.parametrize(
    ("name", "head", "remnant", "reason"),
    [
        ("~oy_a", b"Name: oy_a\nVersion: 1\n", "oy-a", "an uninstall left parts of it"),
        (
            "toy_b",
            b"Name: another\nVersion: 1\n",
            "another",
            "its METADATA names it another, but its folder has another name",
        ),
        ("toy_b", b"Name: a b\n", "", "its METADATA has no valid Name, 'a b'"),
        ("toy_b", b"Version: 1\n", "", "its METADATA has no Name"),
        (
            "toy_b",
            b"Name: \xe9\n",
            "",
            "its METADATA cannot be read (UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9 in"
            " position 6: invalid continuation byte)",
        ),
    ],
)
def test_what_is_left_of_a_distribution_has_its_folder_and_reason(
    path, name, head, remnant, reason
):
    folder = write(path[0], name)
    (path[0] / f"{name}-1.dist-info" / "METADATA").write_bytes(head)
    assert installed("toy") == ([], (Remnant(remnant, folder, reason),))
