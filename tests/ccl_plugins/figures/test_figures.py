"""The numbers in the figures, and how figures are saved; nothing of their pixels."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import ccl_plugins as ccl
from ccl_plugins.experiments.curves import curves
from ccl_plugins.figures import (
    Anchor,
    Bars,
    Curves,
    EmbeddingMap,
    InformationPlane,
    KeptAndLeaked,
    KernelMatrix,
    Similarity,
    embedding_map,
    information_plane,
    samples,
    save,
    similarity,
    styled,
    svg,
)
from ccl_plugins.figures.anchor import Weights, _draw_ranks, derivatives, weights
from ccl_plugins.figures.embedding_map import _scatter
from ccl_plugins.figures.groups import _common
from ccl_plugins.figures.kept_and_leaked import _scale
from ccl_plugins.figures.kernel_matrix import in_order, value_colors
from ccl_plugins.figures.samples import Values, features, kernel_reading, known_rows, sampled
from ccl_plugins.figures.similarity import _draw_pairs, binned
from ccl_plugins.figures.style import COLUMNS, NUMBERS, on_paper
from ccl_plugins.files.mapped import map_safetensors, writing
from ccl_plugins.information import information
from ccl_plugins.information.entropies import entropy
from ccl_plugins.kernels import RBF, Delta
from ccl_plugins.numerics import conditional_operator
from ccl_plugins.numerics.two_dimensions import project
from ccl_plugins.objectives import (
    CACR,
    SCL,
    UCL,
    AlignUniform,
    FairCCLK,
    InfoNCE,
    Mixture,
    SoftInfoNCE,
    SupCon,
    WeaklySupCCLK,
)
from ccl_plugins.objectives.base import own_terms
from ccl_plugins.pairs import Samples, in_batch
from ccl_plugins.protocols import DoesNotApply, Measurement

PARTS = """
dataset = {use = "subset", of = "color_digits", train = 400, test = 200}
backbone = "lenet5"
method = {use = "simclr", hidden = 16, dim = 8}
transform = {use = "simclr", size = 32, flip = 0.0, jitter = 0.0, gray = 0.0, blur = 0.0}
evaluate = ["knn", {use = "regression", column = "color"}]
fit = {epochs = 2, batch_size = 256, log_every = 1, workers = 0}
loggers = ["csv"]
"""
INFONCE = 'objective = {use = "infonce", temperature = 0.5}\n'
FAIR = """
[conditions]
color = {use = "column", name = "color"}
groups = {use = "attributes", columns = ["label"], k = 1}
[objective]
use = "mixture"
objectives = [
    {use = "fair_cclk", on = "color", temperature = 0.5, kernel = {use = "rbf", scale = 0.1}},
    {use = "cl_infonce", on = "groups"},
]
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run without condition and one with two, of two steps each."""
    folder, found = tmp_path_factory.mktemp("runs"), {}
    for title, text in (("InfoNCE", PARTS + INFONCE), ("Fair", PARTS + FAIR)):
        file = folder / f"{title}.toml"
        file.write_text(text)
        found[title] = ccl.Pipeline.from_toml(file).fit(out=folder / title, progress=False)
        found[title].evaluate()
    return found


def measure_anew(folder, **numbers):
    """Give the last measurement of neighbors, and of a run nothing else, other numbers."""
    (folder / "SHA256SUMS").unlink()
    file = folder / "measurements.json"
    found = json.loads(file.read_text())
    found["after"] = [{**each, **numbers} for each in found["after"] if each["name"] == "knn/top1"]
    file.write_text(json.dumps(found))


def images(figure):
    """The arrays of the matrices in a figure, without the bars of colors beside them."""
    found = [each.get_array() for axes in figure.axes for each in axes.images]
    return [torch.from_numpy(np.asarray(each)) for each in found if each.ndim == 2]


def test_seeds_that_begin_alike_are_no_run_of_one_seed():
    for titles in (["fair-seed-10", "fair-seed-11"], ["fair, seed 1", "fair, seed 12"]):
        assert _common(titles) == "fair (2 seeds)"


def test_the_matrices_drawn_are_the_kernel_and_the_operator(runs):
    found = KernelMatrix()(runs)
    color = runs["Fair"].splits[0].metadata["color"]
    z = color[sampled(len(color), 256)]
    z = z[in_order(z)]
    kernel = ccl.create("kernel", "rbf", scale=0.1)
    drawn, operator = images(found)
    torch.testing.assert_close(drawn, kernel(z, z))
    torch.testing.assert_close(operator, conditional_operator(kernel, z, 0.01))
    assert drawn.shape == (256, 256)


def test_samples_of_a_matrix_are_in_order_of_z():
    z = torch.tensor([0.3, 0.1, 0.2])
    assert in_order(z).tolist() == in_order(z[:, None]).tolist() == [1, 2, 0]
    groups = torch.tensor([[0.0, 0], [9, 9], [0.1, 0], [9, 9.1], [0, 0.1]])
    order = in_order(groups).tolist()
    assert {frozenset(order[:3]), frozenset(order[3:])} == {
        frozenset({0, 2, 4}),
        frozenset({1, 3}),
    } or {
        frozenset(order[:2]),
        frozenset(order[2:]),
    } == {frozenset({1, 3}), frozenset({0, 2, 4})}
    assert in_order(torch.tensor([[1, 0], [0, 5], [0, 2]])).tolist() == [2, 1, 0]


def test_a_run_without_a_kernel_has_no_matrix(runs):
    with pytest.raises(
        DoesNotApply, match=r"no objective of .*InfoNCE reads a condition through a"
    ):
        KernelMatrix()({"InfoNCE": runs["InfoNCE"]})
    with pytest.raises(
        DoesNotApply, match="reads condition 'groups' through a kernel; no objective"
    ):
        KernelMatrix("groups")(runs)


def batch(n=6, d=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return functional.normalize(
        torch.randn(2, n, d, generator=generator, dtype=torch.float64), dim=2
    )


def test_the_weights_of_infonce_are_the_softmax_of_its_similarities():
    x = batch()
    found, _ = derivatives(InfoNCE(0.5), in_batch(x), 2)
    expected = (x[0, 2] @ x[1].T / 0.5).softmax(0)
    expected[2] -= 1
    torch.testing.assert_close(found[1], expected / 0.5)
    assert not found[0].any()


def test_the_weights_of_fair_cclk_are_the_operator_times_the_exponential():
    x, z = batch(), torch.rand(6, 3, generator=torch.Generator().manual_seed(1)).double()
    kernel = ccl.create("kernel", "rbf", scale=0.5)
    found, _ = derivatives(FairCCLK(kernel, 0.5), in_batch(x, Samples({"condition": z})), 4)
    operator = conditional_operator(kernel, z, 0.01).clamp_min(0)
    push = 5 * operator[4] * (x[0, 4] @ x[1].T / 0.5).exp()
    own = (x[0, 4] @ x[1, 4] / 0.5).exp()
    expected = push / (own + push.sum())
    expected[4] += own / (own + push.sum()) - 1
    torch.testing.assert_close(found[1], expected / 0.5)


def test_the_weights_of_cacr_are_its_conditional_distribution():
    x = batch()
    objective = CACR(t_minus=2.0)
    found, _ = derivatives(objective, in_batch(x), 0)
    products = (x[0, 0] @ x[0].T)[1:]
    torch.testing.assert_close(found[0, 1:], 2 * (4 * products).softmax(0))
    torch.testing.assert_close(found[1, 0], torch.tensor(-2.0, dtype=torch.float64))
    assert objective.weight_gradient


def loss_of_anchor(objective, pairs, place, key, sample, step):
    """The anchor's loss after one key has moved along the sphere towards the anchor; and its product."""
    keys, anchor = pairs.keys.clone(), pairs.anchors[0, place]
    across = anchor - (keys[key, sample] @ anchor) * keys[key, sample]
    keys[key, sample] = functional.normalize(keys[key, sample] + step * across, dim=0)
    moved = replace(pairs, anchors=pairs.anchors[:1], anchor_views=(0,), keys=keys)
    values, counted = own_terms(objective, moved)
    loss = (values[:, place] * counted[:, place]).sum() / counted[:, place].sum()
    return loss, keys[key, sample] @ anchor


@pytest.mark.parametrize(
    "objective",
    [InfoNCE(0.5, within_view=True), SupCon(0.5), SCL(0.5), SoftInfoNCE(RBF(0.5)), UCL(0.5)],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize(("key", "sample"), [(1, 1), (1, 3), (0, 3)])
def test_a_weight_is_the_change_of_the_anchors_loss_with_the_product(objective, key, sample):
    z = {"condition": torch.tensor([0, 0, 1, 1, 2, 2])}
    pairs = in_batch(batch(), Samples(z))
    found, _ = derivatives(objective, pairs, 1)
    (low, low_product), (high, high_product) = (
        loss_of_anchor(objective, pairs, 1, key, sample, step) for step in (-1e-5, 1e-5)
    )
    slope = (high - low) / (high_product - low_product)
    torch.testing.assert_close(found[key, sample], slope, rtol=1e-5, atol=1e-8)


def test_prototypes_that_move_after_a_step_do_not_keep_an_anchor_from_being_drawn(tmp_path):
    guide = {"on": "condition", "keep": True, "by": "prototypes"}
    pipeline = ccl.Pipeline(
        dataset={"use": "subset", "of": "color_digits", "train": 40, "test": 10},
        backbone="lenet5",
        method={"use": "simclr", "hidden": 8, "dim": 4},
        transform={"use": "simclr", "size": 32},
        objective={"use": "guided", "base": "infonce", "guides": [guide]},
        condition="label",
        evaluate=[],
        monitor="off",
        loggers=[],
    )
    pipeline.fit(out=tmp_path / "run", epochs=1, batch_size=20, workers=0, progress=False)
    found = weights(ccl.load(tmp_path / "run"))
    torch.testing.assert_close(sum(share for share, _ in found.negatives), 1.0)


def test_a_loss_that_is_no_mean_over_anchors_has_no_weights_of_one_anchor():
    with pytest.raises(DoesNotApply, match="AlignUniform is not a mean over anchors"):
        derivatives(AlignUniform(), in_batch(batch()), 0)


def test_positives_of_a_condition_are_told_from_negatives():
    x, z = batch(), torch.tensor([0, 0, 1, 1, 2, 2])
    objective = WeaklySupCCLK(Delta(), 0.5)
    found, _ = derivatives(objective, in_batch(x, Samples({"condition": z})), 0)
    assert (found[1, :2] < 0).any()
    assert (found[1, 2:] > 0).all()


def test_shares_of_an_anchor_add_up_and_are_drawn_of_the_batch_of_training(runs):
    found = weights(runs["InfoNCE"])
    assert found.own == {1: pytest.approx(1)}
    assert sum(share for share, _ in found.negatives) == pytest.approx(1)
    assert len(found.negatives) == 255
    assert found.index not in {index for _, index in found.negatives}
    other = weights(runs["Fair"], found.index)
    assert other.index == found.index
    assert {i for _, i in [*other.negatives, *other.positives]} == {i for _, i in found.negatives}
    group = runs["Fair"].condition_tables()["groups"].values
    assert other.positives
    assert all(group[i] == group[found.index] for _, i in other.positives)
    drawn = Anchor(found.index)(runs)
    assert f"{100 * found.negatives[0][0]:.2g} %" in [
        panel.get_xlabel() for part in drawn.subfigs for panel in part.axes
    ]


def ranks(**shares):
    """The panel of the negatives' shares, of runs by title."""
    panel = Figure().subplots()
    found = {
        title: Weights(0, [], {}, [], [(share, i) for i, share in enumerate(each)], ("image",))
        for title, each in shares.items()
    }
    styled(_draw_ranks)(panel, found)
    panel.figure.draw_without_rendering()
    return panel


def test_the_scale_of_shares_has_numbers():
    panel = ranks(_one=[0.3, 0.2, 0.1])
    marked = [each.get_text() for each in panel.get_yticklabels(which="both")]
    assert {"10", "20"} <= {*marked}
    assert not any("$" in each for each in marked)
    assert [each.get_text() for each in panel.get_legend().texts] == ["_one"]


def test_an_anchor_that_is_pushed_from_nothing_has_no_shares():
    first, second = ranks(pulled=[], pushed=[0.6, 0.4]).lines[:2]
    assert not len(first.get_xdata())
    assert second.get_ydata().tolist() == [60, 40]


def test_an_anchor_outside_of_the_split_is_refused(runs):
    with pytest.raises(ValueError, match="index must be from 0 to 399, not 5000"):
        Anchor(5000)(runs)


def scatters(axes):
    return [each for each in axes.collections if hasattr(each, "get_sizes")]


def test_a_map_has_the_projected_features_in_the_colors_of_the_samples(runs):
    found = EmbeddingMap(["label", "color"], "pca")(runs)
    test = runs["Fair"].splits[1]
    points = project(runs["Fair"].features("test").features, "pca")
    (colored,) = scatters(found.axes[3])
    torch.testing.assert_close(torch.from_numpy(colored.get_offsets().data), points)
    np.testing.assert_allclose(colored.get_facecolors()[:, :3], test.metadata["color"], atol=1e-6)
    by_label = scatters(found.axes[1])
    assert [len(each.get_offsets()) for each in by_label] == test.metadata[
        "label"
    ].bincount().tolist()
    assert found.axes[1].get_title() == "Fair: by label"


def test_a_condition_that_is_known_in_training_alone_is_mapped_there(runs):
    found = EmbeddingMap(method="pca")({"Fair": runs["Fair"]})
    assert [axes.get_title() for axes in found.axes] == [
        "Fair: by label",
        "Fair: by color",
        "Fair: by groups",
    ]
    assert found.get_supxlabel() == "PCA of the features of all 400 training samples"


def test_samples_without_a_number_are_on_the_map_too():
    panel = Figure().subplots()
    z = Values(torch.tensor([0.1, torch.nan, 0.3]), "continuous", name="z")
    points = torch.tensor([[0.0, 0], [1, 1], [2, 2]])
    _scatter(panel, points, z, torch.arange(3), False)
    pale, known = panel.collections
    assert pale.get_offsets().data.tolist() == [[1, 1]]
    assert known.get_offsets().data.tolist() == [[0, 0], [2, 2]]


def test_runs_whose_tables_differ_have_a_scale_or_a_legend_each(runs, monkeypatch):
    n = len(runs["Fair"].splits[1])
    numbers, ids = torch.linspace(0, 1, n), torch.arange(n)
    given = {
        "z": [
            Values(numbers, "continuous", name="z"),
            Values(100 * numbers, "continuous", name="z"),
        ],
        "k": [
            Values(ids % 2, "categorical", ["_odd", "b"], name="k"),
            Values(ids % 3, "categorical", name="k"),
        ],
        "same": [Values(ids % 2, "categorical", name="same")] * 2,
    }
    rows = {name: dict(zip(runs, each, strict=True)) for name, each in given.items()}
    monkeypatch.setattr(embedding_map, "_rows", lambda *_: ("test", rows))
    maps = EmbeddingMap(method="pca")(runs).axes
    scales = [axes.get_ylim() for axes in maps[6:]]
    assert scales == [(0, 1), (0, 100)]
    legends = [axes.get_legend() for axes in maps[:6]]
    named = [legend and [each.get_text() for each in legend.texts] for legend in legends]
    assert named == [None, None, ["_odd", "b"], ["0", "1", "2"], None, ["0", "1"]]


def test_projections_of_more_samples_than_are_shown_and_of_few():
    features = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    for method in ("pca", "tsne"):
        assert torch.equal(project(features, method), project(features, method))
    assert sampled(10, 3).tolist() == sampled(10, 3).tolist()
    assert len(sampled(5000, 2000)) == 2000


def test_umap_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ImportError, match=r'pip install "ccl-plugins\[umap\]"'):
        project(torch.randn(9, 4), "umap")


@pytest.mark.slow  # numba compiles UMAP for seconds
def test_a_map_by_umap_is_the_same_each_time():
    pytest.importorskip("umap")
    features = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    found = project(features, "umap")
    assert found.shape == (40, 2)
    assert torch.equal(found, project(features, "umap"))


def test_a_line_is_the_first_principal_component_without_a_random_sign():
    z = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([5.0, 1, 1])
    line = Values(z, "continuous", name="z").line(torch.arange(20))
    assert torch.corrcoef(torch.stack([line, z[:, 0].double()]))[0, 1] > 0.99
    tags = Values(torch.tensor([[1, 0], [-1, 0], [0, 1]]), "multi_label", name="tags")
    assert tags.line(torch.tensor([1, 2])).isnan().tolist() == [True, False]


class LargestTensor(TorchDispatchMode):
    """Notes the bytes of the largest tensor that is made, but for views of a table."""

    def __init__(self, table):
        super().__init__()
        self.address, self.bytes = table.untyped_storage().data_ptr(), 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, torch.Tensor):
                own = each.untyped_storage()
                self.bytes = max(self.bytes, own.nbytes() * (own.data_ptr() != self.address))
        return made


def test_few_samples_of_a_large_table_are_colored_without_a_copy_of_all(tmp_path):
    file = tmp_path / "table.safetensors"
    with writing(file, {"values": ((200_000, 64), torch.float32)}) as tensors:
        tensors["values"].copy_(torch.arange(200_000.0)[:, None].expand(-1, 64))
    table = map_safetensors(file)["values"]
    with LargestTensor(table) as largest:
        z = Values(table, "continuous", name="z")
        rows = known_rows([z], 1000)
        colors = value_colors(z, rows)
        _scatter(Figure().subplots(), table[rows, :2], z, rows, many=True)
    assert largest.bytes <= table.nbytes / 4  # what is read at a time, and one bit of each number
    np.testing.assert_allclose(colors[[0, -1]], matplotlib.colormaps[NUMBERS]([0.0, 1.0]))


def test_similarities_are_compared_over_all_pairs(runs, monkeypatch):
    monkeypatch.setattr(similarity, "MOST", 161)  # their pairs fill 20 equal bins
    found = Similarity()(runs)
    z = runs["Fair"].splits[0].metadata["color"]
    rows = sampled(len(z), 161)
    i, j = torch.triu_indices(161, 161, 1)
    kernel = ccl.create("kernel", "rbf", scale=0.1)(z[rows], z[rows])[i, j].double()
    for axes, (title, run) in zip(found.axes, runs.items(), strict=True):
        features = run.features("train").features[rows].double()
        cosine = functional.cosine_similarity(
            *(x := features - features.mean(0))[torch.stack([i, j])]
        )
        assert len(x) == 161
        r = np.corrcoef(kernel, cosine)[0, 1]
        assert axes.get_title() == f"{title}: r = {r:.2f}"
        line = next(each for each in axes.lines if len(each.get_xdata()) == 20)
        mean = torch.from_numpy(line.get_ydata()).mean()
        torch.testing.assert_close(mean, cosine.mean(), atol=1e-4, rtol=0)


def test_bins_have_equal_numbers_of_pairs():
    found = binned(torch.tensor([3.0, 1, 2, 4]), torch.tensor([30.0, 10, 20, 40]), 2)
    torch.testing.assert_close(found[:, :2], torch.tensor([[1.5, 15], [3.5, 35]]))


def test_curves_are_those_that_were_logged(runs):
    found = Curves(["loss", "evaluation/"])(runs)
    assert found.axes[0].get_title() == "loss"
    for line, run in zip(found.axes[0].lines, runs.values(), strict=True):
        assert list(zip(*line.get_data(), strict=True)) == curves(run)["loss"]
    with pytest.raises(DoesNotApply, match=r"no run has logged nothing; there are .*loss"):
        Curves("nothing")(runs)


def test_a_run_without_curves_is_left_out(runs, tmp_path):
    shutil.copytree(runs["Fair"].path, out := tmp_path / "run")
    (out / "history.csv").unlink()
    bare = ccl.load(out)
    found = Curves("loss")({"bare": bare, "InfoNCE": runs["InfoNCE"]})
    assert [each.get_text() for each in found.legends[0].texts] == ["InfoNCE"]
    with pytest.raises(DoesNotApply, match="run has no curves"):
        Curves()({"bare": bare})


def test_bars_are_the_metrics_with_their_intervals(runs, tmp_path):
    shutil.copytree(runs["Fair"].path, out := tmp_path / "run")
    measure_anew(out, interval=[0.25, 0.75])
    run = ccl.load(out)
    found = Bars("knn/top1")({"a": run, "InfoNCE": runs["InfoNCE"]})
    (panel,) = found.axes
    first, second = panel.patches
    assert first.get_width() == run.metrics["knn/top1"]
    assert second.get_width() == runs["InfoNCE"].metrics["knn/top1"]
    drawn = [tuple(line.get_xdata()) for line in panel.lines]
    assert (0.25, 0.75) in drawn
    assert (run.before["knn/top1"],) * 2 in drawn
    about = run.measurements()["knn/top1"]
    assert (about.chance,) * 2 in drawn
    assert " ".join(panel.get_xlabel().split()) == about.sentence
    with pytest.raises(
        DoesNotApply, match="no run has the metric 'linear/top5'; there are knn/top1"
    ):
        Bars("linear/top5")(runs)


def test_seeds_of_a_configuration_are_one_bar(runs, tmp_path):
    seeds = {}
    for seed, value in ((0, 0.5), (1, 0.7)):
        shutil.copytree(runs["Fair"].path, out := tmp_path / f"fair-seed-{seed}")
        record = json.loads((out / "pipeline.json").read_text())
        record["fit"]["seed"] = seed
        (out / "pipeline.json").write_text(json.dumps(record))
        measure_anew(out, value=value)
        seeds[out.name] = ccl.load(out)
    (panel,) = Bars()(seeds).axes
    (bar,) = panel.patches
    assert bar.get_width() == pytest.approx(0.6)
    lines = [list(line.get_xdata()) for line in panel.lines]
    deviation = np.std([0.5, 0.7], ddof=1)
    assert pytest.approx([0.6 - deviation, 0.6 + deviation]) in lines
    assert [0.5, 0.7] in lines
    assert [each.get_text() for each in panel.get_yticklabels()] == ["fair (2 seeds)"]


def test_configurations_in_folders_of_numbers_are_named_by_their_settings(runs, tmp_path):
    cells = {}
    for i, (seed, weight) in enumerate([(0, 1.0), (1, 1.0), (0, 3.0), (1, 3.0)]):
        shutil.copytree(runs["Fair"].path, out := tmp_path / f"00{i}")
        (out / "SHA256SUMS").unlink()
        record = json.loads((out / "pipeline.json").read_text())
        record["fit"]["seed"], record["objective"]["weights"] = seed, {"0": weight}
        (out / "pipeline.json").write_text(json.dumps(record))
        cells[out.name] = ccl.load(out)
    (panel,) = Bars("knn/top1")(cells).axes
    named = [each.get_text() for each in panel.get_yticklabels()]
    assert sorted(named) == ["weights.0 1.0 (2 seeds)", "weights.0 3.0 (2 seeds)"]


def test_what_is_kept_and_leaked_are_the_evaluators_of_label_and_column(runs):
    """Every run that was evaluated on the column is there, also the one without the condition."""
    (panel,) = KeptAndLeaked()(runs).axes
    lines = [line for line in panel.lines if line.get_marker() != "None"]
    points = {(line.get_xdata()[0], line.get_ydata()[0]) for line in lines}
    for run in runs.values():
        assert (run.metrics["color/r2"], run.metrics["knn/top1"]) in points
        assert (run.before["color/r2"], run.before["knn/top1"]) in points
    assert len(points) == 3  # both began with one network
    hidden = KeptAndLeaked()({"_Fair": runs["Fair"]})  # matplotlib leaves out such names
    assert [each.get_text() for each in hidden.legends[0].texts] == ["_Fair", "before training"]
    assert panel.get_xlabel().startswith("color/r2 (color leaks →)")
    assert panel.get_ylabel().startswith("knn/top1 (label is kept →)")
    flipped = KeptAndLeaked(leaked="color/mse")(runs).axes[0]
    assert flipped.xaxis_inverted()  # a large error: little of the color is held


@pytest.mark.parametrize("leak", [-0.08, -0.06, -0.01, 1.05])
def test_every_point_of_what_is_kept_and_leaked_is_inside(leak):
    panel = Figure().subplots()
    panel.plot([leak, 0.5], [0.3, 0.9])
    measured = Measurement("color/r2", 0.5)
    _scale(panel, measured, measured)
    low, high = panel.get_xlim()
    assert low < leak < high


def test_what_no_evaluator_reads_of_a_condition_is_not_drawn(runs, tmp_path):
    with pytest.raises(DoesNotApply, match="no run was evaluated on a column that a condition"):
        KeptAndLeaked()({"InfoNCE": runs["InfoNCE"]})
    shutil.copytree(runs["Fair"].path, out := tmp_path / "run")
    measure_anew(out)
    with pytest.raises(DoesNotApply, match="no run was measured by both knn/top1 and color/r2"):
        KeptAndLeaked()({"run": ccl.load(out)})


def test_the_information_plane_has_the_conditions_of_the_runs(runs):
    found = InformationPlane()(runs)
    label = runs["Fair"].splits[0].metadata["label"]
    groups = runs["Fair"].condition_tables()["groups"].values
    about = information(groups, label)
    panel = found.axes[0]
    points = [
        (line.get_xdata()[0], line.get_ydata()[0]) for line in panel.lines if len(line.get_xdata())
    ]
    assert pytest.approx((about.conditional_entropy, about.mutual)) in points
    with pytest.raises(DoesNotApply, match="no run has a categorical condition with a table"):
        InformationPlane()({"InfoNCE": runs["InfoNCE"]})


def test_samples_without_a_label_are_not_on_the_information_plane(runs, monkeypatch):
    label = runs["Fair"].splits[0].metadata["label"].clone()
    label[::3] = -1
    monkeypatch.setattr(information_plane, "_target", lambda _: label)
    found = InformationPlane()({"_Fair": runs["Fair"]})
    star, each_sample = found.axes[0].lines[1:3]
    known = label[label >= 0]
    bits = entropy(known)
    assert star.get_xydata().tolist() == [[0, bits]]
    assert each_sample.get_xydata().tolist() == [[math.log2(len(known)) - bits, bits]]
    assert [each.get_text() for each in found.legends[0].texts][2:] == ["_Fair"]
    # One class: it has no bits.
    monkeypatch.setattr(information_plane, "_target", lambda _: torch.zeros_like(label))
    assert InformationPlane()({"Fair": runs["Fair"]}).axes[0].get_ylim() == (0, 1)


COMPARING = (EmbeddingMap, Anchor, Similarity, Bars, KeptAndLeaked, InformationPlane)


@pytest.mark.parametrize("figure", COMPARING)
def test_runs_of_different_data_sets_are_not_compared(figure, runs, tmp_path):
    shutil.copytree(runs["Fair"].path, out := tmp_path / "other")
    record = json.loads((out / "pipeline.json").read_text())
    record["dataset"]["seed"] = 5
    (out / "pipeline.json").write_text(json.dumps(record))
    with pytest.raises(DoesNotApply, match="InfoNCE and other were trained on different data sets"):
        figure()({"InfoNCE": runs["InfoNCE"], "other": ccl.load(out)})


def test_names_that_no_run_has_are_refused(runs):
    with pytest.raises(ValueError, match=r"has no column and no condition 'age'; it has 'label', "):
        EmbeddingMap("age")(runs)
    with pytest.raises(ValueError, match="there are no runs to draw"):
        Bars()({})


def test_collapsed_features_have_no_map(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(similarity, "MOST", 50)
    shutil.copytree(runs["InfoNCE"].path, out := tmp_path / "run")
    run = ccl.load(out)
    with torch.no_grad():
        for parameter in run.parts.method.backbone.parameters():
            parameter.zero_()
    with pytest.raises(DoesNotApply, match="cannot be drawn: they have collapsed"):
        EmbeddingMap("label")({"run": run})
    both = {"run": run, "Fair": runs["Fair"]}
    assert [axes.get_title() for axes in EmbeddingMap("label", "pca")(both).axes] == [
        "Fair: by label"
    ]
    (panel,) = Similarity()(both).axes
    assert panel.get_title().startswith("Fair: r = ")


def test_a_constant_condition_is_named():
    for values in (torch.ones(9, 2), torch.zeros(9, dtype=torch.long)):
        value_type = "continuous" if values.is_floating_point() else "categorical"
        with pytest.raises(
            DoesNotApply, match="condition 'age' has the same value in all of 9 samples"
        ):
            known_rows([Values(values, value_type, name="age")], 20)
    with pytest.raises(DoesNotApply, match="condition 'age' is known of 0 samples only"):
        known_rows([Values(torch.full((9,), torch.nan), "continuous", name="age")], 20)


def test_of_a_large_split_only_what_is_drawn_is_encoded(runs, monkeypatch):
    monkeypatch.setattr("ccl_plugins.figures.samples.LARGE", 10)
    run, rows = ccl.load(runs["Fair"].path), torch.tensor([3, 5, 150])
    monkeypatch.setattr(run, "features", None)
    expected = runs["Fair"].features("test").features[rows]
    torch.testing.assert_close(features(run, "test", rows), expected)


def test_a_map_leaves_out_a_condition_whose_table_is_lost(runs, tmp_path):
    shutil.copytree(runs["Fair"].path, out := tmp_path / "run")
    shutil.rmtree(out / "checkpoints")
    found = EmbeddingMap(method="pca")({"Fair": ccl.load(out)})
    assert [axes.get_title() for axes in found.axes] == ["Fair: by label", "Fair: by color"]
    with pytest.raises(FileNotFoundError, match="no checkpoint, which would hold the tables"):
        EmbeddingMap("groups")({"Fair": ccl.load(out)})
    with pytest.raises(FileNotFoundError, match="no checkpoint, which would hold the tables"):
        Anchor()({"Fair": ccl.load(out)})


def test_a_run_that_has_no_weights_yet_is_named(runs, tmp_path):
    shutil.copytree(runs["Fair"].path, out := tmp_path / "run")
    (out / "weights.pt").unlink()
    shutil.rmtree(out / "checkpoints")
    with pytest.raises(FileNotFoundError, match="run holds no weights"):
        EmbeddingMap("label")({"run": ccl.load(out)})


def test_a_saved_figure_has_the_same_bytes_each_time(runs, tmp_path):
    for name in ("first", "second"):
        drawn = EmbeddingMap("color", "pca")({"Fair": ccl.load(runs["Fair"].path)})
        save(drawn, tmp_path / name)
    for ending in ("svg", "png"):
        first, second = (tmp_path / f"{name}.{ending}" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()
    text = (tmp_path / "first.svg").read_text()
    assert text.startswith("<svg")
    assert text == svg(drawn)
    assert "<metadata" not in text
    assert "Fair: by color" in text  # text stays text
    assert save(drawn, tmp_path / "linear.top1.png") == (
        tmp_path / "linear.top1.svg",
        tmp_path / "linear.top1.png",
    )


def test_on_paper_a_figure_is_a_column_wide_and_black_on_white(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(similarity, "MOST", 50)
    with on_paper():
        one, two = Curves(["loss"])(runs), Similarity("color")(runs)
        files = save(one, tmp_path / "loss")
    assert [file.suffix for file in files] == [".svg", ".png", ".pdf"]
    assert all(file.is_file() for file in files)
    assert (one.get_figwidth(), two.get_figwidth()) == COLUMNS
    assert one.get_facecolor() == (1, 1, 1, 1)
    (axes, *_) = one.axes
    assert {label.get_color() for label in axes.get_xticklabels()} == {"black"}
    assert axes.xaxis.label.get_color() == "black"
    on_screen = Curves(["loss"])(runs)
    assert on_screen.get_facecolor()[3] == 0
    assert on_screen.get_figwidth() != one.get_figwidth()


def test_pairs_of_a_kernel_of_two_values_have_two_boxes():
    panel = Figure().subplots()
    kernel, cosine = torch.tensor([0.0, 0, 0, 1, 1]), torch.tensor([0.1, 0.2, 0.3, 0.7, 0.9])
    _draw_pairs(panel, kernel.double(), cosine.double(), "black")
    medians = [line.get_ydata()[0] for line in panel.lines if len({*line.get_ydata()}) == 1]
    assert {0.2, 0.8} <= {round(float(each), 6) for each in medians}
    assert [float(tick) for tick in panel.get_xticks()] == [0, 1]


def test_a_notebook_shows_a_figure(runs):
    drawn = Curves(["loss"])(runs)
    assert drawn._repr_png_().startswith(b"\x89PNG")


@pytest.mark.slow
def test_drawing_leaves_matplotlib_as_it_was_and_needs_no_pyplot(runs):
    code = (
        "import sys, matplotlib; matplotlib.rcParams['font.size'] = 30\n"
        "import ccl_plugins as ccl\n"
        "from ccl_plugins.figures import svg\n"
        f"run = ccl.load({str(runs['Fair'].path)!r})\n"
        "figure = ccl.create('figure', 'curves', names=['loss'])({'a': run})\n"
        "svg(figure)\n"
        "assert figure.axes[0].title.get_size() == 10\n"
        "assert matplotlib.rcParams['font.size'] == 30\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    # Not forked: the process that tests fork from has imported pyplot.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_first_objective_with_a_kernel_is_read(runs):
    found = kernel_reading(runs["Fair"])
    assert (found.names, found.kernel_name) == (("color",), "RBF, scale 0.1")


def test_an_objective_whose_condition_has_a_table_is_read_before_one_of_each_step(monkeypatch):
    first, second = (FairCCLK(RBF(scale), 0.5, on=on) for scale, on in ((1.0, "now"), (2.0, "z")))
    run = SimpleNamespace(path="run", parts=SimpleNamespace(objective=Mixture([first, second])))
    known = {"now": SimpleNamespace(refresh="batch"), "z": SimpleNamespace(refresh="never")}
    monkeypatch.setattr(samples, "conditions_of", lambda _: known)
    assert kernel_reading(run).names == ("z",)
    assert kernel_reading(run, "now").names == ("now",)
