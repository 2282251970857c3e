"""The features of a run as Parquet: what was written is what is read."""

from __future__ import annotations

import builtins
import errno
import io
import json
import math
import shutil

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from support.small_pipeline import TOML

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments.neighbors import nearest, thumbnail
from ccl_plugins.explore import viewer_file as module
from ccl_plugins.explore.viewer_file import embed

parquet = pytest.importorskip("pyarrow.parquet")

COLUMNS = {
    "label": torch.arange(32) % 2,
    "color": torch.rand(32, 3),
    "weight": torch.where(torch.arange(32) == 5, torch.nan, torch.arange(32.0)),
    "long": torch.arange(32 * 9).reshape(32, 9),
    "word": [None if i == 3 else "even" if i % 2 == 0 else "odd" for i in range(32)],
    "split": torch.arange(32),
    "color_0": 100 + torch.arange(32.0),
    "z_condition": 7 + torch.arange(32),
}


def rows(n):
    return {"features": torch.randn(n, 4), **{k: v[:n] for k, v in COLUMNS.items()}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    pipeline = ccl.Pipeline(
        dataset=ccl.create("dataset", "features", train=rows(32), test=rows(8)),
        backbone=ccl.backbone("mlp", in_features=4, hidden=[8]),
        method=ccl.method("simclr", hidden=8, dim=4),
        transform="noise",
        objective=ccl.objective("fair_infonce"),
        condition=ccl.condition("column", name="word", missing="ignore"),
        evaluate=[],
        fit={"epochs": 1, "batch_size": 16, "workers": 0},
    )
    with pytest.warns(UserWarning, match="missing in 1 of 32 samples"):
        return pipeline.fit(out=tmp_path_factory.mktemp("run"), progress=False)


@pytest.fixture(scope="module")
def table(run, tmp_path_factory):
    return parquet.read_table(embed(run, tmp_path_factory.mktemp("file") / "rows.parquet"))


def test_the_features_are_read_as_they_were_written(run, table):
    expected = torch.cat([run.features("train").features, run.features("test").features])
    assert torch.equal(torch.tensor(table["vector"].to_pylist()), expected)
    assert table["id"].to_pylist() == list(range(40))
    assert table["split"].to_pylist() == ["train"] * 32 + ["test"] * 8
    assert table["index"].to_pylist() == [*range(32), *range(8)]


def test_every_column_is_there_with_its_words_and_without_what_is_missing(table):
    assert table["label"].to_pylist() == [*(i % 2 for i in range(32)), *(i % 2 for i in range(8))]
    for i in range(3):
        found = torch.tensor(table[f"color_{i}"].to_pylist()[:32])
        assert torch.equal(found, COLUMNS["color"][:, i])
    assert table["word"].to_pylist()[:5] == ["even", "odd", "even", None, "even"]
    assert table["weight"].to_pylist()[4:7] == [4.0, None, 6.0]
    assert table["long"].to_pylist()[:32] == COLUMNS["long"].tolist()
    assert table["metadata_split"].to_pylist()[:32] == list(range(32)), "a name of the layout"


def test_no_column_takes_the_place_of_another(table):
    assert table["metadata_color_0"].to_pylist()[:2] == [100.0, 101.0]
    assert table["metadata_z_condition"].to_pylist()[:2] == [7, 8]
    assert table["metadata_split"].to_pylist()[:2] == [0, 1]


def test_words_of_several_attributes_are_a_column_for_each():
    column = module._Column(torch.eye(3), torch.zeros(3).bool(), ("wet", "dark", "far"))
    found = dict(column.arrays("tags", slice(0, 3)))
    assert [*found] == ["tags_0", "tags_1", "tags_2"]
    assert found["tags_1"].to_pylist() == [0, 1, 0]


def test_conditions_are_those_of_training_and_empty_for_test_samples(run, table):
    values = run.condition_tables()["condition"].values.tolist()
    expected = [None if value < 0 else value for value in values] + [None] * 8
    assert table["z_condition"].to_pylist() == expected
    assert expected[3] is None


def test_neighbors_are_row_numbers_in_the_layout_of_embedding_atlas(run, table):
    found = table["neighbors"].to_pylist()
    features = torch.cat([run.features("train").features, run.features("test").features])
    cosine = torch.nn.functional.cosine_similarity(features[:, None], features[None], dim=2)
    for i, each in enumerate(found):
        assert {*each} == {"ids", "distances"}
        assert i not in each["ids"]
        assert len(each["ids"]) == 15
        torch.testing.assert_close(
            torch.tensor(each["distances"]), 1 - cosine[i, each["ids"]], atol=1e-5, rtol=0
        )
        others = [j for j in range(40) if j != i and j not in each["ids"]]
        assert cosine[i, others].max() <= cosine[i, each["ids"]].min() + 1e-6
        assert each["distances"] == sorted(each["distances"])


def test_the_coordinates_are_finite_and_repeat(run, table, tmp_path):
    again = parquet.read_table(embed(run, tmp_path / "again.parquet"))
    for axis in ("projection_x", "projection_y"):
        assert all(map(math.isfinite, table[axis].to_pylist()))
        assert table[axis].to_pylist() == again[axis].to_pylist()
    other = parquet.read_table(embed(run, tmp_path / "pca.parquet", method="pca"))
    assert other["projection_x"].to_pylist() != table["projection_x"].to_pylist()


@pytest.mark.parametrize(("split", "n"), [("train", 32), ("test", 8)])
def test_one_split_alone(run, tmp_path, split, n):
    found = parquet.read_table(
        embed(run, tmp_path / "one.parquet", split=split, neighbors=50, method="pca")
    )
    assert found["split"].to_pylist() == [split] * n
    assert all(len(each["ids"]) == n - 1 for each in found["neighbors"].to_pylist())
    assert ("z_condition" in found.column_names) is (split == "train")


def test_many_rows_are_written_in_groups(run, table, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 12)
    monkeypatch.setattr("ccl_plugins.experiments.neighbors.PART", 100)
    file = embed(run, tmp_path / "rows.parquet")
    assert parquet.ParquetFile(file).num_row_groups == 4
    found = parquet.read_table(file)
    assert found.drop_columns(["neighbors"]).equals(table.drop_columns(["neighbors"]))
    ids = [[each["ids"] for each in t["neighbors"].to_pylist()] for t in (found, table)]
    assert ids[0] == ids[1]


def test_the_file_has_the_record_of_the_run(run, table):
    assert json.loads(table.schema.metadata[b"ccl_plugins"]) == run.record


def test_without_neighbors_there_is_no_such_column(run, tmp_path):
    file = embed(run, tmp_path / "none.parquet", neighbors=0, method="pca")
    assert "neighbors" not in parquet.read_schema(file).names


@pytest.mark.parametrize("kind", ["files", "pictures"])
def test_images_have_their_files_or_small_pictures(kind, tmp_path):
    for split in ("train", "test"):
        for name in ("a", "b"):
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(4):
                path = tmp_path / split / name / f"{i}.png"
                Image.new("RGB", (32, 32), (10 * i, 0, 0)).save(path)
    dataset = ccl.dataset("image_folder", root=str(tmp_path))
    if kind == "pictures":
        dataset = ccl.dataset("color_digits", test_fraction=0.99)
    pipeline = ccl.Pipeline(
        dataset=dataset,
        backbone="lenet5",
        method=ccl.method("simclr", hidden=8, dim=4, batch_norm=False),
        transform=ccl.transform("simclr", size=32),
        objective="infonce",
        evaluate=[],
        fit={"epochs": 1, "batch_size": 4, "workers": 0},
    )
    run = pipeline.fit(out=tmp_path / "run", progress=False)
    words = {"split": "train", "method": "pca", "neighbors": 2}
    found = parquet.read_table(embed(run, tmp_path / "rows.parquet", **words))
    if kind == "files":
        assert found["image_path"].to_pylist() == run.splits[0].paths
        assert "image" not in found.column_names
        assert found["label"].to_pylist() == ["a"] * 4 + ["b"] * 4
    else:
        images = found["image"].to_pylist()
        assert "image_path" not in found.column_names
        for i in (0, 3):
            pixels = torch.tensor(list(Image.open(io.BytesIO(images[i]["bytes"])).tobytes()))
            expected = run.splits[0].images[i].permute(1, 2, 0).flatten()
            assert torch.equal(pixels, expected.long())


@pytest.mark.parametrize(
    ("image", "media"),
    [
        (torch.zeros(3, 32, 32, dtype=torch.uint8), "image/png"),
        (torch.rand(1, 20, 20), "image/png"),
        (torch.rand(3, 100, 80), "image/jpeg"),
        (Image.new("RGB", (300, 200)), "image/jpeg"),
        (Image.new("L", (30, 20)), "image/png"),
    ],
)
def test_a_small_picture_is_small(image, media):
    content, found = thumbnail(image)
    assert found == media
    assert len(content) < 4000


def test_a_vector_has_no_picture():
    assert thumbnail(torch.rand(4)) is None
    assert thumbnail(torch.rand(2, 3, 4, 5)) is None


def test_nearest_is_the_slow_loop(monkeypatch):
    monkeypatch.setattr("ccl_plugins.experiments.neighbors.PART", 60)
    queries, bank = torch.randn(17, 5), torch.randn(20, 5)
    ids, distances = nearest(queries, bank, 3)
    for i, query in enumerate(queries):
        cosines = [float(torch.cosine_similarity(query, row, dim=0)) for row in bank]
        best = sorted(range(20), key=lambda j: -cosines[j])[:3]
        assert ids[i].tolist() == best
        torch.testing.assert_close(distances[i], 1 - torch.tensor([cosines[j] for j in best]))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run that can be rebuilt from its folder."""
    folder = tmp_path_factory.mktemp("saved")
    for split, n in (("train", 32), ("test", 8)):
        columns = {"features": torch.randn(n, 4), "label": torch.arange(n) % 2}
        save_file(columns, folder / f"{split}.safetensors")
    (folder / "a.toml").write_text(
        TOML.replace('"train.', f'"{folder}/train.').replace('"test.', f'"{folder}/test.')
    )
    assert main(["train", str(folder / "a.toml"), "--out", str(folder), "--quiet"]) == 0
    return folder / "a"


def test_the_command_says_how_to_open_the_file(saved, tmp_path, capsys):
    file = tmp_path / "rows.parquet"
    assert main(["embed", str(saved), str(file)]) == 0
    words = "--x projection_x --y projection_y --neighbors neighbors"
    assert capsys.readouterr().out == f"{file}: embedding-atlas {file} {words}\n"
    assert parquet.read_metadata(file).num_rows == 40


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rows.csv"], "the file's name must end in .parquet, not 'rows.csv'"),
        (["rows.parquet", "--split", "dev"], "split must be one of 'train', 'test', 'both'"),
        (["rows.parquet", "--method", "mds"], "method must be one of 'pca', 'tsne', 'umap'"),
        (["rows.parquet", "--neighbors", "-1"], "neighbors must be 0 or more, not -1"),
    ],
)
def test_a_wrong_word_is_one_line(words, said, saved, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["embed", str(saved), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "extra"), [("pyarrow", "table"), ("umap", "umap")])
def test_a_missing_extra_is_one_line(name, extra, saved, tmp_path, monkeypatch, capsys):
    real = builtins.__import__

    def missing(module, *given, **options):
        if module.partition(".")[0] == name:
            raise ImportError(module)
        return real(module, *given, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert main(["embed", str(saved), str(tmp_path / "a.parquet"), "--method", "umap"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"ccl-plugins[{extra}]" in line


def test_a_run_without_weights_is_a_mistake(saved, tmp_path, capsys):
    shutil.copytree(saved, tmp_path / "empty")
    shutil.rmtree(tmp_path / "empty" / "checkpoints")
    (tmp_path / "empty" / "weights.pt").unlink()
    assert main(["embed", str(tmp_path / "empty"), str(tmp_path / "a.parquet")]) == 2
    assert "holds no weights" in capsys.readouterr().err


def test_a_full_disk_leaves_the_older_file_whole(run, tmp_path, monkeypatch):
    file = tmp_path / "rows.parquet"
    file.write_text("older")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(OSError, match=r"could not be written.*rows\.parquet"):
        embed(run, file, method="pca")
    assert file.read_text() == "older"
    assert [each.name for each in tmp_path.iterdir()] == ["rows.parquet"]
