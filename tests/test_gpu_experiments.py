"""The experiments for a GPU compose, and train on the CPU with a tiny network, few images and two steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support.scripts import script

from ccl_plugins.experiments.configuration import parse
from ccl_plugins.sweep import Sweep, cells_of
from ccl_plugins.sweep.cells import begin, work

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "reproduction" / "gpu"
PAGE = (ROOT / "docs" / "evidence" / "reproduction" / "on_a_gpu.md").read_text()
FILES = sorted(FOLDER.glob("*.toml"))
TINY = [
    "backbone.options.channels=[4, 4, 4, 4]",
    "method.hidden=8",
    "method.dim=8",
    "fit.batch_size=8",
    "fit.max_steps=2",
    "fit.warmup_epochs=0.1",
    "fit.workers=0",
]

data = script("examples/reproduction/gpu/data.py")
pages = script("docs/evidence/reproduction/pages.py")


class CIFAR10:
    """Random images in the layout of torchvision's, six of each class."""

    def __init__(self, root: Path, train: bool, download: bool) -> None:
        generator = torch.Generator().manual_seed(int(train))
        pixels = torch.randint(256, (60, 32, 32, 3), generator=generator)
        self.data = pixels.to(torch.uint8).numpy()
        self.targets = 6 * [*range(10)]


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A folder with the data, where the sweeps leave their runs too."""
    monkeypatch.setattr("torchvision.datasets.CIFAR10", CIFAR10)
    monkeypatch.chdir(tmp_path)
    data.write(Path("data"))
    return tmp_path / "data" / "planted"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_cell_composes(file, planted):
    sweep = Sweep.from_toml(file)
    (seeds,) = {tuple(space["fit.seed"]) for space in sweep.spaces}
    assert len(seeds) >= 3
    replace(sweep, spaces=[{**space, "fit.seed": [0]} for space in sweep.spaces]).check()
    assert sweep.out == Path("runs/reproduction/gpu") / file.stem
    assert f"`gpu/{file.name}`" in PAGE
    assert f" {sweep.size} runs" in PAGE.partition(f"`gpu/{file.name}`")[2].partition("\n")[0]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_grid_trains_and_comes_into_the_page(file, planted, tmp_path, monkeypatch):
    sweep = Sweep.from_toml(file, map(parse, TINY))
    first = [{key: values[:1] for key, values in space.items()} for space in sweep.spaces]
    sweep = replace(sweep, spaces=first)
    begin(sweep)
    work(sweep)
    assert [each.state for each in cells_of(sweep)] == ["done"] * len(first)

    name = f"gpu_{file.stem}"
    monkeypatch.setattr(pages, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(pages, "Sweep", SimpleNamespace(from_toml={file: sweep}.__getitem__))
    results = pages.measure(name, PAGE)
    results["tests"] = pages.tests_of(results, PAGE)
    page = pages.write_page(PAGE, {name: results}, tmp_path)
    assert page != PAGE
    assert all(f"\n| {space['name'][0]}" in page for space in first)


def test_a_grating_leaves_the_image_and_its_angle_is_in_the_table(planted):
    lines = (planted / "gratings.csv").read_text().splitlines()
    assert len(lines) == 121
    images = torch.full((2, 3, 32, 32), 100, dtype=torch.uint8)
    mixed, angles = data.with_gratings(images, torch.Generator().manual_seed(0))
    torch.testing.assert_close(angles.square().sum(1), torch.ones(2))
    assert 70 <= mixed.min() < 80
    assert 140 < mixed.max() <= 147
    assert (mixed[:, :1] == mixed).all()


def test_a_hint_names_seven_classes_in_ten():
    labels = torch.arange(50_000) % 10
    hints = data.hints_of(labels, torch.Generator().manual_seed(0))
    places = torch.stack([hints[labels == each].mean(0) for each in range(10)])
    nearest = torch.cdist(hints, places).argmin(1)
    assert 0.69 < (nearest == labels).double().mean() < 0.71
