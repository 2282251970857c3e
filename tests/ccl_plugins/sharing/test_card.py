"""A card says what the record and the measurements say, and computes nothing."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from types import SimpleNamespace

import pytest
from huggingface_hub import ModelCard
from support import plates_apart

import ccl_plugins as ccl
from ccl_plugins.experiments.export import describe
from ccl_plugins.experiments.paths import without_paths
from ccl_plugins.protocols import Measurement
from ccl_plugins.sharing.card import ABOUT, Shared, card


def shared(run, **given):
    format = "timm" if "timm" in run.record["backbone"]["use"] else "torch"
    record, places = without_paths(run.record)
    return Shared(run, describe(run, format), record, format, [*ABOUT], places, **given)


def section(text, title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]


@pytest.fixture(scope="module")
def text(timm_run):
    return card(shared(timm_run, repository="me/model", license="mit"))


@pytest.fixture(scope="module")
def small(small_run):
    return card(shared(small_run))


def test_its_front_matter_is_read_by_the_hub(text, timm_run):
    data = ModelCard(text).data
    assert (data.license, data.library_name, data.model_name) == ("mit", "timm", "model")
    assert data.pipeline_tag == "image-feature-extraction"
    assert {"ccl-plugins", "guided"} <= {*data.tags}
    found = {each.metric_type: each.metric_value for each in data.eval_results}
    assert found == timm_run.metrics
    assert {each.dataset_split for each in data.eval_results} == {"test"}


def test_without_license_and_measurements_nothing_of_them_is_claimed(small):
    data = ModelCard(small).data
    assert (data.license, data.library_name, data.eval_results) == (None, None, None)
    assert "None was given" in section(small, "License")
    assert "Nothing was measured" in section(small, "What the features tell")
    assert "measured on" not in section(small, "Data")


def test_it_says_what_the_data_was(text, small):
    data = section(text, "Data")
    assert "trained on the training split: 32 images" in data
    assert "measured on the test split: 16 images" in data
    assert "`label` and `age`" in data
    assert "subset of color_digits" in section(small, "Data")


def test_of_classes_that_training_lacks_it_publishes_no_number(tmp_path):
    evaluate = ["linear", *plates_apart.NAMING, plates_apart.of_plate("held")]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the evaluator .* is left out|the measured samples")
        run = plates_apart.fit(tmp_path, *evaluate, condition="label", objective="supcon")
    written = card(shared(run))
    results = {each.metric_type for each in ModelCard(written).data.eval_results}
    assert results == {"linear/top1", "held-plate/top1"}
    assert "linear-plate" not in written
    assert "named right by a linear classifier fitted to others of them" in written


def test_it_says_what_was_done_with_a_condition(text, small):
    condition = section(text, "Condition")
    assert "- `age` is given by `column`" in condition
    assert "- `age` is suppressed by a guide, `regression`, with weight 2.0." in condition
    assert "There is none" in section(small, "Condition")
    assert "- `infonce`: InfoNCE: tell another view" in section(small, "Condition")


def test_each_measurement_has_its_interval_its_chance_and_what_was_before(text, timm_run):
    told = section(text, "What the features tell")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in told.splitlines()
        if "/" in line and line.startswith("|")
    ]
    after, before = timm_run.measurements(), timm_run.measurements("before")
    assert {row[1].strip("`") for row in rows} == after.keys() == before.keys()
    for column, name, now, then, chance, _ in rows:
        one, other = after[name.strip("`")], before[name.strip("`")]
        numbers = [float(each) for each in re.findall(r"-?[\d.]+(?:e[+-]?\d+)?", now)]
        assert numbers == [float(f"{each:.4g}") for each in (one.value, *one.interval)]
        assert then.startswith(f"{other.value:.4g} (")
        assert float(chance) == float(f"{one.chance:.2g}")
        assert column == f"`{one.column}`"
    kept, leaks = told.split("### What a condition reads")
    assert "knn/top1" in kept
    assert "age/r2" in leaks
    assert "an untrained backbone" in told


def test_its_limits_and_its_training_are_said(text, small_run):
    assert "Measured on the test split of `table` only" in section(text, "Limits")
    assert "It began with random weights" in section(text, "Training")
    given = shared(small_run)
    given.record["backbone"]["checkpoint_path"] = "weights.pt"
    found = card(given)
    assert "It began with weights of a file, `weights.pt`." in section(found, "Training")
    assert "have a license of their own" in section(found, "License")


def test_weights_of_timm_are_the_base_model(timm_run):
    run = ccl.load(timm_run.path)
    given = shared(run)
    run.backbone.model.pretrained_cfg["hf_hub_id"] = "timm/resnet10t.c3_in1k"
    given.record["backbone"]["pretrained"] = True
    found = card(given)
    assert ModelCard(found).data.base_model == "timm/resnet10t.c3_in1k"
    assert "that of pretrained weights" in section(found, "What the features tell")


def test_data_of_the_hub_is_named(small_run):
    given = shared(small_run, license="mit")
    given.record["dataset"] = {"use": "dataset:ccl-plugins/hf", "path": "uoft-cs/cifar10"}
    assert ModelCard(card(given)).data.datasets == ["uoft-cs/cifar10"]


def test_a_finding_of_training_is_told(small_run, monkeypatch):
    line = {"label": "small", "line": "the loss stays at chance (step 3)"}
    monkeypatch.setattr("ccl_plugins.report.runs.Runs.findings", lambda _: iter([line]))
    assert "something looked wrong: the loss stays at chance" in section(
        card(shared(small_run)), "Limits"
    )


EVIL = '<img src="http://tracker/x.png"> [click](http://evil) `y` | x \n\n# A heading\n'


def test_whatever_columns_runs_and_plug_ins_are_called_the_card_shows_it_as_words(
    timm_run, monkeypatch
):
    """No HTML, no link, no heading, no further cell of a table."""
    given = shared(ccl.load(timm_run.path), repository="me/model")
    given.record.update(
        json.loads(json.dumps(given.record).replace('"age"', json.dumps(EVIL))),
        dataset={**given.record["dataset"], "columns": [EVIL]},
        conditions={EVIL: {"use": "condition:ccl-plugins/column", "name": EVIL}},
    )
    given.record["data"]["train"]["columns"][EVIL] = []
    given.places.append(EVIL)
    measured = {
        f"{EVIL}{role}": Measurement(
            EVIL, 0.5, interval=(0.1, 0.9), sentence=EVIL, column=EVIL, role=role
        )
        for role in ("label", "condition", "other")
    }
    monkeypatch.setattr(type(given.run), "measurements", lambda *_: measured)
    monkeypatch.setattr(
        "ccl_plugins.report.runs.Runs.findings", lambda _: iter([{"line": f"at {EVIL}"}])
    )
    monkeypatch.setattr("ccl_plugins.report.runs.Runs.versions", lambda _: {EVIL: EVIL})
    monkeypatch.setattr("ccl_plugins.sharing.card._summary", lambda _: EVIL)
    monkeypatch.setattr(
        "ccl_plugins.sharing.card.answers",
        lambda _: [SimpleNamespace(sentences=[(None, f"of {EVIL}")])],
    )
    text = card(given)
    data = ModelCard(text).data
    assert {each.metric_name for each in data.eval_results} == {EVIL}
    _, _, body = text.split("---\n", 2)
    body = re.sub(r"```.*?```|(`+)(?!`).*?(?<!`)\1(?!`)", "", body, flags=re.DOTALL)
    assert not re.search(r"<(?!/?code>)|\[click\]|http://|^# A heading", body, re.MULTILINE)
    rows = [line for line in body.splitlines() if line.startswith("|")]
    assert len(rows) == 9
    assert {row.count("|") for row in rows} == {7}
    assert body.count("A heading") >= 12


def test_the_name_of_a_run_is_a_heading_of_words(small_run, tmp_path):
    run = ccl.load(shutil.copytree(small_run.path, tmp_path / "<b>*x*"))
    assert "\n# &lt;b&gt;&#42;x&#42;\n" in card(shared(run))
    assert ModelCard(card(shared(run))).data.model_name == "<b>*x*"
