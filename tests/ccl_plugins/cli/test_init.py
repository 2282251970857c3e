"""`ccl init` writes a first pipeline for a folder or a table of images."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from support.image_samples import write_image

import ccl_plugins as ccl
from ccl_plugins.cli import main, read_command
from ccl_plugins.commands import init as init_command

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
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_wish_has_its_leaf(birds, words, objective, condition):
    tables = chosen(*words.split())
    assert tables["objective"]["use"] == objective
    assert tables["backbone"] == "lenet5"
    given = tables.get("condition")
    assert given == condition or condition.items() <= given.items()
    ccl.Pipeline.from_dict(tables)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_file_says_what_it_chose_and_why(birds, capsys):
    assert init("--keep", "age", "--suppress", "camera") == 0
    out = capsys.readouterr().out
    assert "'species' is the label" in out
    assert "'count' has 40 different whole numbers and is read as numbers" in out
    assert "birds.toml: Guided InfoNCE: features keep age and forget camera." in out
    assert out.endswith("next:\n  ccl train birds.toml\n")
    text = Path("birds.toml").read_text()
    assert "Written by `ccl init birds.csv --keep age --suppress camera`" in text
    assert "2 images have no age and are left out where it is read." in text
    measured = [(each["use"], each.get("column")) for each in tomllib.loads(text)["evaluate"]]
    assert ("regression", "age") in measured
    assert ("fairness", "camera") in measured


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


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_small_batch_has_a_queue(birds):
    method = chosen("--keep", "species", "--batch", "8")["method"]
    assert (method["use"], method["queue_size"]) == ("moco_v2", 32)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_pairs_train_and_stay_in_one_split(birds):
    tables = chosen("--pairs", "bird_id")
    assert tables["dataset"]["group"] == "bird_id"
    assert tables["sampler"] == {"use": "conditional_pair", "own_pair": False}
    run = train(tables)
    assert "retrieval-bird_id/map" in run.evaluate()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_images_alone_train_without_a_class(birds, capsys):
    for i in range(80):
        Path("photos").mkdir(exist_ok=True)
        Path(f"{i}.png").rename(f"photos/{i}.png")
    assert init(source="photos") == 0
    assert "the images have no classes" in capsys.readouterr().out
    run = train(tomllib.loads(Path("photos.toml").read_text()))
    assert {"features/rankme", "projections/uniformity"} == run.evaluate().keys()


@pytest.mark.filterwarnings("ignore::UserWarning")
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


@pytest.mark.filterwarnings("ignore::UserWarning")
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
        ("fairness", "plate"),
    ]
    options = read_command("init")[1].parse_args(["plates.csv", "--yes", "--suppress", "plate"])
    _, text, _ = init_command.chosen(options, Path("plates.csv"), Path("new.toml"))
    assert "# No plate is in both splits, so that a probe is fitted within the test images" in text
    run = train(tables)
    assert run.evaluate()["held-plate/top1"] >= 0
    assert chosen("--suppress", "well", source="plates.csv")["evaluate"][2]["use"] == "linear"
    tables = chosen("--label", "plate", source="plates.csv")
    assert tables["evaluate"] == [{"use": "held", "column": "label"}]


def train(tables):
    pipeline = ccl.Pipeline.from_dict(tables | {"monitor": "off", "loggers": []})
    run = pipeline.fit(out="run", epochs=1, max_steps=1, workers=0, progress=False)
    assert run.progress[0] == 1
    return run


@pytest.mark.filterwarnings("ignore::UserWarning")
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
@pytest.mark.filterwarnings("ignore::UserWarning")
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
    assert "a question was not answered: --yes asks none" in capsys.readouterr().err


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
        ("--type age", "--type needs COLUMN=TYPE, as age=continuous, not 'age'"),
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
        ("words.csv", "has no column of image files, as 'owl/1.jpg'; it has name"),
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
