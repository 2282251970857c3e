from __future__ import annotations

import json

import pytest
import torch
from support import oracle

import ccl_plugins as ccl
from ccl_plugins import cli
from ccl_plugins.experiments.information import plane, sweep
from ccl_plugins.explore.information import tabulate
from ccl_plugins.information.entropies import Entropies, crossing, information, to_unit
from ccl_plugins.information.plane import best, plot


class Nested:
    """Classes of equal remainders: those of 2k follow from those of 4k."""

    refresh, value_type = "never", "categorical"
    levels = (2, 4, 8)

    def fit(self, split, embed, previous):
        return torch.stack([torch.arange(len(split)) % each for each in self.levels], 1)


class Halves:
    """Class ids of which one half is missing."""

    refresh, value_type, missing = "never", "categorical", "drop"

    def fit(self, split, embed, previous):
        ids = torch.arange(len(split)) % 3
        return ids.masked_fill(torch.arange(len(split)) % 2 == 0, -1)


def compose(**conditions):
    return ccl.Pipeline(
        dataset="color_digits",
        backbone="lenet5",
        objective="infonce",
        conditions=conditions,
    )


pytestmark = pytest.mark.filterwarnings("ignore:nothing in this pipeline reads:UserWarning")


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def test_points_are_the_information_of_each_table():
    points, left_out = plane(
        compose(
            digit="label",
            color={"use": "column", "name": "color"},
            own="embedding",
            found={"use": "clusters", "k": 4},
        ),
        "holes",
    )
    split = ccl.create("dataset", "color_digits")("train")
    (point,) = points
    assert (point.name, point.values, point.samples) == ("digit", 10, 1437)
    assert point.information == information(split.targets, split.metadata["holes"])
    assert [line.split(":")[0] for line in left_out] == [
        "color is continuous",
        "own is continuous",
        "found has refresh 'epoch'",
    ]


def test_every_level_of_a_hierarchy_is_a_point():
    points, _ = plane(compose(parity=Nested()))
    assert [(p.name, p.values) for p in points] == [
        ("parity[0]", 2),
        ("parity[1]", 4),
        ("parity[2]", 8),
    ]
    entropies = [p.information.entropy for p in points]
    torch.testing.assert_close(number(entropies), number([1.0, 2.0, 3.0]), rtol=1e-4, atol=0)


def test_samples_without_a_value_are_not_counted():
    with pytest.warns(UserWarning, match="missing in 719 of 1437"):
        (point,), _ = plane(compose(half=Halves()))
    assert (point.values, point.samples) == (3, 718)


def test_a_sweep_sets_the_parameter_of_the_condition_that_has_it():
    columns = ["holes", "ink", "slant", "width", "side", "balance"]
    pipeline = compose(digit="label", weak={"use": "attributes", "columns": columns, "k": "auto"})
    points = sweep(pipeline, "k", range(1, 19))
    mutual = [p.information.mutual for p in points]
    assert mutual == sorted(mutual)
    chosen, _ = plane(pipeline)
    assert best(points).information == chosen[1].information


@pytest.mark.parametrize(
    ("parameter", "on", "words"),
    [
        ("depth", None, "no condition of the pipeline has a parameter 'depth'"),
        ("name", None, "a, b have a parameter 'name': say which"),
        ("name", "c", "has no condition 'c'; it has 'a', 'b'"),
        ("value_type", "a", "is multi_label with refresh 'never'"),
    ],
)
def test_a_sweep_that_is_not_clear_is_refused(parameter, on, words):
    pipeline = compose(a={"use": "column", "name": "ink"}, b={"use": "column", "name": "holes"})
    with pytest.raises(ValueError, match=words):
        sweep(pipeline, parameter, ["multi_label"], on=on)


def test_a_target_must_be_a_column_of_class_ids():
    with pytest.raises(ValueError, match="no column 'species'; it has label, digit"):
        plane(compose(digit="label"), "species")
    with pytest.raises(ValueError, match=r"'color' holds torch.float32 of shape \(1437, 3\)"):
        plane(compose(digit="label"), "color")
    with pytest.raises(
        ValueError, match="no categorical condition that is fitted once; own is continuous"
    ):
        plane(compose(own="embedding"))


def test_the_crossing_is_that_of_the_paper():
    case = oracle.case("info_plane_k_selection")
    extras, scales = case["extras"], (7.0, 3.0)
    candidates = [
        Entropies(0.0, 1 + scales[1] * h, 2 + scales[0] * i)
        for i, h in zip(extras["I_norm"], extras["H_norm"], strict=True)
    ]
    torch.testing.assert_close(to_unit(candidates, "mutual"), number(extras["I_norm"]))
    k_grid = case["params"]["k_grid"]
    assert k_grid[crossing(candidates)] == case["expected_paper"]


def test_the_crossing_where_a_quantity_is_the_same_for_all():
    """A hierarchy of the target's classes: H(Z|T) is 0 at every level, and the finest is the best."""
    assert crossing([Entropies(i, 0.0, i) for i in (1.0, 2.0, 3.0)]) == 2
    assert crossing([Entropies(1.0, 0.5, 0.5)]) == 0
    with pytest.raises(ValueError, match="one Entropies or more"):
        crossing([])


def test_a_sweep_becomes_a_picture(tmp_path):
    points = sweep(
        compose(weak={"use": "attributes", "columns": ["holes", "ink"], "k": 1}), "k", [1, 2, 3]
    )
    plot(points, tmp_path / "plane.png", "k")
    assert (tmp_path / "plane.png").read_bytes().startswith(b"\x89PNG")
    assert [row["condition"] for row in tabulate(points, "label")] == ["1", "2", "3"]


PIPELINE = """
dataset = "color_digits"
backbone = "lenet5"
objective = "cl_infonce"
condition = {use = "attributes", columns = ["holes", "ink"], k = 2}
"""


def test_the_command_prints_the_table_and_the_best(tmp_path, capsys):
    file = tmp_path / "p.toml"
    file.write_text(PIPELINE)
    assert cli.main(["information", str(file), "--against", "digit", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["condition"] == "condition"
    torch.testing.assert_close(number(row["H(Z)"]), number(row["I(Z;digit)"] + row["H(Z|digit)"]))
    picture = tmp_path / "plane.png"
    assert cli.main(["information", str(file), "--values", "k=1,2,3", "--plot", str(picture)]) == 0
    assert picture.is_file()
    assert "k = " in capsys.readouterr().out.splitlines()[-1]


def test_conditions_that_tell_nothing_or_seem_to_tell_all_are_noted(tmp_path, capsys):
    file = tmp_path / "p.toml"
    (tmp_path / "t.csv").write_text(
        "image,label,split,batch,file\n" + "".join(f"{i},{i % 2},train,b,f{i}\n" for i in range(4))
    )
    for i in range(4):
        (tmp_path / f"{i}").touch()
    dataset = f'{{use = "table", path = "{tmp_path}/t.csv", test_fraction = 0.5}}'
    one, each = '{use = "column", name = "batch"}', '{use = "column", name = "file"}'
    text = PIPELINE.replace('"color_digits"', dataset).replace("cl_infonce", "infonce")
    file.write_text(
        f"{text.partition('condition =')[0]}conditions = {{one = {one}, each = {each}}}"
    )
    with pytest.warns(UserWarning, match="nothing in this pipeline reads"):
        assert cli.main(["information", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "-0" not in shown
    assert "one has one value, so it tells nothing" in shown
    assert (
        "each has a value of its own for each sample, so it seems to tell all about label" in shown
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--against", "hue"], "the data set has no column 'hue'"),
        (["--values", "k"], "--values k: write PARAMETER=V,V,... as k=1,2,3"),
        (["--values", "k=1,,2"], "--values k=1,,2:"),
        (["--values", "k=1,99"], "k=99, but there are 6 binary attributes"),
        (["--plot", "x.png"], "--plot and --on belong to --values"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(tmp_path, capsys, words, message):
    file = tmp_path / "p.toml"
    file.write_text(PIPELINE)
    assert cli.main(["information", str(file), *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"ccl: {message}")
    assert error.count("\n") == 1
