"""A run whose objective reads several conditions through one kernel."""

from __future__ import annotations

import tomllib

import pytest
import torch
from support.resuming import StopAfter
from support.vector_pipeline import ROWS

import ccl_plugins as ccl
from ccl_plugins.drawing.by_kernel import by_kernel
from ccl_plugins.experiments.curves import curves
from ccl_plugins.experiments.train import RunInterrupted
from ccl_plugins.figures import KernelMatrix, Similarity
from ccl_plugins.figures.kernel_matrix import in_joint_order
from ccl_plugins.figures.samples import kernel_reading
from ccl_plugins.kernels import RBF, Delta, Product

AGE = torch.randn(32, generator=torch.Generator().manual_seed(1))
POSE = torch.randn(32, 2, generator=torch.Generator().manual_seed(2))
POSE[[3, 8]] = torch.nan
PARTS = """
backbone = {use = "mlp", in_features = 4, hidden = [8]}
method = {use = "moco_v2", hidden = 8, dim = 4, queue_size = 32, momentum = 0.9}
transform = "noise"
evaluate = ["knn"]
fit = {epochs = 2, batch_size = 16, workers = 0, checkpoint_every = 1}
monitor = {every_epochs = 1}

[conditions]
species = "label"
age = {use = "column", name = "age"}
pose = {use = "column", name = "pose", missing = "ignore"}

[objective]
use = "mixture"

[[objective.objectives]]
use = "fair_cclk"
[objective.objectives.kernel]
use = "product"
on = {species = "delta", age = {use = "rbf", scale = "median"}}

[[objective.objectives]]
use = "weaklysup_cclk"
[objective.objectives.kernel]
use = "sum"
on = {age = "linear", pose = "linear"}
weights = {age = 0.5, pose = 2.0}
"""


def make_pipeline(objective: str = ""):
    rows = {**ROWS, "age": AGE, "pose": POSE}
    dataset = ccl.create("dataset", "features", train=rows, test=rows)
    given = tomllib.loads(PARTS)
    if objective:
        given["objective"] = tomllib.loads(f"objective = {objective}")["objective"]
    return ccl.Pipeline.from_dict({**given, "dataset": dataset})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.warns(UserWarning, match="missing in 2 of 32"):
        return make_pipeline().fit(out=tmp_path_factory.mktemp("runs") / "joint", progress=False)


def test_a_run_reads_several_conditions_through_one_kernel(run):
    assert sorted(run.parts.objective.conditions) == ["age", "pose", "species"]
    queue = [name for name in run.parts.method.state_dict() if "condition:" in name]
    assert len(queue) == 3  # a row for each condition and none for what is made of them
    record = run.record["objective"]["objectives"]
    assert record[1]["kernel"]["weights"] == {"age": 0.5, "pose": 2.0}
    again = tomllib.loads(run.record.to_toml())["objective"]["objectives"]
    assert again[0]["kernel"]["on"] == record[0]["kernel"]["on"]


def test_a_run_measures_the_kernel_on_all_that_it_reads(run):
    found = curves(run)
    for of in ("species&age", "age&pose"):
        assert found[f"condition/{of}/surviving_weight"][-1][1] > 0
        assert found[f"monitor/{of}/effective_neighbors"][-1][1] > 0
    assert "condition/species/surviving_weight" not in found


def test_figures_show_the_kernel_of_all_that_it_reads(run):
    found = kernel_reading(run, "age")
    assert found.names == ("species", "age")
    ids, age = ROWS["label"], AGE
    figure = KernelMatrix()({"run": run})
    drawn = [each.get_array() for axes in figure.axes for each in axes.images]
    drawn = [torch.tensor(each) for each in drawn if each.ndim == 2]
    some = figures_rows(run)
    order = in_joint_order([ids[some], age[some]])
    ids, age = ids[some][order], age[some][order]
    assert ids.tolist() == sorted(ids.tolist())
    matrix = Delta()(ids, ids) * RBF("median")(age, age)
    torch.testing.assert_close(drawn[0], matrix)
    expected = matrix.double() @ torch.linalg.inv(matrix.double() + 0.01 * torch.eye(len(ids)))
    torch.testing.assert_close(drawn[1].double(), expected, rtol=1e-4, atol=1e-4)
    assert "label and age" in Similarity()({"run": run}).axes[0].get_xlabel()


def figures_rows(run):
    from ccl_plugins.figures.samples import sampled

    return sampled(32, run.pipeline.settings.batch_size)


def test_a_resumed_run_is_the_unbroken_one(run, tmp_path):
    whole = run.parts.method.state_dict()
    pipeline, stops = make_pipeline(), [StopAfter(3)]
    with pytest.warns(UserWarning, match="missing in 2"), pytest.raises(RunInterrupted):
        pipeline.fit(out=tmp_path / "run", progress=False, callbacks=stops)
    with pytest.warns(UserWarning, match="missing in 2"):
        resumed = make_pipeline().fit(out=tmp_path / "run", progress=False, resume=True)
    for name, tensor in resumed.parts.method.state_dict().items():
        torch.testing.assert_close(tensor, whole[name], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (
            '{use = "fair_cclk", kernel = {use = "product", on = {species = "delta", size = "rbf"}}}',
            "FairCCLK reads the condition 'size'",
        ),
        (
            '{use = "fair_cclk", kernel = {use = "product", on = {age = "rbf"}}, on = "age"}',
            r"the conditions that its kernel names \(age\): leave out on='age'",
        ),
        (
            '{use = "fair_cclk", kernel = {use = "sum",'
            ' on = {age = {use = "product", on = {pose = "rbf"}}}}}',
            "one kernel names 'pose' itself",
        ),
        ('{use = "fair_cclk", kernel = {use = "product"}}', "give exactly one, not none"),
    ],
)
def test_what_does_not_fit_is_refused_when_a_pipeline_is_composed(objective, message):
    with pytest.raises(ValueError, match=message):
        make_pipeline(objective)


def test_a_sampler_is_refused_a_kernel_of_several_conditions():
    kernel = Product(on={"species": Delta(), "age": RBF()})
    with pytest.raises(ValueError, match=r"draws by one condition, and its kernel names several"):
        by_kernel(AGE, True, kernel)
