"""Weak labels from WordNet: samples whose classes share an ancestor at some level are positives.

A coarse level tells little about the class, a fine level more: I(Z;T) is larger. Expect the class
to be named more often with a finer level. The classes are those of CIFAR-10; vectors stand in for images.
"""

import csv
from pathlib import Path

import torch

import ccl_plugins as ccl

EPOCHS = 10
# The part of WordNet 3.0 above the ten classes. `source` may also be a folder with WordNet's data.noun.
HIERARCHY = "examples/reproduction/cifar10_wordnet.csv"

torch.manual_seed(0)
edges = list(csv.DictReader(Path(HIERARCHY).read_text().splitlines()))
above = {edge["child"]: edge["parent"] for edge in edges}
classes = sorted({*above} - {*above.values()})
way = {node: torch.randn(64) for node in sorted({*above} | {*above.values()})}
nuisance = torch.randn(4, 64)


def center(node):
    return way[node] + (center(above[node]) if node in above else 0)


def vectors(count):
    label = [name for name in classes for _ in range(count)]
    centers = torch.stack([center(name) for name in label])
    noise = 6 * torch.randn(len(label), 4) @ nuisance + 2 * torch.randn(len(label), 64)
    return {"features": centers + noise, "label": label}


common = {
    "dataset": ccl.create(
        "dataset", "features", train=vectors(100), test=vectors(40), standardize=True
    ),
    "transform": ccl.transform("noise", std=0.3, drop=0.2),
    "backbone": ccl.backbone("mlp", in_features=64, hidden=[128]),
    "method": ccl.method("simclr", hidden=128, dim=64),
    "evaluate": ["knn"],
    "monitor": "off",
}
pipelines = {"InfoNCE": ccl.Pipeline(**common, objective=ccl.objective("infonce", temperature=0.1))}
for level in (5, 9, 13):
    pipelines[f"level {level}"] = ccl.Pipeline(
        **common,
        objective=ccl.objective("cl_infonce", temperature=0.1),
        condition=ccl.condition("wordnet", level=level, source=HIERARCHY),
    )

rows, informed = {}, {}
for name, pipeline in pipelines.items():
    run = pipeline.fit(
        out=f"runs/gallery/wordnet/{name}",
        epochs=EPOCHS,
        batch_size=100,
        optimizer=ccl.optimizer("adamw", lr=3e-3),
        workers=0,
        progress=False,
        overwrite=True,
    )
    rows.setdefault("untrained", run.before)
    rows[name] = run.evaluate()
    if name != "InfoNCE":
        ((z,), _) = pipeline.plane()
        informed[name] = f", I(Z;T) {z.information.mutual:.2f} bits"
for name, found in rows.items():
    print(f"{name:<10}class {found['knn/top1']:.2f}{informed.get(name, '')}")
