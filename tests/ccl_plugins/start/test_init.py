"""`ccl init` writes a first pipeline for a folder or a table of images."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.image_samples import write_image

import ccl_plugins as ccl
from ccl_plugins.cli import main, read_command
from ccl_plugins.start import init as init_command

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

HEADER = "image,species,camera,age,count,bird_id,plumage,beak,caption"


@pytest.fixture
def birds(tmp_path, monkeypatch):
    """A table of 80 images of 20 pixels, with every kind of column."""
    monkeypatch.chdir(tmp_path)
    rows = [HEADER]
    for i in range(80):
        write_image(tmp_path / f"{i}.png", 3 * i, size=20)
        species, camera, bird = ("owl", "wren")[i % 2], "ABCD"[i // 2 % 4], 100 + i // 4
        age = "" if i in (7, 9) else f"{i % 13 / 2}"
        rows.append(
            f"{i}.png,{species},{camera},{age},{i % 40},{bird},{'pqr'[i % 3]},{i % 2},"
            f"a {species} on day {i}"
        )
    Path("birds.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def init(*words, source="birds.csv"):
    return main(["init", source, "--quick", "--yes", *words])


def chosen(*words, source="birds.csv"):
    """The tables of the file that would be written; without the command's look at the data, it is quick."""
    options = read_command("init")[1].parse_args([source, "--yes", *words])
    _, text, _ = init_command.chosen(options, Path(source), Path("new.toml"))
    return tomllib.loads(text)


@pytest.mark.parametrize(
    ("words", "objective", "condition"),
    [
        ("", "infonce", None),
        ("--keep species", "supcon", "label"),
        ("--keep age", "soft_infonce", {"standardize": True, "missing": "ignore"}),
        ("--keep count", "soft_infonce", {"name": "count"}),
        ("--weak camera", "cl_infonce", {"name": "camera"}),
        ("--weak plumage --weak beak", "cl_infonce", {"columns": ["plumage", "beak"], "k": 4}),
        ("--pairs bird_id", "cl_infonce", {"name": "bird_id"}),
        ("--suppress age", "fair_cclk", {"missing": "ignore"}),
        ("--suppress beak --batch 64", "fair_infonce", {"name": "beak"}),
        ("--suppress camera", "guided", None),
        ("--keep species --suppress bird_id", "guided", None),
        ("--weak camera --suppress age", "guided", None),
    ],
)
def test_a_wish_has_its_leaf(birds, words, objective, condition):
    tables = chosen(*words.split())
    assert tables["objective"]["use"] == objective
    assert tables["backbone"] == "lenet5"
    given = tables.get("condition")
    assert given == condition or condition.items() <= given.items()
    ccl.Pipeline.from_dict(tables)


def test_a_file_says_what_it_chose_and_why(birds, capsys):
    assert init("--keep", "age", "--suppress", "camera") == 0
    out = capsys.readouterr().out
    assert "'species' is the label" in out
    assert "'count' has 40 different whole numbers and is read as numbers" in out
    assert "birds.toml: Guided InfoNCE: features keep age and forget camera." in out
    assert out.endswith("next:\n  ccl train birds.toml\n")
    text = Path("birds.toml").read_text()
    assert "Written by `ccl init birds.csv --keep age --suppress camera`" in text
    assert "2 images have no age and are left out where age is read." in text.replace("\n# ", " ")
    measured = [(each["use"], each.get("column")) for each in tomllib.loads(text)["evaluate"]]
    assert ("regression", "age") in measured
    assert ("fairness", "camera") in measured


@pytest.mark.parametrize(
    ("words", "nothing"),
    [
        ("--suppress age", {"objective": "infonce"}),
        ("--suppress beak --batch 64", {"objective": "infonce"}),
        ("--keep species --suppress camera", {"objective.guides.1.weight": 0.0}),
    ],
)
def test_a_file_that_suppresses_says_what_to_compare_with(birds, words, nothing):
    assert init(*words.split()) == 0
    text = Path("birds.toml").read_text().replace("\n# ", " ")
    (command,) = re.findall(r" To compare, [^`]*: `ccl train birds.toml ([^`]*)`", text)
    given = shlex.split(command)
    assert given[-2:] == ["--out", "runs/nothing"]
    settings = [f"{key}={value}" for key, value in nothing.items()]
    assert given[:-2] == [word for each in settings for word in ("--set", each)]


def test_a_scale_is_that_of_a_tenth_of_the_pairs(birds):
    tables = chosen("--suppress", "age")
    given = {k: v for k, v in tables["dataset"].items() if k != "use"}
    age = ccl.create("dataset", "table", **given)("train").metadata["age"]
    values = age[~age.isnan()].double()
    z = (values - values.mean()) / values.std(correction=0)
    squares = (z[:, None] - z).square()
    tenth = squares[squares > 1e-12].quantile(0.1)
    assert tables["objective"]["kernel"]["scale"] == pytest.approx(float(tenth), rel=0.06)


def test_rare_values_are_drawn_together_or_guided(birds):
    assert chosen("--suppress", "bird_id")["objective"]["guides"][0]["by"] == "prototypes"
    rows = [
        f"{row},{'ab'[i % 2] if i else 'site'}"
        for i, row in enumerate(Path("birds.csv").read_text().splitlines())
    ]
    Path("sites.csv").write_text("\n".join(rows))
    tables = chosen("--suppress", "site", "--batch", "16", source="sites.csv")
    assert tables["sampler"] == {"use": "same_condition"}
    assert tables["objective"]["use"] == "infonce"


def test_a_small_batch_has_a_queue(birds):
    method = chosen("--keep", "species", "--batch", "8")["method"]
    assert (method["use"], method["queue_size"]) == ("moco_v2", 32)


def test_pairs_train_and_stay_in_one_split(birds):
    tables = chosen("--pairs", "bird_id")
    assert tables["dataset"]["group"] == "bird_id"
    assert tables["sampler"] == {"use": "conditional_pair", "own_pair": False}
    run = train(tables)
    assert "retrieval-bird_id/map" in run.evaluate()


def test_images_alone_train_without_a_class(birds, capsys):
    for i in range(80):
        Path("photos").mkdir(exist_ok=True)
        Path(f"{i}.png").rename(f"photos/{i}.png")
    assert init(source="photos") == 0
    assert "the images have no classes" in capsys.readouterr().out
    run = train(tomllib.loads(Path("photos.toml").read_text()))
    assert {"features/rankme", "projections/uniformity"} == run.evaluate().keys()


def test_what_looks_like_a_group_stays_in_one_split(birds):
    text = Path("birds.csv").read_text().replace("bird_id", "patient_id")
    Path("birds.csv").write_text(text)
    tables = chosen("--suppress", "patient_id")
    assert tables["dataset"]["group"] == "patient_id"
    assert tables["evaluate"][2] == {"use": "held", "column": "patient_id"}
    assert "count" not in tables["dataset"]["columns"]
    tables = chosen("--label", "patient_id", "--keep", "count")
    assert "group" not in tables["dataset"]
    assert tables["dataset"]["value_types"] == {"count": "continuous"}


def test_a_column_whose_values_are_in_one_split_alone_is_read_within_it(birds):
    header, *lines = Path("birds.csv").read_text().splitlines()
    rows = [
        f"{line},{'ABCDEFGH'[i // 10]},{'AB'[i % 2]}{i % 10 // 8},{'test' if i >= 60 else 'train'}"
        for i, line in enumerate(lines)
    ]
    Path("plates.csv").write_text("\n".join([f"{header},plate,well,split", *rows]))
    tables = chosen("--suppress", "plate", source="plates.csv")
    assert "group" not in tables["dataset"]
    assert [(each["use"], each.get("column")) for each in tables["evaluate"]] == [
        ("linear", None),
        ("knn", None),
        ("held", "plate"),
        ("mixing", "plate"),
        ("fairness", "plate"),
    ]
    options = read_command("init")[1].parse_args(["plates.csv", "--yes", "--suppress", "plate"])
    _, text, _ = init_command.chosen(options, Path("plates.csv"), Path("new.toml"))
    assert "# No plate is in both splits, so the probe is fitted to some of the test images" in text
    run = train(tables)
    assert {"held-plate/top1", "mixing-plate/ilisi"} <= run.evaluate().keys()
    assert chosen("--suppress", "well", source="plates.csv")["evaluate"][2]["use"] == "linear"
    tables = chosen("--label", "plate", source="plates.csv")
    assert tables["evaluate"] == [{"use": "held", "column": "label"}]


def train(tables, out="run"):
    pipeline = ccl.Pipeline.from_dict(tables | {"monitor": "off", "loggers": []})
    run = pipeline.fit(out=out, epochs=1, max_steps=1, workers=0, progress=False)
    assert run.progress[0] == 1
    return run


def test_folders_are_classes_and_splits(birds):
    for i in range(80):
        folder = Path("images", ("train", "val")[i // 60], ("owl", "wren")[i % 2])
        folder.mkdir(parents=True, exist_ok=True)
        Path(f"{i}.png").rename(folder / f"{i}.png")
    tables = chosen("--keep", "label", source="images")
    assert tables["dataset"] == {"use": "image_folder", "root": "images", "test": "val"}
    assert tables["condition"] == "label"
    assert chosen(source="images/train")["dataset"]["test_fraction"] == 0.2


@pytest.mark.parametrize(
    ("answers", "objective", "call"),
    [
        (["", ""], "infonce", "ccl init birds.csv`"),
        (["species", "", "", "40"], "supcon", "--keep species --batch 40"),
        (["1", "keep", "camera", ""], "guided", "--keep species --suppress camera"),
        (["camera", "weak", "0", ""], "cl_infonce", "--weak camera"),
        (["age", "2", "age", "suppress", "none", "", ""], "fair_cclk", "--suppress age"),
    ],
)
def test_a_terminal_is_asked_four_questions_at_most(
    birds, monkeypatch, capsys, answers, objective, call
):
    given = iter(answers)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: next(given))
    options = read_command("init")[1].parse_args(["birds.csv"])
    _, text, _ = init_command.chosen(options, Path("birds.csv"), Path("birds.toml"))
    assert capsys.readouterr().out.count("?\n") <= 3
    assert tomllib.loads(text)["objective"]["use"] == objective
    assert call in text


def test_a_question_without_an_answer_is_a_mistake(birds, monkeypatch, capsys):
    def closed(question):
        raise EOFError

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", closed)
    assert main(["init", "birds.csv"]) == 2
    assert "a question got no answer: --yes asks no questions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--keep specie", "there is no column 'specie'; there are species, camera, age, count"),
        ("--keep species --weak species", "'species' has two wishes"),
        ("--keep species --weak camera", "one file is for one of keep, weak, pairs and captions"),
        ("--weak age", "weak labels and pairs are classes, and 'age' has numbers"),
        ("--captions age", "captions are texts, and 'age' has numbers"),
        ("--keep caption", "'caption' has texts, which are captions"),
        ("--batch 100", "a batch of 100 images is more than the 64 to train on"),
        ("--label age", "the label must be classes, and have a value for every image: 'age' has"),
        ("--image photo", "has no column 'photo'"),
        ("--type age", "--type needs COLUMN=TYPE, such as age=continuous, not 'age'"),
        ("--type age=number", "the value_type of 'age' must be one of"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_there(birds, capsys, words, message):
    assert init(*words.split()) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not Path("birds.toml").exists()


def test_nothing_is_made_of_nothing(birds, capsys):
    for source, message in (
        ("nowhere.csv", "there is no file nowhere.csv"),
        ("images.jsonl", "a table ends in .csv, .tsv or .parquet"),
        ("empty", "no images; images end in"),
        ("words.csv", "has no column of image files, such as 'owl/1.jpg'; it has name"),
        ("few.csv", "there are 4 images to train on: 16 or more are needed"),
    ):
        Path("empty").mkdir(exist_ok=True)
        Path("images.jsonl").write_text("{}")
        Path("words.csv").write_text("name\nowl\n")
        Path("few.csv").write_text("image\n" + "".join(f"{i}.png\n" for i in range(5)))
        assert init(source=source) == 2
        assert message in capsys.readouterr().err


def test_a_file_that_exists_is_not_changed(birds, capsys):
    Path("birds.toml").write_text("mine")
    assert init() == 2
    assert "birds.toml exists, and is not changed" in capsys.readouterr().err
    assert Path("birds.toml").read_text() == "mine"


COMPOUNDS = "file,compound,plate"


def write_tiff(path, seed, *, channels=5, dtype=np.uint16, size=(24, 24), high=4000):
    """A file of a page of noise for each channel."""
    draw = np.random.default_rng(seed)
    pages = [draw.integers(100, high, size).astype(dtype) for _ in range(channels)]
    first, *rest = [Image.fromarray(page) for page in pages]
    path.parent.mkdir(exist_ok=True)
    first.save(path, save_all=True, append_images=rest)


@pytest.fixture
def wells(tmp_path, monkeypatch):
    """A table of 48 images of five channels of 16 bits, of three compounds on six plates."""
    monkeypatch.chdir(tmp_path)
    rows = [COMPOUNDS]
    for i in range(48):
        write_tiff(tmp_path / "im" / f"{i}.tif", i)
        rows.append(f"im/{i}.tif,{'abc'[i % 3]},p{i // 8}")
    Path("wells.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def written(source="wells.csv"):
    return tomllib.loads(Path(source).with_suffix(".toml").read_text())


def advised(capsys, option, *words, source="wells.csv"):
    """Run into a dead end, and run again with the option that its message names; the file it writes."""
    assert init(*words, source=source) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert not Path(source).with_suffix(".toml").exists()
    given = re.search(rf"{option}[ =]\S+", error)
    assert given, error
    more = shlex.split(given[0].rstrip(";:,.)"))
    assert init(*words, *more, source=source) == 0, capsys.readouterr().err
    return written(source)


def test_five_channels_of_16_bits_train_without_an_edit(wells, capsys):
    assert main(["init", "wells.csv", "--yes", "--keep", "compound"]) == 0
    tables = written()
    assert tables["dataset"]["mode"] == "all"
    low, high = tables["dataset"]["levels"]
    assert 100 <= low < 110
    assert 3980 < high < 4000
    assert tables["backbone"] == {"use": "lenet5", "in_channels": 5}
    transform = tables["transform"]
    assert transform["mean"] == pytest.approx([0.5] * 5, abs=0.02)
    assert transform["std"] == pytest.approx([0.288] * 5, abs=0.02)
    assert [transform[name] for name in ("jitter", "gray", "blur")] == [0.5, 0.0, 0.0]
    said = capsys.readouterr().out
    assert "the images have 5 channels in 5 pages: --mode all reads all of them" in said
    assert "is the range of 48 of 48 images" in said
    assert "linear/top1" in train(tables).evaluate()


def test_what_is_kept_is_the_label_where_none_is_called_so(wells, capsys):
    assert chosen("--keep", "compound", source="wells.csv")["dataset"]["label"] == "compound"
    assert chosen(source="wells.csv")["dataset"]["label"] == ""
    given = chosen("--keep", "compound", "--label", "", source="wells.csv")
    assert given["dataset"]["label"] == ""


def test_a_plate_comes_into_one_split_and_can_be_declined(wells, capsys):
    assert init(source="wells.csv") == 0
    assert "'plate' looks like a group" in capsys.readouterr().out
    assert written()["dataset"]["group"] == "plate"
    assert "group" not in chosen("--group", "none", source="wells.csv")["dataset"]
    given = chosen("--group", "compound", source="wells.csv")["dataset"]
    assert given["group"] == "compound"
    # Each compound on a plate of its own cannot be in both splits.
    rows = [COMPOUNDS, *(f"im/{i}.tif,{'abc'[i % 3]},p{i % 3}" for i in range(48))]
    Path("wells.csv").write_text("\n".join(rows))
    Path("wells.toml").unlink()
    assert init("--keep", "compound", source="wells.csv") == 0
    assert "'plate' looks like a group, but images are not split by it" in capsys.readouterr().out
    assert "group" not in written()["dataset"]
    assert (
        init("--keep", "compound", "--group", "plate", "--out", "b.toml", source="wells.csv") == 2
    )
    assert "all in one group" in capsys.readouterr().err


def test_a_test_split_of_one_donor_is_noted_with_the_finer_groups(wells, capsys):
    """With more donors there is nothing to say, nor where the user has named the split of each image."""
    few = "the test split has 1 of the 3 values of 'donor', so what is measured there may not hold"
    finer = ". --group 'plate id' (12 values) splits into smaller groups, but then images of one donor may"
    for donors, noted in ((3, True), (24, False)):
        each = 48 // donors
        rows = [f"im/{i}.tif,{'ab'[i % 2]},d{i // each},p{i // 4},b{i // 24}" for i in range(48)]
        Path("wells.csv").write_text("\n".join(["file,compound,donor,plate id,batch", *rows]))
        assert init("--keep", "compound", source="wells.csv") == 0
        told = capsys.readouterr().out
        assert written()["dataset"]["group"] == "donor"
        assert (few in told) == (finer in told) == noted
        Path("wells.toml").unlink()
    split = ["file,compound,donor,part"]
    split += [
        f"im/{i}.tif,{'ab'[i % 2]},d{i // 16},{'train' if i < 32 else 'test'}" for i in range(48)
    ]
    Path("wells.csv").write_text("\n".join(split))
    assert init("--keep", "compound", "--group", "donor", source="wells.csv") == 0
    assert few not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["Plate ID", "Metadata-Plate", "plate.no", "Patient ID"])
def test_a_group_is_found_by_a_name_of_several_words(wells, name):
    rows = Path("wells.csv").read_text().splitlines()
    rows = [f"file,compound,{name}", *(f"{row[:-2]}p{i // 2}" for i, row in enumerate(rows[1:]))]
    Path("wells.csv").write_text("\n".join(rows))
    assert chosen(source="wells.csv")["dataset"]["group"] == name


def test_files_may_be_relative_to_a_folder_of_another_name(wells, capsys):
    Path("tables").mkdir()
    Path("wells.csv").rename("tables/wells.csv")
    assert init(source="tables/wells.csv") == 2
    error = capsys.readouterr().err
    assert "none of the 48 images of tables/wells.csv exists, such as tables/im/0.tif" in error
    assert "--root FOLDER names the folder that the files are relative to" in error
    assert chosen("--root", ".", source="tables/wells.csv")["dataset"]["root"] == "."


@pytest.mark.parametrize("quick", [[], ["--quick"]])
def test_no_file_is_written_where_no_image_can_be_read(wells, capsys, quick):
    for file in Path("im").iterdir():
        file.write_bytes(file.read_bytes()[:40])
    assert main(["init", "wells.csv", "--yes", *quick]) == 2
    error = capsys.readouterr().err
    assert "48 of 48 images of wells.csv cannot be read: im/0.tif: " in error
    assert error.count("\n") == 1
    assert main(["init", "wells.csv", "--yes", "--on-error", "skip", *quick]) == 2
    assert "48 of 48 images of wells.csv cannot be read: im/0.tif: " in capsys.readouterr().err
    assert not Path("wells.toml").exists()


def test_unreadable_images_are_counted_and_left_out_as_advised(wells, capsys):
    for i in (3, 20):
        file = Path(f"im/{i}.tif")
        file.write_bytes(file.read_bytes()[:300])
    words = ["init", "wells.csv", "--yes"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert re.search(r"[12] of \d+ images of train cannot be read: im/", error)
    assert "--on-error skip leaves them out" in error
    assert not Path("wells.toml").exists()
    assert main([*words, "--on-error", "skip"]) == 0
    assert "cannot be used: im/" in capsys.readouterr().out
    assert written()["dataset"]["on_error"] == "skip"
    train(written())


def test_missing_images_are_left_out_as_advised(wells, capsys):
    Path("im/3.tif").unlink()
    assert advised(capsys, "--on-error")["dataset"]["on_error"] == "skip"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le", "utf-16"])
def test_a_table_of_another_encoding_is_read_as_advised(wells, capsys, encoding):
    text = Path("wells.csv").read_text().replace(",a,", ",Wirkstoff für Zellen,")
    Path("wells.csv").write_text(text, encoding=encoding)
    if encoding == "utf-16":  # its first bytes say so
        assert init(source="wells.csv") == 0
        return
    tables = advised(capsys, "--encoding", "--keep", "compound")
    data = {key: value for key, value in tables["dataset"].items() if key != "use"}
    words = ccl.create("dataset", "table", **data)("train").vocabulary["label"]
    assert "Wirkstoff für Zellen" in words


@pytest.mark.slow
def test_several_depths_have_levels_of_each(wells, capsys):
    for i in range(0, 48, 2):
        write_tiff(Path(f"im/{i}.tif"), i, dtype=np.uint8, high=250)
    assert init(source="wells.csv") == 0
    levels = written()["dataset"]["levels"]
    assert levels.keys() == {"uint16"}
    train(written())
    words = ["--levels", "0,4095", "--out", "other.toml"]
    assert init(*words, source="wells.csv") == 2
    error = capsys.readouterr().err
    given = re.findall(r"--levels ((?:uint8|uint16)=\S+)", error)
    assert len(given) == 2, error
    more = [word for each in given for word in ("--levels", each.rstrip(";:"))]
    assert init(*more, *words[2:], source="wells.csv") == 0
    assert tomllib.loads(Path("other.toml").read_text())["dataset"]["levels"].keys() == {
        "uint8",
        "uint16",
    }


def test_floats_and_gray_of_16_bits_train(wells):
    for i in range(48):
        write_tiff(Path(f"im/{i}.tif"), i, channels=1, dtype=np.float32)
    tables = chosen("--keep", "compound", source="wells.csv")
    assert tables["dataset"].keys() >= {"levels"}
    assert "mode" not in tables["dataset"]
    assert len(tables["transform"]["mean"]) == 3
    train(tables)
    tables = chosen("--keep", "compound", "--mode", "L", source="wells.csv")
    assert tables["backbone"] == {"use": "lenet5", "in_channels": 1}
    assert len(tables["transform"]["mean"]) == 1
    train(tables, "gray")


def test_pages_that_are_no_channels_are_read_as_advised(wells, capsys):
    for i in range(48):
        pages = [Image.new("L", (size, size), 4 * i) for size in (24, 12)]
        pages[0].save(f"im/{i}.tif", save_all=True, append_images=pages[1:])
    tables = advised(capsys, "--page")
    assert tables["dataset"]["page"] == 0


def test_every_channel_is_read_as_advised(wells, capsys):
    tables = advised(capsys, "--mode", "--mode", "RGB")
    assert tables["dataset"]["mode"] == "all"


def test_arrays_are_images(wells):
    for i in range(48):
        draw = np.random.default_rng(i)
        np.save(f"im/{i}.npy", draw.integers(0, 900, (4, 24, 24)).astype(np.uint16))
    text = Path("wells.csv").read_text().replace(".tif", ".npy")
    Path("arrays.csv").write_text(text)
    tables = chosen(source="arrays.csv")
    assert tables["backbone"]["in_channels"] == 4


def test_a_folder_of_arrays_is_read(wells):
    for i in range(48):
        Path("arrays", "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        np.save(f"arrays/{'ab'[i % 2]}/{i}.npy", np.random.default_rng(i).random((2, 24, 24)))
    tables = chosen(source="arrays")
    assert tables["dataset"]["mode"] == "all"
    assert tables["backbone"]["in_channels"] == 2


@pytest.mark.slow
def test_a_long_run_has_a_shorter_one_proposed(wells, capsys, monkeypatch):
    monkeypatch.setattr(init_command, "LONG", 1e-6)
    assert main(["init", "wells.csv", "--yes"]) == 0
    assert "minutes here: ccl train wells.toml --set fit.epochs=1\n" in capsys.readouterr().out


def test_images_of_several_numbers_of_channels_are_refused(wells, capsys):
    write_tiff(Path("im/5.tif"), 5, channels=3)
    assert init(source="wells.csv") == 2
    assert (
        "they have 3 channels, such as im/5.tif and 5 channels, such as im/"
        in capsys.readouterr().err
    )


def test_larger_images_of_many_channels_have_a_backbone_and_views_of_them(wells):
    for i in range(48):
        write_tiff(Path(f"im/{i}.tif"), i, size=(100, 100), channels=2)
    tables = chosen(source="wells.csv")
    assert tables["backbone"]["options"]["in_chans"] == 2
    assert tables["transform"]["size"] == 64
    train(tables)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--levels 4095",
            "--levels needs BLACK,WHITE, such as 0,4095, or by type, such as uint16=0,4095",
        ),
        ("--levels 9,1", "levels must be the pixels' values of black and white"),
        ("--levels uint12=0,9", "the type of levels must be one of"),
        ("--levels 0,9 --levels 0,8", "--levels are given once, or once for each type"),
        ("--mode rgb", "mode must be one of"),
        ("--page -1", "page must be"),
        ("--on-error raise", "on_error must be one of"),
        ("--encoding klingon", "encoding must be one that Python knows, not 'klingon'"),
        ("--group plates", "has no column 'plates'"),
        ("--test-fraction 2", "must lie between 0 and 1"),
    ],
)
def test_a_mistake_in_how_images_are_read_is_one_line(wells, capsys, words, message):
    assert init(*words.split(), source="wells.csv") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not Path("wells.toml").exists()


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ('on_error="skip" leaves them out', "--on-error skip leaves them out"),
        ('on_error = "skip" of the data set leaves', "--on-error skip leaves"),
        ('as encoding = "cp1252"', "as --encoding cp1252"),
        ("is levels = [-5, 4095];", "is --levels=-5,4095;"),
        (
            "levels = {uint8 = [0, 255], int16 = [-1, 2]}",
            "--levels uint8=0,255 --levels int16=-1,2",
        ),
        ('mode = "all" reads', "--mode all reads"),
        ("page = 0 reads", "--page 0 reads"),
        ("group='plate': 2", "--group plate: 2"),
        ("give another seed, or", "give another --seed, or"),
        ("give a larger test_fraction,", "give a larger --test-fraction,"),
        (
            "t.csv: column 'a b' has 'x' among 1; declare the column categorical",
            "t.csv: column 'a b' has 'x' among 1; give --type 'a b=categorical'",
        ),
        (
            "column 'a' has 'NA' among 1: declare the column continuous if that cell is missing",
            "column 'a' has 'NA' among 1: give --type a=continuous if that cell is missing",
        ),
    ],
)
def test_a_message_of_a_data_set_names_options(text, option):
    assert init_command.as_options(text) == option
