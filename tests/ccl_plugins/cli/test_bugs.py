"""A bug in a component keeps its traceback, and the component is named; mistakes stay one line."""

from __future__ import annotations

import json

import pytest
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.conditions import Label
from ccl_plugins.evaluators import KNN
from ccl_plugins.kernels import RBF
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.training.fitting import CannotBegin

pytestmark = pytest.mark.usefixtures("in_a_folder_with_data")


def train(**tables):
    text = TOML
    for name, value in tables.items():
        lines = [line for line in text.splitlines() if not line.startswith(f"{name} =")]
        text = "\n".join([*lines, f"{name} = {value}", ""])
    with open("x.toml", "w") as file:
        file.write(text)
    return main(["train", "x.toml", "--quiet"])


class Broken(InfoNCE):
    """Fails in a training step."""

    def loss(self, pairs):
        return len(None)


class Strict(InfoNCE):
    """Refuses what it is given in a training step."""

    def loss(self, pairs):
        raise ValueError("no such pairs")


class Divides(InfoNCE):
    """Divides by zero, which is no loss that is not finite."""

    def loss(self, pairs):
        return pairs.anchors.sum() / (1 // 0)


class BrokenKernel(RBF):
    """Fails where it is called."""

    def __call__(self, a, b):
        raise TypeError("no such kernel")


class BrokenEvaluator:
    """Fails where it measures."""

    def __call__(self, train, test):
        raise KeyError("no such metric")


class Fails:
    """A condition that fails when it is fitted.

    Args:
        mistake: Whether it says that its data are wrong.
    """

    refresh, value_type = "never", "categorical"

    def __init__(self, mistake: bool = False) -> None:
        self.mistake = mistake

    def fit(self, split, embed, previous):
        if self.mistake:
            raise ValueError("a row has no value")
        return len(None)


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    for kind, cls in (
        ("objective", Broken),
        ("objective", Strict),
        ("objective", Divides),
        ("kernel", BrokenKernel),
        ("evaluator", BrokenEvaluator),
        ("condition", Fails),
    ):
        ccl.local(kind, cls)


@pytest.mark.parametrize(
    ("tables", "error", "note"),
    [
        ({"objective": '"local/broken"'}, TypeError, "raised by objective local/broken"),
        ({"objective": '"local/strict"'}, ValueError, "raised by objective local/strict"),
        ({"objective": '"local/divides"'}, ZeroDivisionError, "raised by objective local/div"),
        (
            {
                "objective": '{use = "soft_infonce", kernel = "local/brokenkernel"}',
                "condition": '{use = "column", name = "age"}',
            },
            TypeError,
            "raised by kernel local/brokenkernel",
        ),
        (
            {"objective": '"supcon"', "condition": '"local/fails"'},
            TypeError,
            "raised by condition local/fails",
        ),
        ({"evaluate": '["local/brokenevaluator"]'}, KeyError, "raised by evaluator local/brok"),
    ],
)
def test_a_bug_keeps_its_traceback_and_names_the_component(tables, error, note, capsys):
    assert train(**tables) == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.count(f"\n{error.__name__}: ") == said.count(f"\n{note}") == 1
    assert said.splitlines()[-1].startswith(f"ccl: x.toml: {error.__name__}: ")


def test_a_built_in_is_named_in_another_author_s_loop_too():
    given = {
        "dataset": ccl.dataset("features", train="train.safetensors", test="test.safetensors"),
        "backbone": ccl.backbone("mlp", in_features=4, hidden=[8]),
        "transform": "noise",
    }
    pipeline = ccl.Pipeline(**given, objective=Broken(), evaluate=["knn"])
    with pytest.raises(TypeError) as raised:
        pipeline.fit(out="run", batch_size=16, progress=False)
    assert raised.value.__notes__ == ["raised by objective local/broken"]


def test_a_table_that_cannot_be_made_is_a_mistake_in_one_line(capsys):
    condition = '{use = "local/fails", mistake = true}'
    assert train(objective='"supcon"', condition=condition) == 2
    assert capsys.readouterr().err == (
        "ccl: x.toml: a row has no value (raised by condition local/fails)\n"
    )
    with pytest.raises(CannotBegin, match="a row has no value"):
        ccl.Pipeline.from_toml("x.toml").fit(out="run", progress=False)


def test_with_json_the_standard_output_has_nothing_else(monkeypatch, capsys):
    assert train(objective='"supcon"', condition='"label"') == 0
    for cls, name in ((KNN, "__call__"), (Label, "fit")):
        quiet = getattr(cls, name)
        loud = lambda *given, quiet=quiet: print("loud") or quiet(*given)  # noqa: E731
        monkeypatch.setattr(cls, name, loud)
    for words in (["evaluate", "runs/x"], ["information", "x.toml"]):
        capsys.readouterr()
        assert main([*words, "--json"]) == 0
        printed = capsys.readouterr()
        assert json.loads(printed.out)
        assert "loud" in printed.err
