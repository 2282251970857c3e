"""WCL and the condition keep the laws of their kinds, and equal a loop written from the paper."""

import re
import runpy
from pathlib import Path

import ccl_plugins as ccl
import pytest
import torch
from ccl_plugins.objectives import SupCon
from ccl_plugins.pairs import Samples, in_batch
from ccl_plugins.protocols import Embedded
from ccl_plugins.testing import equals, on_two_ranks, parametrize_with_checks
from torch.nn.functional import normalize

from ccl_wcl import WCL, NeighborGraph

ROOT = Path(__file__).parent.parent


@parametrize_with_checks("ccl-wcl")
def test_conformance(check):
    check()


def classes(x):
    """The classes of a view's images by joining two at a time."""
    x = x.detach()
    ids = list(range(len(x)))
    for i in range(len(x)):
        j = max((k for k in range(len(x)) if k != i), key=lambda k: float(x[i] @ x[k]))
        ids = [ids[i] if each == ids[j] else each for each in ids]
    return ids


def sup(x, ids, t):
    total = 0.0
    for i in range(len(x)):
        others = [k for k in range(len(x)) if k != i]
        below = sum(torch.exp(x[i] @ x[k] / t) for k in others)
        mates = [k for k in others if ids[k] == ids[i]]
        shares = [torch.log(torch.exp(x[i] @ x[k] / t) / below) for k in mates]
        total = total - sum(shares) / len(mates)
    return total / len(x)


def nt_xent(z, t):
    n, total = len(z) // 2, 0.0
    for i in range(2 * n):
        below = sum(torch.exp(z[i] @ z[k] / t) for k in range(2 * n) if k != i)
        total = total - torch.log(torch.exp(z[i] @ z[(i + n) % (2 * n)] / t) / below)
    return total / (2 * n)


def slow(z, v, t, weight):
    """The paper's loss: z, v (2, n, d) of the two heads, on the unit sphere."""
    swap = (sup(v[0], classes(v[1]), t) + sup(v[1], classes(v[0]), t)) / 2
    return nt_xent(torch.cat(list(z)), t) + weight * swap


def embeddings(n=9, d=4):
    torch.manual_seed(1)
    return torch.randn(2, n, d, dtype=torch.float64)


def test_it_is_the_loop_it_was_written_from():
    def expected(x, y):
        z = normalize(torch.stack([x, y]), dim=-1)
        return slow(z, z, 0.3, 0.7)

    equals(WCL(0.3, 0.7), expected, tuple(embeddings()), tolerance=1e-9)


def test_with_a_second_head_graph_and_classes_are_those_of_its_output():
    torch.manual_seed(0)
    objective = WCL(0.3, 0.7, head=[5, 6, 3]).double()
    features = torch.randn(2, 9, 5, dtype=torch.float64)

    def found(z, f):
        return objective.loss(in_batch(normalize(z, dim=-1), Samples(features=f)))

    def expected(z, f):
        return slow(normalize(z, dim=-1), normalize(objective.head(f), dim=-1), 0.3, 0.7)

    equals(found, expected, (embeddings(), features), tolerance=1e-9)


def test_classes_of_the_condition_are_those_of_the_graph():
    z = normalize(embeddings(), dim=-1)
    graph = NeighborGraph(views="each")(Embedded(z, z))
    given = WCL(0.3, on="z").loss(in_batch(z, Samples({"z": graph})))
    torch.testing.assert_close(given, WCL(0.3).loss(in_batch(z)))


def test_a_joint_graph_is_read_by_supcon():
    z = normalize(embeddings(), dim=-1)
    ids = NeighborGraph()(Embedded(z, z))
    assert ids.tolist() == NeighborGraph()(Embedded(z, z.flip(0))).tolist()
    assert SupCon()(*z, condition=ids).isfinite()


def test_the_graph_is_of_the_images_of_all_processes():
    z = normalize(embeddings(), dim=-1)  # the same on both: each image's nearest is its copy
    for ids in on_two_ranks(NeighborGraph(), Embedded(z, z)):
        assert ids.tolist() == list(range(9))


def test_samples_without_a_class_are_left_out():
    z = normalize(embeddings(6), dim=-1)
    ids = torch.tensor([0, 0, 1, 1, -1, -1])
    samples = Samples({"z": ids}, missing=ids < 0)
    found = WCL(0.3, weight=1.0, on="z").weakly_supervised(in_batch(z, samples))[:4]
    known = WCL(0.3, weight=1.0, on="z").weakly_supervised(
        in_batch(z[:, :4], Samples({"z": ids[:4]}))
    )
    torch.testing.assert_close(found, known)


def test_what_it_cannot_do_is_said():
    with pytest.raises(ValueError, match=r"head must be two or more widths.*not \[84\]"):
        WCL(head=[84])
    with pytest.raises(ValueError, match="leave head=None"):
        WCL(head=[4, 4])(*embeddings().float())
    with pytest.raises(ValueError, match="needs a method with a momentum encoder"):
        NeighborGraph("key")(Embedded(embeddings(), embeddings()))


def test_the_example_trains(tmp_path):
    record = ccl.Pipeline.from_toml(ROOT / "example.toml").to_dict()
    record["dataset"]["test_fraction"] = 0.8
    pipeline = ccl.Pipeline.from_dict(record).with_settings(epochs=1)
    run = pipeline.fit(out=tmp_path / "run", progress=False)
    assert 0 < run.evaluate()["linear/top1"] <= 1


def test_its_graph_is_a_condition_by_name_with_momentum_keys_and_not_with_a_queue(tmp_path):
    def compose(method):
        return ccl.Pipeline(
            dataset=ccl.dataset("color_digits", test_fraction=0.8),
            transform=ccl.transform("simclr", size=32),
            backbone=ccl.backbone("lenet5"),
            method=method,
            objective=ccl.objective("wcl", on="condition"),
            condition=ccl.condition("neighbor_graph", of="backbone", views="each"),
            monitor="off",
            loggers=[],
        )

    fit = {"epochs": 1, "batch_size": 64, "max_steps": 2, "workers": 0, "progress": False}
    fit["out"] = tmp_path / "run"
    with pytest.raises(ValueError, match="NeighborGraph, compares only samples of one batch"):
        compose(ccl.method("moco_v2", hidden=16, dim=8, queue_size=512)).fit(**fit)
    run = compose(ccl.method("moco_v3", hidden=16, dim=8)).fit(**fit)
    assert (run.path / "weights.pt").is_file()


def test_the_readme_is_true(tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    (tmp_path / "readme.py").write_text("\n".join(blocks), encoding="utf-8")
    names = runpy.run_path(str(tmp_path / "readme.py"))
    assert names["loss"].isfinite()
    names["pipeline"].build()
