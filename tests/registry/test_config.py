"""Choices as plain data, and back."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from registry import InvalidConfig, UnknownComponent, from_json, known_keys, read_toml, to_json


def test_a_record_holds_every_parameter_as_json_has_it(toy):
    choice = toy.choose(
        "kernel", "many", number=3, path=Path("a") / "b", pair=(1, 2), free={"a": (1, None)}
    )
    assert choice.record() == {
        "use": "kernel:toy-host/many",
        "number": 3,
        "flag": False,
        "name": "a",
        "rate": None,
        "mode": None,
        "path": "a/b",
        "sizes": [1, 2],
        "pair": [1.0, 2.0],
        "options": None,
        "either": 1,
        "free": {"a": [1, None]},
        "unhinted": None,
        "unresolvable": None,
    }


def test_a_record_read_again_is_an_equal_choice(toy):
    choice = toy.choose(
        "objective",
        "composed",
        kernel=toy.choose("kernel", "rbf", scale=0.1),
        several=["rbf", {"use": "many", "number": 2, "path": "x"}],
        named={"a": "toy-a/rbf"},
        free={"use": "kernel:toy-b/ring"},
    )
    text = to_json(choice.record())
    again = toy.read("objective", from_json(text, "text"))
    assert again == choice
    assert hash(again) == hash(choice)
    assert again.record() == choice.record()
    assert choice != toy.choose("objective", "composed")


def test_a_value_that_is_no_data_is_an_error_that_names_its_path(toy):
    inner = toy.choose("kernel", "many", number=1, free={"f": [1, len]})
    choice = toy.choose("objective", "composed", several=["rbf", inner])
    with pytest.raises(InvalidConfig) as raised:
        choice.record()
    assert str(raised.value) == (
        "several[1].free.f[1]: a builtin_function_or_method cannot be written to a config; in Python,"
        " give the built component in place of a choice"
    )


def test_a_choice_reads_as_it_would_be_written(toy):
    kernel = toy.choose("kernel", "toy-a/rbf", scale=0.1)
    assert repr(kernel) == "toy-a/rbf(scale=0.1)"
    assert repr(toy.choose("kernel", "rbf")) == "rbf(scale=1.0)"


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
    with pytest.raises(
        InvalidConfig, match='kernel: a kernel needs use = "its name"; there is name'
    ):
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
