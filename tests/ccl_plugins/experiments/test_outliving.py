"""A run outlives its loss: what needs the backbone and the data alone works without its plug-ins."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments.export import export
from ccl_plugins.explore.viewer_file import embed

pytestmark = pytest.mark.filterwarnings("ignore:.*was changed; the record in")

IMAGES = torch.arange(4 * 3 * 32 * 32).reshape(4, 3, 32, 32).remainder(255).to(torch.uint8)

TRAIN = """
import torch
import ccl_plugins as ccl
pipeline = ccl.Pipeline(
    dataset=ccl.dataset("subset", of="color_digits", train=64, test=32),
    backbone="lenet5",
    method=ccl.method("simclr", hidden=8, dim=4),
    transform=ccl.transform("simclr", size=32, jitter=0.0, gray=0.0, blur=0.0),
    objective=ccl.objective("soft_infonce", kernel="ccl-twice/copied"),
    condition=ccl.condition("column", name="color"),
    evaluate=["knn", {{"use": "regression", "column": "color"}}],
)
run = pipeline.fit(out={out!r}, epochs=1, batch_size=32, workers=0, progress=False)
run.evaluate()
images = torch.load({images!r})
torch.save((run.encode(images), run.project(images)), {images!r})
"""


@pytest.fixture(scope="module")
def trained(installed_plugins, tmp_path_factory):
    """A run whose kernel's plug-in is gone, and the features and projections of ``IMAGES`` before."""
    folder = tmp_path_factory.mktemp("outliving")
    torch.save(IMAGES, folder / "images.pt")
    code = TRAIN.format(out=str(folder / "run"), images=str(folder / "images.pt"))
    installed_plugins.python(code, plugins="twice_2")
    return folder / "run", *torch.load(folder / "images.pt")


@pytest.fixture
def changed(trained, tmp_path):
    """Change a copy of the run's record, as if a plug-in had changed since; gives the run."""

    def change(edit):
        folder = shutil.copytree(trained[0], tmp_path / "changed")
        file = ccl.load(folder).folder.record
        record = json.loads(file.read_text())
        edit(record)
        file.write_text(json.dumps(record))
        return ccl.load(folder)

    return change


def test_a_run_is_used_without_the_plug_in_of_its_kernel(trained, tmp_path, capsys):
    folder, features, projections = trained
    run = ccl.load(folder)
    stored = run.metrics
    torch.testing.assert_close(run.encode(IMAGES), features)
    torch.testing.assert_close(run.project(IMAGES), projections)
    assert run.evaluate() == stored
    assert run.measure("clustering")
    assert (export(run, tmp_path / "export") / "backbone.pt2").is_file()
    assert embed(run, tmp_path / "all.parquet", neighbors=0, method="pca").is_file()
    with pytest.raises(ccl.PluginFailed, match=r"needs the plug-in ccl-twice 2\.0") as raised:
        _ = run.pipeline
    assert "can still encode" in raised.value.__notes__[0]
    assert main(["evaluate", str(folder)]) == 0
    assert main(["report", str(folder), "--out", str(tmp_path / "report.html")]) == 0
    assert "knn/top1" in (tmp_path / "report.html").read_text()
    assert main(["figures", str(folder), "--figure", "bars", "--out", str(tmp_path)]) == 0


def test_a_renamed_parameter_of_the_loss_takes_no_weights_with_it(trained, changed):
    run = changed(lambda record: record["objective"].update(sharpness=2.0))
    torch.testing.assert_close(run.encode(IMAGES), trained[1])
    assert run.evaluate()


def test_without_its_method_the_backbone_is_read_back_alone(trained, changed):
    run = changed(lambda record: record["method"].update(use="method:ccl-gone/byom"))
    with pytest.warns(
        UserWarning, match="method cannot be rebuilt, so only its backbone is read .*byom"
    ):
        found = run.encode(IMAGES)
    torch.testing.assert_close(found, trained[1])
    with pytest.raises(ccl.PluginFailed, match=r"project needs the method of .*byom.*encode, feat"):
        run.project(IMAGES)
    assert run.evaluate()


@pytest.mark.filterwarnings("ignore:the condition 'condition' cannot be read back")
def test_without_its_condition_its_values_are_still_embedded(changed, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")

    def edit(record):
        record["conditions"]["condition"]["use"] = "condition:ccl-gone/other"

    run = changed(edit)
    file = embed(run, tmp_path / "all.parquet", split="train", neighbors=0, method="pca")
    assert {"z_condition_0", "z_condition_1", "z_condition_2"} <= {*parquet.read_schema(file).names}
    assert run.evaluate()


def test_without_the_file_of_its_condition_it_is_measured_and_embedded(changed, tmp_path):
    def edit(record):
        record["conditions"]["condition"] = {
            "use": "condition:ccl-plugins/saved",
            "file": str(tmp_path / "gone.safetensors"),
        }

    run = changed(edit)
    with pytest.warns(UserWarning, match="the condition 'condition' cannot be read back"):
        assert run.evaluate()["knn/top1"] > 0
    assert embed(run, tmp_path / "rows.parquet").is_file()


@pytest.mark.parametrize("kind", ["backbone", "dataset", "transform"])
def test_what_features_need_is_named_if_it_is_gone(changed, kind):
    def edit(record):
        record[kind]["use"] = f"{kind}:ccl-gone/lost"
        record["versions"]["ccl-gone"] = "1.0"

    run = changed(edit)
    with pytest.raises(ccl.PluginFailed, match=r"this run needs the plug-in ccl-gone 1\.0"):
        run.features("test")
    with pytest.raises(ccl.PluginFailed) as raised:
        _ = run.pipeline
    assert not getattr(raised.value, "__notes__", [])


def test_other_evaluators_measure_where_one_of_the_run_is_gone(changed):
    def edit(record):
        record["evaluate"].append({"use": "evaluator:ccl-gone/lost"})

    assert changed(edit).measure("rankme").keys() == {"projections/rankme"}


def test_parts_are_read_once(trained):
    run = ccl.load(trained[0])
    assert run.backbone is run.backbone
    assert run.dataset is run.dataset
