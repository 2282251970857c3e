"""Two finished runs: one of timm on images in files, and one of a small network on digits."""

from __future__ import annotations

import pytest
import torch
from torchvision.io import write_png

import ccl_plugins as ccl

VIEWS = {"size": 32, "min_scale": 0.5, "flip": 0.0, "jitter": 0.0, "gray": 0.0, "blur": 0.0}
FIT = {"epochs": 1, "batch_size": 16, "workers": 0, "progress": False}


@pytest.fixture(scope="session")
def timm_run(tmp_path_factory):
    """A run whose data lies under a name that nobody else should see."""
    folder = tmp_path_factory.mktemp("ward-of-alice")
    noise = torch.Generator().manual_seed(0)
    rows = ["image,label,age,split"]
    for i in range(48):
        image = torch.randint(0, 256, (3, 40, 40), generator=noise, dtype=torch.uint8)
        image[i % 2] //= 4
        write_png(image, str(folder / f"patient-{i}.png"))
        rows.append(f"patient-{i}.png,{i % 2},{i % 7}.5,{'test' if i % 3 == 0 else 'train'}")
    (folder / "images.csv").write_text("\n".join(rows))
    pipeline = ccl.Pipeline(
        dataset=ccl.dataset("table", path=str(folder / "images.csv"), split="split"),
        backbone=ccl.backbone("timm", name="resnet10t", options={"channels": [8, 8, 16, 16]}),
        method=ccl.method("simclr", hidden=8, dim=4),
        transform=ccl.transform("simclr", **VIEWS),
        objective=ccl.objective(
            "guided",
            base="infonce",
            guides=[{"on": "age", "keep": False, "by": "regression", "weight": 2.0}],
        ),
        conditions={"age": ccl.condition("column", name="age")},
        evaluate=["knn", {"use": "regression", "column": "age"}],
    )
    run = pipeline.fit(out=folder / "runs" / "of-alice", **FIT)
    run.evaluate()
    return ccl.load(run.path)


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    pipeline = ccl.Pipeline(
        dataset=ccl.dataset("subset", of="color_digits", train=32, test=16),
        backbone="lenet5",
        method=ccl.method("simclr", hidden=8, dim=4),
        transform=ccl.transform("simclr", **VIEWS),
        objective="infonce",
    )
    return ccl.load(pipeline.fit(out=tmp_path_factory.mktemp("run") / "small", **FIT).path)
