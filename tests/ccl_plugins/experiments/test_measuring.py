"""What a run measures: features once for all evaluators, intervals, and a part of train to choose on."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import plates_apart
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data
from support.vector_pipeline import ROWS, make_pipeline

import ccl_plugins as ccl
from ccl_plugins.backbones import MLP
from ccl_plugins.cli import main
from ccl_plugins.evaluators.columns import numbered_as
from ccl_plugins.experiments import Run
from ccl_plugins.experiments.curves import curves
from ccl_plugins.experiments.measure import held_out, measure, role_of
from ccl_plugins.metadata.groups import validation_rows
from ccl_plugins.protocols import Frozen, Measurement, UndefinedMetric
from ccl_plugins.training.features import frozen_features

HALF = Measurement("half/mean", 0.5, "a half", 9, (0.25, 0.75), "color", None, "lower", 0.3)


class Halves:
    """Measurements with and without an interval, and the sizes of the splits."""

    def __call__(self, train, test):
        sizes = {"size/train": len(train.features), "size/test": len(test.features)}
        return [HALF, *(Measurement(name, size) for name, size in sizes.items())]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    pipeline = make_pipeline(evaluate=["knn", Halves()], epochs=1)
    return pipeline.fit(out=tmp_path_factory.mktemp("runs") / "run", progress=False)


def test_evaluators_of_projections_measure_after_training(tmp_path):
    evaluate = ["rankme", "alignment", "uniformity"]
    run = make_pipeline(evaluate=evaluate, epochs=1).fit(out=tmp_path / "run", progress=False)
    names = {f"projections/{name}" for name in evaluate}
    assert run.before.keys() == names == run.evaluate().keys()


def test_each_task_of_a_launcher_writes_what_it_measures(run, monkeypatch):
    """``srun -n 4`` with a run for each task: no group of processes, and numbers above 0."""
    monkeypatch.setenv("SLURM_PROCID", "1")
    (run.path / "metrics.json").unlink(missing_ok=True)
    metrics, validated = run.evaluate(), run.validate()
    assert json.loads((run.path / "metrics.json").read_text()) == metrics
    measured = json.loads((run.path / "measurements.json").read_text())
    assert {entry["name"] for entry in measured["validation"]} == {*validated}


def test_another_data_set_s_words_have_the_class_ids_of_the_training_split():
    """A data set numbers its own words: cat is class 0 where there is no ape."""
    train = Frozen(
        torch.eye(3), {"label": torch.arange(3)}, vocabulary={"label": ["ape", "cat", "dog"]}
    )
    ids, words = torch.tensor([0, 2, -1, 1]), ["cat", "cow", "dog"]
    other = Frozen(torch.eye(4), {"label": ids, "age": ids}, vocabulary={"label": words})
    found = numbered_as(train, other)
    assert found.metadata["label"].tolist() == [1, 2, -1, 3]
    assert found.metadata["age"] is ids
    assert found.vocabulary == {"label": ["ape", "cat", "dog", "cow"]}


def test_validation_data_without_the_first_class_is_measured_by_its_words(run, monkeypatch):
    run, split = again(run), run.dataset("test")
    chosen = (split.metadata["label"] == 1).nonzero().flatten()
    train = replace(run.features("train"), vocabulary={"label": ["ape", "cat"]})
    frozen = run.features("test").take(chosen)
    other = {**frozen.metadata, "label": torch.zeros(len(chosen), dtype=torch.long)}
    monkeypatch.setattr(run, "_frozen", lambda *_: train)
    expected = measure(run.pipeline, train, frozen, evaluators=run_knn(run))["knn/top1"].value
    given = replace(frozen, metadata=other, vocabulary={"label": ["cat"]})
    monkeypatch.setattr(run, "_features_of", lambda *_: given)
    assert run.validate(on=lambda split: split)["knn/top1"] == expected


def test_a_network_of_ones_own_begins_each_run_as_it_was_given(tmp_path):
    """Two runs of one session neither go on with each other's weights nor share them."""
    choices = make_pipeline().choices | {"backbone": MLP(4, hidden=(8,))}
    fit = {"epochs": 2, "batch_size": 16, "workers": 0}
    pipeline, images = ccl.Pipeline(**choices, evaluate=["knn"], fit=fit), ROWS["features"]
    first = pipeline.fit(out=tmp_path / "first", progress=False)
    features = first.encode(images)
    same = pipeline.fit(out=tmp_path / "same", progress=False)
    assert torch.equal(same.encode(images), features)
    other = pipeline.fit(out=tmp_path / "other", progress=False, seed=1)
    assert other.before == first.before
    assert not torch.equal(other.encode(images), features)
    assert torch.equal(first.encode(images), features)


def run_knn(run):
    return list(zip(run.pipeline.evaluators, run.pipeline.built_evaluators, strict=True))[:1]


def again(run):
    return Run(run.path, run.pipeline)


def test_features_are_extracted_once_for_all(run, monkeypatch):
    run, calls = again(run), []

    def counting(method, split, *args, **options):
        calls.append(len(split))
        return frozen_features(method, split, *args, **options)

    monkeypatch.setattr("ccl_plugins.experiments.measure.frozen_features", counting)
    found = run.features("train")
    run.evaluate()
    run.validate()
    run.evaluate()
    assert calls == [32, 32], "one of each split"
    assert run.features("train") is found
    assert found.features.dtype == torch.float32
    assert found.features.shape == (32, 8)
    torch.testing.assert_close(found.features, run.encode(ROWS["features"]))
    torch.testing.assert_close(found.metadata["label"], ROWS["label"])
    with pytest.raises(ValueError, match="split must be one of 'train', 'test', not 'val'"):
        run.features("val")


def test_metrics_are_plain_numbers_and_what_they_say_lies_beside_them(run):
    metrics = run.evaluate()
    assert type(metrics["half/mean"]) is float
    assert run.metrics == metrics == json.loads(run.folder.metrics.read_text())
    found = again(run).measurements()
    assert found["half/mean"] == replace(HALF, role="other")
    assert found["knn/top1"].role == "label"
    assert again(run).measurements("before")["half/mean"] == found["half/mean"]
    stored = json.loads(run.folder.measurements.read_text())
    assert stored.keys() == {"before", "after", "validation", "costs"}
    assert stored["after"][1]["interval"] == [0.25, 0.75]
    with pytest.raises(ValueError, match="'before', 'after', 'validation', not 'test'"):
        run.measurements("test")


def test_numbers_that_are_not_those_of_the_measurements_are_not_left(run, monkeypatch):
    """A process that is killed between the two files leaves no metrics beside other measurements."""
    run.evaluate()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ccl_plugins.files.run_folder.RunFolder.write", killed)
    with pytest.raises(KeyboardInterrupt):
        run.evaluate()
    assert not run.folder.metrics.exists()
    monkeypatch.undo()
    assert run.evaluate() == json.loads(run.folder.metrics.read_text())


@pytest.mark.parametrize(
    ("conditions", "role"),
    [
        ({}, "other"),
        ({"color": ccl.condition("instance")}, "condition"),
        ({"z": ccl.condition("column", name="color", value_type="continuous")}, "condition"),
        ({"z": ccl.condition("label")}, "other"),
    ],
)
def test_the_role_of_a_column_is_that_in_the_pipeline(conditions, role):
    built = {name: choice.build() for name, choice in conditions.items()}
    assert role_of("color", built) == role
    assert role_of("label", built) == "label"
    assert role_of(None, built) is None


@pytest.mark.parametrize(
    "found", [{"a/b": 0.5}, [0.5], Measurement("a/b", 0.5), [Measurement("a/b", "0.5")], None]
)
def test_what_is_no_list_of_measurements_is_refused(found):
    given = Frozen(torch.zeros(2, 1), {})
    with pytest.raises(ValueError, match=r"the evaluator function must return a list .*, not "):
        measure(make_pipeline(), given, given, evaluators=[("x", lambda train, test: found)])


def test_a_validation_measures_a_part_of_train_that_evaluators_were_not_fitted_to(run):
    found = run.validate()
    assert (found["size/train"], found["size/test"]) == (28, 4)
    assert again(run).validation == found
    assert again(run).measurements("validation")["size/test"].value == 4
    train = run.features("train")
    fit, held = held_out(train)
    rows, held_rows = validation_rows(32)
    assert sorted([*rows.tolist(), *held_rows.tolist()]) == list(range(32))
    torch.testing.assert_close(held.features, train.features[held_rows])
    torch.testing.assert_close(fit.metadata["label"], train.metadata["label"][rows])


def test_a_run_is_measured_by_other_evaluators_without_a_trace(run):
    files = {path: path.read_bytes() for path in run.path.iterdir() if path.is_file()}
    assert run.measure(ccl.evaluator("few_shot", samples=2), "knn").keys() == {
        "few_shot_2/top1",
        "knn/top1",
    }
    assert run.measure(Halves(), validate=True)["size/test"].value == 4
    (on_validation,) = run.measure("knn", validate=True).values()
    assert on_validation.sentence.startswith("the share of the validation samples whose label")
    assert run.measure() == {}
    assert {path: path.read_bytes() for path in run.path.iterdir() if path.is_file()} == files
    with pytest.raises(
        ValueError, match="LinearProbe reads the column 'age', and the data set has"
    ):
        run.measure(ccl.evaluator("linear", column="age"))
    with pytest.raises(ccl.RegistryError, match=r"evaluators\[0\].*clustering"):
        run.measure("clusterings")


def test_the_validation_part_has_all_classes_where_rows_repeat_them_in_turn():
    _, held = validation_rows(1437)
    assert len(held) == 144
    assert held.equal(validation_rows(1437)[1])
    assert (held % 10).unique().tolist() == list(range(10))
    with pytest.raises(ValueError, match="two training samples or more, but there are 1"):
        validation_rows(1)


def test_weights_trained_further_have_no_older_measurements(copied_run):
    pipeline = make_pipeline()
    run = pipeline.fit(out=copied_run, resume=True, progress=False)
    assert run.metrics, "nothing was left to train"
    run.validate()
    run = pipeline.fit(out=copied_run, resume=True, progress=False, epochs=3)
    assert (run.metrics, run.validation) == ({}, {})
    assert run.before.keys() == {"knn/top1"}
    assert not run.folder.metrics.exists()
    assert run.evaluate() == ccl.load(copied_run).metrics
    run.validate()
    run.folder.clear()
    assert [*run.path.glob("*.json")] == []


def test_two_evaluators_that_give_the_same_metric_are_refused(tmp_path):
    twice = [ccl.evaluator("knn", k=3), ccl.evaluator("knn", k=5)]
    with pytest.raises(ValueError, match="two evaluators give 'knn/top1', the second is KNN"):
        make_pipeline(evaluate=twice, epochs=1).fit(out=tmp_path / "run", progress=False)


class Undefined:
    """A metric that no data defines."""

    def __call__(self, train, test):
        raise UndefinedMetric("column 'x' has the same value everywhere")


def test_an_undefined_metric_is_left_out_with_a_warning_and_the_others_are_kept(tmp_path):
    pipeline = make_pipeline(evaluate=[Undefined(), "knn"], epochs=1)
    with pytest.warns(UserWarning, match="evaluator local/undefined.* is left out: column 'x'"):
        run = pipeline.fit(out=tmp_path / "run", progress=False)
    assert run.before.keys() == {"knn/top1"}
    with pytest.warns(UserWarning, match="evaluator local/undefined.* is left out: column 'x'"):
        assert run.evaluate().keys() == {"knn/top1"}


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.filterwarnings("ignore:the measured samples are of . groups", "ignore:the eval.* held")
def test_of_classes_that_training_lacks_no_number_is_written(tmp_path, words):
    evaluate = ["linear", *plates_apart.NAMING, plates_apart.of_plate("held")]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run = plates_apart.fit(tmp_path, *evaluate, words=words)
    lines = [str(each.message) for each in found if "column='plate'" in str(each.message)]
    assert {line.partition("(")[0] for line in lines} == {
        f"the evaluator {name}" for name in ("linear", "knn", "mlp")
    }
    assert all("training has no sample of the 2 classes that 80" in line for line in lines)
    assert run.metrics.keys() == run.before.keys() == {"linear/top1", "held-plate/top1"}
    assert run.metrics["held-plate/top1"] > 0.9
    assert run.measurements()["held-plate/top1"].within
    for file in ("metrics.json", "measurements.json"):
        assert "linear-plate" not in (tmp_path / file).read_text()
    assert {name for name in curves(run) if "plate" in name} == {
        "evaluation/held-plate/top1",
        "monitor/held-plate/top1",
    }
    with pytest.warns(UserWarning, match="no sample of the 3 classes that 120 measured") as found:
        assert run.validate().keys() == {"linear/top1", "held-plate/top1"}
    said = " ".join(str(each.message) for each in found)
    assert said.count("no sample of the 3 classes that 120 measured") == 3


def test_other_data_is_measured_on_the_classes_that_training_has(tmp_path):
    same = {"plates": ([0, 1, 2], [0, 1, 2]), "words": True, "group": None}
    run = plates_apart.fit(tmp_path, *map(plates_apart.of_plate, ("linear", "knn")), **same)
    rows = {"train": plates_apart.rows([7], 0, True), "test": plates_apart.rows([1, 7], 5, True)}
    other = ccl.create("dataset", "features", **rows)  # of whose words p1 is the first
    with pytest.warns(UserWarning, match="40 of 80 samples are left out, of one class that train"):
        found = run.validate(on=other)
    assert found["linear-plate/top1"] > 0.9
    told = run.measurements("validation")["knn-plate/top1"]
    assert (told.samples, told.chance) == (40, 1.0)
    assert "40 of 80 samples are left out, of one class that training lacks" in told.sentence


def test_a_number_that_is_not_finite_is_left_out_and_said():
    class Lost:
        def __call__(self, train, test):
            return [HALF, Measurement("lost/all", float("nan"))]

    pipeline = make_pipeline(evaluate=[Lost()])
    frozen = Frozen(ROWS["features"], {"label": ROWS["label"]})
    with pytest.warns(UserWarning, match="lost/all of the evaluator local/lost.* is nan, and left"):
        assert [*measure(pipeline, frozen, frozen, pipeline.chosen_evaluators)] == [HALF.name]


def test_the_table_of_a_single_run_shows_its_intervals(in_a_folder_with_data, capsys):
    Path("x.toml").write_text(TOML)
    assert main(["train", "x.toml", "--quiet"]) == 0
    known = ccl.load("runs/x").measurements()["knn/top1"]
    low, high = known.interval
    assert low < high
    shown = capsys.readouterr().out
    assert f"{low:.4g}" in shown
    assert f"{high:.4g}" in shown
    assert main(["evaluate", "runs/x", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["interval"] == [low, high]
    assert (row["sentence"], row["chance"]) == (known.sentence, known.chance)


def test_a_constant_column_is_told_in_a_line_and_the_table_has_the_rest(
    in_a_folder_with_data, capsys
):
    n, constant = 8, {"age": torch.full((8,), 0.5), "label": torch.arange(8) % 2}
    save_file(
        {"features": torch.randn(n, 4), **constant, "dose": constant["age"] * torch.nan},
        "test.safetensors",
    )
    known = load_file("train.safetensors")
    save_file({**known, "dose": known["age"].clone()}, "train.safetensors")
    probes = '["knn", {use = "regression", column = "age"}, {use = "regression", column = "dose"}]'
    Path("x.toml").write_text(TOML.replace('["knn"]', probes))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")  # as outside tests
        assert main(["train", "x.toml", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "knn/top1" in shown.out
    assert "age" not in shown.out
    lines = [str(each.message) for each in found if "age" in str(each.message)]
    assert len(lines) == 2, "before and after training"
    doses = [
        str(each.message) for each in found if "'dose' has no value for any" in str(each.message)
    ]
    assert len(doses) == 2
    for line in lines:
        assert (
            "left out: column 'age' has the same value, 0.5, in all of 8 measured samples" in line
        )
    assert json.loads(Path("runs/x/metrics.json").read_text()).keys() == {"knn/top1"}
