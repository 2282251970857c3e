"""A run that was made with objects of a session is read back where these are given again."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.datasets.annotated import Annotated
from ccl_plugins.experiments.train import check_installed
from ccl_plugins.protocols import Kernel, Measurement
from ccl_plugins.training.same_data import OtherData

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class MyData:
    """Vectors with an age."""

    def __init__(self, seed=0):
        self.seed = seed

    def __call__(self, split):
        draw = torch.Generator().manual_seed(self.seed + (split == "test"))
        n = 48 if split == "train" else 16
        columns = {"label": torch.arange(n) % 2, "age": torch.linspace(0, 1, n)}
        return Annotated(torch.randn(n, 4, generator=draw), columns)

    def schema(self):
        return {"label": "categorical", "age": "continuous"}


class Net(nn.Module):
    """A layer."""

    num_features = 6

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 6)

    def forward(self, x):
        return self.layer(x)


class Ring:
    """A kernel of one radius."""

    positive_definite = True

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = radius

    def __call__(self, a, b):
        return torch.exp(-torch.cdist(a.float(), b.float()) / self.radius)


class Ages:
    """The age."""

    refresh = "never"
    value_type = "continuous"
    column = "age"

    def fit(self, split, embed, previous):
        return split.metadata["age"][:, None]


class Count:
    """How many samples there are."""

    def __call__(self, train, test):
        return [Measurement("count/n", float(len(test.features)))]


def compose(**changes):
    own = {
        "dataset": MyData(),
        "backbone": Net(),
        "method": ccl.method("simclr", hidden=8, dim=4),
        "transform": "noise",
        "objective": ccl.objective("soft_infonce", kernel=ccl.local("kernel", Ring, radius=2.0)),
        "condition": Ages(),
        "evaluate": [ccl.evaluator("knn", k=5), Count()],
        "fit": {"epochs": 2, "batch_size": 16, "workers": 0, "max_steps": 3},
    }
    return ccl.Pipeline(**{**own, **changes})


def objects(**changes):
    """The objects of `compose`, made anew."""
    own = {
        "dataset": MyData(),
        "backbone": Net(),
        "objective.kernel": Ring,
        "condition": Ages(),
        "evaluate.1": Count(),
    }
    return {**own, **changes}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with objects of its own in five places, its features and its numbers."""
    run = compose().fit(out=tmp_path_factory.mktemp("own") / "run", progress=False)
    return run.path, run.encode(X), run.evaluate()


def test_a_run_with_objects_of_ones_own_is_read_back_with_them(trained):
    path, features, numbers = trained
    given = objects()
    untrained = given["backbone"].layer.weight.clone()
    run = ccl.load(path, objects=given)
    assert run.encode(X).equal(features)
    assert run.evaluate() == numbers
    assert run.validate().keys() == numbers.keys()
    assert run.pipeline.to_dict().items() <= run.record.items()
    assert run.parts.method.encode(X).equal(features)
    assert given["backbone"].layer.weight.equal(untrained), "an object stays as it is"
    assert ccl.Run(path, objects=objects()).recorded.built_conditions.keys() == {"condition"}


@pytest.mark.filterwarnings("ignore:the condition 'condition' cannot be read back")
def test_what_is_not_asked_for_may_be_missing(trained):
    path, features, numbers = trained
    assert ccl.load(path, objects={"backbone": Net()}).encode(X).equal(features)
    some = {name: objects()[name] for name in ("dataset", "backbone", "evaluate.1")}
    assert ccl.load(path, objects=some).evaluate() == numbers


@pytest.mark.parametrize("own", [True, False])
def test_a_run_is_resumed_with_its_objects(tmp_path, own):
    """By the loaded run's pipeline, and by one that is composed again."""
    path = tmp_path / "run"
    compose().fit(out=path, progress=False)
    pipeline = ccl.load(path, objects=objects()).pipeline if own else compose()
    assert pipeline.fit(out=path, resume=True, max_steps=5, progress=False).progress == (5, 5)
    check_installed(path)  # as `ccl train --resume` does, which composes the objects itself


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda run: run.encode(X), 'objects={"backbone": net}); it also had dataset, objective.k'),
        (lambda run: run.splits, 'objects={"dataset": mydata}); it also had'),
        (lambda run: run.recorded.built_evaluators, 'objects={"evaluate.1": count}); it also had'),
        (
            lambda run: run.pipeline,
            'objects={"dataset": mydata, "backbone": net, "objective.kernel": ring, "evaluate.1": count,'
            ' "condition": ages})',
        ),
    ],
)
def test_what_is_missing_is_named_with_the_call_that_gives_it(trained, ask, said):
    with pytest.raises(ccl.PluginFailed) as raised:
        ask(ccl.load(trained[0]))
    assert "made with objects of a session" in str(raised.value)
    assert f'give the same objects again, with ccl.load("{trained[0]}", {said}' in str(raised.value)


def test_the_command_line_says_the_call_too(trained, capsys):
    assert main(["evaluate", str(trained[0])]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f'ccl.load("{trained[0]}", objects={{"dataset": mydata}})' in line


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"datset": MyData()}, ccl.InvalidConfig, "unknown key 'datset'. Did you mean 'dataset'?"),
        ({"objective.kernal": Ring}, ccl.InvalidConfig, "Did you mean 'objective.kernel'?"),
        (
            {"method": 3},
            ccl.InvalidConfig,
            "method is method:ccl-plugins/simclr, which is found by its",
        ),
        ({"evaluate.0": Count()}, ccl.InvalidConfig, "evaluate.0 is evaluator:ccl-plugins/knn"),
        (
            {"dataset": Ages()},
            ccl.InvalidConfig,
            "dataset: the run was made with dataset:local/mydata, but this is dataset:local/ages",
        ),
        (
            {"dataset": "color_digits"},
            ccl.InvalidConfig,
            "this is dataset:ccl-plugins/color_digits",
        ),
        ({"dataset": None}, ccl.InvalidConfig, "dataset: must be the name of a dataset or a table"),
        (
            {"dataset": MyData},
            ccl.InvalidConfig,
            "with an object of MyData, whose parameters it did",
        ),
        (
            {"objective.kernel": Ring(2.0)},
            ccl.InvalidConfig,
            "local/ring by its class and recorded",
        ),
        (
            {"objective.kernel": ccl.local("kernel", Ring, radius=3.0)},
            ccl.InvalidConfig,
            "objective.kernel: the run was made with other parameters: radius: 2.0 -> 3.0",
        ),
        (
            {"evaluate.1": type("Count", (), {})()},
            ccl.InvalidParameter,
            "evaluate.1: Count has no __call__",
        ),
    ],
)
def test_an_object_that_is_not_the_runs_is_refused(trained, changes, error, said):
    with pytest.raises(error) as raised:
        ccl.load(trained[0], objects=objects(**changes))
    assert str(raised.value).startswith("objects: ")
    assert said in str(raised.value)


def test_objects_are_a_table_and_places_may_be_written_in_full(trained):
    with pytest.raises(ccl.InvalidConfig, match="objects must be a mapping of places to objects"):
        ccl.load(trained[0], objects=[MyData()])
    given = objects()
    given["conditions.condition"], given["evaluate[1]"] = (
        given.pop("condition"),
        given.pop("evaluate.1"),
    )
    given["objective.kernel"] = ccl.local("kernel", Ring, radius=2.0)
    assert ccl.load(trained[0], objects=given).pipeline.choices["dataset"].spec.id == "local/mydata"


def test_another_data_set_of_the_same_class_is_refused(trained):
    with pytest.raises(OtherData, match="train split: images differ"):
        _ = ccl.load(trained[0], objects=objects(dataset=MyData(seed=5))).splits


def test_several_conditions_have_their_names_as_places(tmp_path):
    pipeline = compose(
        objective=ccl.objective("soft_infonce", kernel=Ring(), on="age"),
        condition=None,
        conditions={"age": Ages()},
        evaluate=["knn"],
        fit={"max_steps": 1, "batch_size": 16, "workers": 0},
    )
    (tmp_path / "pipeline.json").write_text(json.dumps(pipeline.to_dict()))
    with pytest.raises(ccl.PluginFailed, match=r'"conditions\.age": ages'):
        _ = ccl.load(tmp_path).pipeline
    given = {"conditions.age": Ages(), "objective.kernel": Ring()}
    given |= {"dataset": MyData(), "backbone": Net()}
    assert ccl.load(tmp_path, objects=given).pipeline.to_dict() == pipeline.to_dict()


class Both:
    """A kernel of two.

    Args:
        one: A kernel.
    """

    positive_definite = True

    def __init__(self, one: Kernel) -> None:
        self.one = one

    def __call__(self, a, b):
        return self.one(a, b)


def test_objects_inside_of_others_are_given_with_them(tmp_path):
    kernel = ccl.local("kernel", Both, one=ccl.local("kernel", Ring, radius=2.0))
    pipeline = compose(objective=ccl.objective("soft_infonce", kernel=kernel))
    (tmp_path / "pipeline.json").write_text(json.dumps(pipeline.to_dict()))
    given = objects(**{"objective.kernel": Both})
    with pytest.raises(ccl.InvalidConfig, match=r"the class takes objective\.kernel\.one: give it"):
        ccl.load(tmp_path, objects=given)
    again = ccl.load(tmp_path, objects={**given, "objective.kernel.one": Ring}).pipeline
    assert again.to_dict() == pipeline.to_dict()
    assert again.choices["objective"].build().kernel.one.radius == 2.0
