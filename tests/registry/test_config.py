"""Choices as plain data, and back."""

from __future__ import annotations

import tomllib

import pytest

from ccl_registry import (
    InvalidConfig,
    InvalidParameter,
    UnknownComponent,
    check_keys,
    from_json,
    read_toml,
    to_json,
)


def test_toml_reads_as_choices_with_the_place_of_a_mistake(toy):
    text = 'use = "composed"\nkernel = "rbf"\nother = {use = "rbf", scale = 2}\n'
    choice = toy.read("objective", tomllib.loads(text), where="run.toml: objective")
    assert choice.params["other"].params["scale"] == 2.0
    bad = tomllib.loads(text.replace('"rbf",', '"rgb",'))
    with pytest.raises(UnknownComponent) as raised:
        toy.read("objective", bad, where="run.toml: objective")
    assert str(raised.value).startswith("run.toml: objective.other: no kernel 'rgb'. Did you mean")


@pytest.mark.parametrize("value", [None, 3, True, [1], (1,), 0.5, b"rbf"])
def test_what_stands_for_no_component_is_quoted(toy, value):
    message = f"must be the name of a kernel or a table, not {value!r}"
    with pytest.raises(InvalidConfig) as raised:
        toy.read("kernel", value, where="objective")
    assert str(raised.value) == f"objective: {message}"
    with pytest.raises(InvalidConfig) as raised:
        toy.read("kernel", value)
    assert str(raised.value) == message


def test_a_class_of_ones_own_that_lacks_a_value_is_refused_with_its_place(toy):
    class Wide:
        def __init__(self, width: int) -> None: ...

    for where, place in (("objective.kernel", "objective.kernel: "), ("", "")):
        with pytest.raises(InvalidParameter) as raised:
            toy.read("kernel", Wide, where=where)
        assert str(raised.value).startswith(f"{place}kernel local/wide")


def test_a_table_without_use_says_what_it_has(toy):
    for table, has in (({"name": "rbf", "use": 3}, "name, use"), ({}, "nothing")):
        with pytest.raises(InvalidConfig) as raised:
            toy.read("kernel", table, where="kernel")
        assert str(raised.value) == f'kernel: a kernel needs use = "its name"; it has {has}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = \n", "(at line 2, column 5): 'b ='"),
        ("a = 1\nb = ", "Invalid value (at end of document)"),
        ("a = 1\n[t]\nx = 1\nx = 2\n", "Cannot overwrite a value (at line 4, column 6): 'x = 2'"),
    ],
)
def test_a_toml_mistake_is_quoted_with_its_line(tmp_path, text, message):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(InvalidConfig) as raised:
        read_toml(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert str(raised.value).endswith(message)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for name in ("nosuch.toml", "at line 3.toml"):
        path = tmp_path / name
        with pytest.raises(InvalidConfig) as raised:
            read_toml(path)
        assert str(raised.value) == f"{path}: [Errno 2] No such file or directory: '{path}'"
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    with pytest.raises(InvalidConfig, match=r"latin\.toml"):
        read_toml(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[1]", "must hold a JSON object, not '[1]'"),
        ("3", "must hold a JSON object, not '3'"),
        (f'"{"x" * 60}"', f"must hold a JSON object, not '\"{'x' * 39}'"),
    ],
)
def test_json_that_is_no_record_is_named(text, message):
    with pytest.raises(InvalidConfig) as raised:
        from_json(text, "record.json")
    assert str(raised.value) == f"record.json: {message}"


def test_a_record_is_indented_json_that_ends_its_line():
    assert to_json({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}\n'


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_file_may_be_forty_levels_deep_and_no_deeper(tmp_path, opening, closing):
    toml = {"[": "[", '{"a":': "{a="}[opening]
    for deep in (40, 41):
        value = opening * (deep - 1) + "1" + closing * (deep - 1)
        text, path = f'{{"a": {value}}}', tmp_path / "deep.toml"
        path.write_text(f"a = {value.replace(opening, toml)}")
        if deep == 40:
            assert from_json(text, "record.json") == read_toml(path)
            continue
        with pytest.raises(InvalidConfig) as raised:
            from_json(text, "record.json")
        message = "tables and lists are more than 40 levels deep"
        assert str(raised.value) == f"record.json: {message}"
        with pytest.raises(InvalidConfig) as raised:
            read_toml(path)
        assert str(raised.value) == f"{path}: {message}"


def test_an_unknown_key_is_quoted_with_its_place_and_the_nearest():
    check_keys({"epochs": 1}, ["epochs", "seed"], "run.toml: fit")
    with pytest.raises(InvalidConfig) as raised:
        check_keys({"epoch": 1}, ["epochs", "seed"], "run.toml: fit")
    assert str(raised.value) == "run.toml: fit: unknown key 'epoch'. Did you mean 'epochs'?"
    with pytest.raises(InvalidConfig) as raised:
        check_keys({"seed": 1, "zzz": 1}, iter(["epochs", "seed"]), "fit")
    assert str(raised.value) == "fit: unknown key 'zzz'. Known: epochs, seed."


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


def test_a_configuration_in_another_encoding_is_told_to_be_utf_8(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("# \u00e9\nx = 1\n", encoding="cp1252")
    with pytest.raises(InvalidConfig, match=r"a\.toml: .* a configuration is text in UTF-8"):
        read_toml(path)
