"""Choices as plain data, and back."""

from __future__ import annotations

import tomllib

import pytest

from registry import InvalidConfig, UnknownComponent, from_json, known_keys, read_toml


def test_toml_reads_as_choices_with_the_place_of_a_mistake(toy):
    text = 'use = "composed"\nkernel = "rbf"\nother = {use = "rbf", scale = 2}\n'
    choice = toy.read("objective", tomllib.loads(text), where="run.toml: objective")
    assert choice.params["other"].params["scale"] == 2.0
    bad = tomllib.loads(text.replace('"rbf",', '"rgb",'))
    with pytest.raises(UnknownComponent) as raised:
        toy.read("objective", bad, where="run.toml: objective")
    assert str(raised.value).startswith("run.toml: objective.other: no kernel 'rgb'. Did you mean")


@pytest.mark.parametrize("value", [None, 3, True, [1], 0.5])
def test_what_stands_for_no_component_is_quoted(toy, value):
    with pytest.raises(
        InvalidConfig, match="objective: must be the name of a kernel or a table, not"
    ):
        toy.read("kernel", value, where="objective")


def test_a_table_without_use_says_what_it_has(toy):
    with pytest.raises(InvalidConfig, match='kernel: a kernel needs use = "its name"; it has name'):
        toy.read("kernel", {"name": "rbf"}, where="kernel")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = \n", "(at line 2, column 5): 'b ='"),
        ("a = 1\n[t]\nx = 1\nx = 2\n", "Cannot overwrite a value (at line 4, column 6): 'x = 2'"),
    ],
)
def test_a_toml_mistake_is_quoted_with_its_line(tmp_path, text, message):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(InvalidConfig) as raised:
        read_toml(path)
    assert str(raised.value).startswith(str(path))
    assert message in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidConfig, match=r"nosuch\.toml"):
        read_toml(tmp_path / "nosuch.toml")
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    with pytest.raises(InvalidConfig, match=r"latin\.toml"):
        read_toml(tmp_path / "latin.toml")


@pytest.mark.parametrize("text", ["{", "[1]", "3"])
def test_json_that_is_no_record_is_named(text):
    with pytest.raises(InvalidConfig, match=r"record\.json"):
        from_json(text, "record.json")


def test_an_unknown_key_is_quoted_with_its_place_and_the_nearest():
    known_keys({"epochs": 1}, ["epochs", "seed"], "run.toml: fit")
    with pytest.raises(InvalidConfig) as raised:
        known_keys({"epoch": 1}, ["epochs", "seed"], "run.toml: fit")
    assert str(raised.value) == "run.toml: fit: unknown key 'epoch'. Did you mean 'epochs'?"


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 100_000, "a = " + "[" * 60 + "]" * 60, ".".join(["a"] * 3000) + " = 1"]
)
def test_toml_that_is_too_deep_is_a_mistake_in_its_file(tmp_path, text):
    path = tmp_path / "deep.toml"
    path.write_text(text)
    with pytest.raises(
        InvalidConfig, match=r"deep\.toml: tables and lists are more than 40 levels"
    ):
        read_toml(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 60 + "1" + "}" * 60])
def test_json_that_is_too_deep_is_a_mistake_in_its_file(text):
    with pytest.raises(InvalidConfig, match=r"record\.json: "):
        from_json(text, "record.json")


def test_a_number_of_five_thousand_digits_is_a_mistake_in_its_file(tmp_path):
    (tmp_path / "long.toml").write_text(f"a = {'9' * 5000}")
    with pytest.raises(InvalidConfig, match=r"long\.toml: "):
        read_toml(tmp_path / "long.toml")


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    (tmp_path / "mark.toml").write_bytes(b"\xef\xbb\xbfa = 1")
    assert read_toml(tmp_path / "mark.toml") == {"a": 1}
    assert from_json('\ufeff{"a": 1}', "record.json") == {"a": 1}


def test_the_home_folder_is_found_in_a_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run.toml").write_text("a = 1")
    assert read_toml("~/run.toml") == {"a": 1}
