"""What is wrong in the first steps of a run is said in one line each, and nothing of what is right."""

from __future__ import annotations

import json
import os
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from support import slips
from support.programs import run
from support.slips import SLIPS
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data
from torch import Tensor, nn

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.evaluators import KNN, LinearProbe
from ccl_plugins.objectives import InfoNCE, SupCon
from ccl_plugins.protocols import Frozen
from ccl_plugins.transforms import NoiseTransform
from ccl_plugins.watching import first_steps, monitor
from ccl_plugins.watching.noise import unmoved


def install(section: str, install_plugin: Any) -> Path:
    """A plug-in with a slip, and a file of the small pipeline that has it."""
    kind, target, line = SLIPS[section]
    point = {"slip": f"ccl_slips:{target.__name__}"}
    files = {"ccl_slips.py": Path(slips.__file__).read_text()}
    changed = tomllib.loads(line)
    kept = [each for each in TOML.splitlines() if each.split(" ")[0] not in changed]
    Path("x.toml").write_text("\n".join([*kept, line]))
    return install_plugin("ccl-slips", {f"ccl_plugins.{kind}": point}, files)


def found(run: str = "run/x") -> list[str]:
    return [each["name"] for each in json.loads(Path(run, "diagnosis.json").read_text())]


@pytest.mark.parametrize("section", SLIPS)
def test_a_slip_is_said_once_by_the_command(section, in_a_folder_with_data, install_plugin, capsys):
    install(section, install_plugin)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert main(["train", "x.toml", "--out", "run", "--set", "fit.log_every=1"]) == 0
    assert found() == [section]
    said = [str(each.message) for each in caught] + capsys.readouterr().err.splitlines()
    (said_once,) = [each for each in said if f"#{section}" in each]
    assert SLIPS[section][1].__name__ in said_once
    assert "\n" not in said_once.strip()


def test_a_resumed_run_says_nothing_again(in_a_folder_with_data, install_plugin, monkeypatch):
    install("both-views-are-equal", install_plugin)
    with pytest.warns(UserWarning, match="both views are equal"):
        assert main(["train", "x.toml", "--out", "run"]) == 0
    monkeypatch.setattr(first_steps, "_equal", lambda *_: pytest.fail("views are compared again"))
    monkeypatch.setattr(monitor, "unmoved", lambda *_: pytest.fail("noise is measured again"))
    more = ["--set", "fit.epochs=2", "--resume"]
    assert main(["train", "x.toml", "--out", "run", *more]) == 0
    assert found() == ["both-views-are-equal"]


@pytest.mark.slow
@pytest.mark.parametrize("section", ["a-condition-changes-nothing", "both-views-are-equal"])
def test_two_devices_say_it_once(section, in_a_folder_with_data, install_plugin):
    folder = install(section, install_plugin)
    words = ["train", "x.toml", "--out", "run", "--devices", "2", "--set", "fit.log_every=1"]
    done = run(
        "-m", "ccl_plugins", *words, env={**os.environ, "PYTHONPATH": str(folder)}, timeout=180
    )
    assert done.returncode == 0, done.stderr
    assert found() == [section]
    assert done.stderr.count(f"#{section}") == 1


def pipeline(**given: Any) -> ccl.Pipeline:
    draw = torch.Generator().manual_seed(0)
    rows = {
        "features": torch.randn(64, 8, generator=draw),
        "label": torch.arange(64) % 4,
        "unit": torch.zeros(64, dtype=torch.long),
    }
    return ccl.Pipeline(
        **{
            "dataset": ccl.create("dataset", "features", train=rows, test=rows),
            "backbone": ccl.backbone("mlp", in_features=8, hidden=[16]),
            "method": ccl.method("simclr", hidden=16, dim=8, batch_norm=False),
            "transform": "noise",
            "objective": "infonce",
            "evaluate": [],
            **given,
        },
        fit={"epochs": 2, "batch_size": 32, "workers": 0, "log_every": 1},
    )


def sections(out: Path, **given: Any) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline(**given).fit(out=out / "run", logger=False, progress=False)
    return found(str(out / "run"))


class Dropping(nn.Sequential):
    """Draws in the network what views do not, as SimCSE does."""

    num_features = 16

    def __init__(self) -> None:
        super().__init__(nn.Linear(8, 16), nn.Dropout(0.2))


class Rising(InfoNCE):
    """A loss that reads its condition later: its weight rises from 0."""

    conditions = {"condition": ("categorical",)}  # noqa: RUF012
    share = 0.0

    def progress(self, step: int, total: int) -> None:
        super().progress(step, total)
        self.share = max(0.0, step - 1) / total

    def loss(self, pairs: Any) -> Tensor:
        return super().loss(pairs) + self.share * SupCon().loss(pairs)


RIGHT: dict[str, dict[str, Any]] = {
    "equal views on purpose": {"transform": ccl.transform("noise", std=0.0, drop=0.0)},
    "equal views of a network that draws": {
        "transform": ccl.transform("noise", std=0.0, drop=0.0),
        "backbone": Dropping(),
    },
    "strong noise": {"transform": ccl.transform("noise", std=3.0, drop=0.5)},
    "a weight that rises": {"objective": Rising(), "condition": "label"},
    "one class in each batch": {
        "objective": "fair_infonce",
        "condition": "label",
        "sampler": ccl.sampler("same_condition", small="repeat"),
    },
    "a predictor and momentum keys": {"method": ccl.method("moco_v3", hidden=16, dim=8)},
    "a queue": {"method": ccl.method("moco_v2", hidden=16, dim=8, queue_size=64, momentum=0.9)},
    "a probe of what is not told": {"evaluate": ["knn", "linear"]},
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_quiet(name, tmp_path):
    assert not {*SLIPS} & {*sections(tmp_path, **RIGHT[name])}


class InBatches(NoiseTransform):
    """Random in a call, and not as training draws it."""

    def __init__(self) -> None:
        super().__init__()
        self.batch_transforms = [lambda images, _: images.float()] * 2


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "views of batches": ("both-views-are-equal", {"transform": InBatches()}),
    "keys of a momentum encoder": (
        "keys-are-of-the-own-view",
        {
            "method": ccl.local(
                "method", slips.OwnKeys, hidden=16, dim=8, queue_size=64, momentum=0.9
            )
        },
    ),
    "in the monitor": (
        "a-number-does-not-read-the-features",
        {"monitor": {"evaluate": [ccl.local("evaluator", slips.Constant)]}},
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_slip_is_found_wherever_it_is(name, tmp_path):
    section, given = WRONG[name]
    assert sections(tmp_path, **given) == [section]


@pytest.mark.parametrize("name", ["simclr", "moco_v2", "byol"])
def test_normalized_views_and_images_that_are_not_are_told_apart(name):
    """Of images of even light, of dark ones, and of ones that are nearly white."""
    transform = ccl.create("transform", name, size=32)
    draw = torch.Generator().manual_seed(0)
    mean, std = transform.mean, transform.std
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for low, high in ((0, 256), (0, 60), (180, 250)):
            small = torch.randint(low, high, (32, 3, 6, 6), generator=draw).float()
            images = nn.functional.interpolate(small, size=40, mode="bilinear").byte()
            plain = torch.stack([transform.plain(image) for image in images])
            views = torch.stack([transform(image)[0] for image in images])
            assert not first_steps._unlike(views, plain), (low, high)
            masks = torch.rand(32, 1, 32, 32) < 0.75
            assert not first_steps._unlike(views.masked_fill(masks, 0), plain), (low, high)
            assert first_steps._unlike(views, plain * std + mean), (low, high)
            assert first_steps._unlike(views * std + mean, plain), (low, high)
            assert first_steps._unlike(views, 255 * (plain * std + mean)), (low, high)


def test_masked_counts_have_the_scale_of_counts():
    """Most counts are 0; a mask makes more of them so."""
    draw = torch.Generator().manual_seed(0)
    for rate in (0.2, 0.7, 2.0, 20.0):
        counts = torch.poisson(torch.full((32, 500), rate), generator=draw).log1p()
        view = counts.masked_fill(torch.rand(32, 500, generator=draw) < 0.4, 0)
        assert not first_steps._unlike(view, counts), rate
        assert first_steps._unlike(view, 100 * counts), rate


def test_the_same_weights_come_out_with_and_without_the_checks(tmp_path, monkeypatch):
    weights = []
    for checks in (first_steps.FIRST_STEPS, ()):
        monkeypatch.setattr("ccl_plugins.watching.diagnosis.FIRST_STEPS", checks)
        given = {"method": RIGHT["a queue"]["method"], "objective": "supcon", "condition": "label"}
        run = pipeline(**given).fit(out=tmp_path / str(len(checks)), logger=False, progress=False)
        weights.append(torch.load(run.folder.weights, weights_only=True))
    for network in ("method", "objective"):
        for name, value in weights[0][network].items():
            assert torch.equal(value, weights[1][network][name]), name


def frozen(labels: Tensor, seed: int) -> Frozen:
    draw = torch.Generator().manual_seed(seed)
    return Frozen(torch.randn(len(labels), 8, generator=draw), {"label": labels})


@pytest.mark.parametrize("evaluator", [KNN(), LinearProbe()])
def test_a_probe_that_names_the_most_frequent_class_of_noise_is_right(evaluator):
    labels = (torch.arange(40) % 10 == 0).long()
    assert [*unmoved([evaluator], frozen(labels, 0), frozen(labels, 1))] == []
    (finding,) = unmoved([evaluator, slips.Constant()], frozen(labels, 0), frozen(labels, 1))
    assert finding.about == "constant/top1"
