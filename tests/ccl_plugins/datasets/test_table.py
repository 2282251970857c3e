from __future__ import annotations

import pytest
import torch
from support.image_samples import truncate, write_image

from ccl_plugins.conditions import Column
from ccl_plugins.datasets import ImageTable
from ccl_plugins.datasets.image_files import UnreadableImage
from ccl_plugins.files import tables
from ccl_plugins.files.tables import read_table

TABLE = """image,species,split,has_wing,has_tail,age,closure
a.png,wren,train,1,0,1.5,Lace up
b.png,owl,test,0,1,,Buckle
c.png,crow,train,0,,2.5,
d.png,owl,train,1,1,0.5,Buckle
"""


def write(folder, text=TABLE, name="birds.csv"):
    (folder / name).write_text(text)
    return folder / name


@pytest.fixture
def path(tmp_path):
    for i, name in enumerate("abcd"):
        write_image(tmp_path / f"{name}.png", 10 * i)
    return write(tmp_path)


def open_table(path, **changes):
    given = {"label": "species", "split": "split", "blocks": {"attributes": ["has_*"]}}
    return ImageTable(path, **{**given, **changes})


def test_columns_become_metadata_by_what_they_hold(path):
    dataset = open_table(path)
    assert dataset.schema() == {
        "label": "categorical",
        "age": "continuous",
        "closure": "categorical",
        "attributes": "multi_label",
    }
    train = dataset("train")
    assert train.vocabulary == {"label": ["crow", "owl", "wren"], "closure": ["Buckle", "Lace up"]}
    nan = torch.nan
    expected = {
        "label": torch.tensor([2, 0, 1]),
        "age": torch.tensor([1.5, 2.5, 0.5]),
        "closure": torch.tensor([1, -1, 0]),
        "attributes": torch.tensor([[1.0, 0.0], [0.0, nan], [1.0, 1.0]]),
    }
    torch.testing.assert_close(train.metadata, expected, equal_nan=True)
    image, target = train[1]
    assert (image.getpixel((0, 0)), target) == ((20, 20, 20), 0)
    test = dataset("test")
    assert (len(test), test.metadata["label"].tolist()) == (1, [1])
    assert test.metadata["age"].isnan().all()


def test_a_schema_needs_no_image(tmp_path):
    assert open_table(write(tmp_path)).schema()["attributes"] == "multi_label"


def test_columns_can_be_chosen_and_their_measures_given(path):
    dataset = open_table(path, columns=["age"], value_types={"attributes": "continuous"})
    assert dataset.schema() == {
        "label": "categorical",
        "age": "continuous",
        "attributes": "continuous",
    }


def test_the_label_may_be_numbers_that_are_names(path):
    path.write_text(TABLE.replace("wren", "17").replace("owl", "2").replace("crow", "x"))
    with pytest.raises(ValueError, match="'species' has 'x' in row 4 among numbers such as '17'"):
        open_table(path).schema()
    dataset = open_table(path, value_types={"label": "categorical"})
    assert dataset("train").vocabulary["label"] == ["17", "2", "x"]


@pytest.mark.parametrize(
    ("wren", "owl"), [("007", "7"), ("1e5", "100000"), ("+7", "7"), ("1e+05", "2e+06")]
)
@pytest.mark.filterwarnings("ignore:.*may be a name or a number")
def test_labels_that_look_like_numbers_are_classes_of_their_own(path, wren, owl):
    path.write_text(TABLE.replace("wren", wren).replace("owl", owl).replace("crow", owl))
    dataset = open_table(path)
    assert dataset.schema()["label"] == "categorical"
    assert dataset("train").vocabulary["label"] == sorted([wren, owl])


def test_patients_of_two_tables_are_told_apart_by_their_zeros(path):
    train = write(path.parent, "image,label,patient\na.png,0,7\nb.png,1,8\n", "train.csv")
    test = write(path.parent, "image,label,patient\nc.png,0,007\nd.png,1,9\n", "test.csv")
    dataset = ImageTable(train, test=test, group="patient")
    assert dataset("test").vocabulary["patient"] == ["007", "7", "8", "9"]
    assert not {*dataset("train").metadata["patient"].tolist()} & {
        *dataset("test").metadata["patient"].tolist()
    }


def test_names_are_numbers_only_where_they_are_declared_so(path):
    path.write_text(TABLE.replace("1.5", "1e5").replace("2.5", "+7").replace("0.5", "08"))
    assert open_table(path).schema()["age"] == "categorical"
    ages = open_table(path, value_types={"age": "continuous"})("train").metadata["age"]
    assert ages.tolist() == [1e5, 7.0, 8.0]


def test_the_test_images_may_be_in_another_table(path):
    half = write(path.parent, "image,species,split\nd.png,gull,a\n", "test.csv")
    dataset = ImageTable(path, label="species", test=half, columns=[])
    assert dataset("train").vocabulary == {"label": ["crow", "gull", "owl", "wren"]}
    assert dataset("test").metadata["label"].tolist() == [1]
    assert len(dataset("train")) == 4


def test_a_parquet_table_is_the_same_and_may_hold_vectors(path):
    pyarrow = pytest.importorskip("pyarrow", reason="the extra 'table' is not installed")
    from pyarrow import csv, parquet

    table = csv.read_csv(
        path, convert_options=csv.ConvertOptions(strings_can_be_null=True, null_values=[""])
    )
    clip = pyarrow.array([[0.5, i] for i in range(4)], pyarrow.list_(pyarrow.float32(), 2))
    parquet.write_table(table.append_column("clip", clip), path.with_suffix(".parquet"))
    found = open_table(path.with_suffix(".parquet"))
    assert found.schema() == {**open_table(path).schema(), "clip": "continuous"}
    metadata = found("train").metadata
    torch.testing.assert_close(metadata.pop("clip"), torch.tensor([[0.5, 0], [0.5, 2], [0.5, 3]]))
    torch.testing.assert_close(metadata, open_table(path)("train").metadata, equal_nan=True)


def test_missing_images_are_counted_before_training(path):
    (path.parent / "c.png").unlink()
    message = r"c\.png \(row 4 of .*birds\.csv\): there is no such file \(1 of 3 are missing"
    with pytest.raises(UnreadableImage, match=message):
        open_table(path)("train")
    with pytest.warns(UserWarning, match=r"1 of 3 images .*c\.png \(row 4\): No such file"):
        train = open_table(path, on_error="skip")("train")
    assert train.metadata["label"].tolist() == [2, 1]
    assert [s.row for s in train.skipped] == [2]


def test_images_without_labels_lack_a_class(path):
    train = open_table(path, label="", columns=["species"])("train")
    assert train.metadata["label"].tolist() == [-1, -1, -1]
    assert train.metadata["species"].tolist() == [2, 0, 1]
    path.write_text(TABLE.replace("closure", "label"))
    with pytest.raises(
        ValueError, match="no column is the label, and there is another of the name"
    ):
        open_table(path, label="")("train")


@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_a_truncated_image_names_its_row_in_the_table(path, ending):
    truncate(write_image(path.parent / f"d.{ending}", size=64))
    path.write_text(TABLE.replace("d.png", f"d.{ending}"))
    train = open_table(path)("train")
    with pytest.raises(UnreadableImage, match=rf"d\.{ending} \(row 5 of .*birds\.csv\): "):
        train[2]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("c.png", "a.png", r"'a\.png' is in row 2 and row 4"),
        ("c.png", "", r"row 4: 'image' is empty"),
        (",crow", ",", r"row 4: 'species' is empty"),
        ("species", "kind", r"has no column 'species'; it has image, kind"),
        ("split", "part", "has no column 'split'; it has"),
        (",test", ",val", "no row has 'test' in 'split', but 'train', 'val'"),
        ("train,1,0", "train,yes,0", "'has_wing' has 'yes' in row 2 among numbers such as '0'"),
        ("closure", "label", "'species' is the label, and there is another of the name 'label'"),
        ("2.5", "old", "'age' has 'old' in row 4 among numbers"),
    ],
)
def test_a_table_that_is_not_right_is_told_where(path, old, new, message):
    path.write_text(TABLE.replace(old, new))
    with pytest.raises(ValueError, match=message):
        open_table(path)("test")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": ["agee"]}, "no column 'agee'; it has has_wing"),
        ({"blocks": {"b": ["is_*"]}}, r"block 'b': no column is one of \['is_\*'\]"),
        (
            {"blocks": {"b": ["closure"]}},
            "'b' needs numbers, but column 'closure' has 'Lace up'",
        ),
        ({"blocks": {"age": ["has_*"]}}, "block 'age' has the name of a column"),
        ({"value_types": {"attributes": "categorical"}}, None),
        ({"value_types": {"closure": "continuous"}}, "'closure' holds words"),
        ({"value_types": {"tail": "continuous"}}, "value_types names 'tail'"),
        ({"text": ["caption"]}, "has no column 'caption'; it has image, species"),
        ({"test_fraction": 0.5}, "give exactly one of split"),
        ({"split": None}, "give exactly one of split"),
        ({"on_error": "ignore"}, "'error', 'skip', not 'ignore'"),
    ],
)
def test_choices_that_are_not_right_are_quoted(path, changes, message):
    if message is None:  # 0 and 1 may be a hierarchy's class ids, and what is missing is then -1
        ids = open_table(path, **changes)("train").metadata["attributes"]
        assert ids.tolist() == [[1, 0], [0, -1], [1, 1]]
        return
    with pytest.raises(ValueError, match=message):
        open_table(path, **changes)("train")


def test_a_parquet_column_of_a_type_that_cannot_be_read_is_named_when_it_is_asked_for(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"image": ["a.png"], "species": ["owl"], "tags": [["a", "b"]]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "birds.parquet")
    dataset = ImageTable(tmp_path / "birds.parquet", label="species", test_fraction=0.5)
    assert dict(dataset.schema()) == {"label": "categorical"}
    with pytest.raises(ValueError, match=r"'tags' .* neither words nor numbers, but list<"):
        Column("tags", dataset=dataset)


CAPTIONED = """image,label,split,caption,title
a.png,wren,train,a wren on a twig,Wren
b.png,owl,test,1984,Owl
c.png,crow,train,"a crow, in snow",Crow
d.png,owl,train,an owl by night,Owl
"""


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_of_text_are_texts_and_no_classes(path, kind):
    path.write_text(CAPTIONED)
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="the extra 'table' is not installed")
        from pyarrow import csv, parquet, string

        options = csv.ConvertOptions(column_types={"caption": string()})
        path = path.with_suffix(".parquet")
        parquet.write_table(csv.read_csv(path.with_suffix(".csv"), convert_options=options), path)
    dataset = ImageTable(path, split="split", text=["caption"])
    assert dataset.schema() == {"label": "categorical", "title": "categorical"}
    assert dataset.texts() == ["caption"]
    train, test = dataset("train"), dataset("test")
    assert train.texts == {"caption": ["a wren on a twig", "a crow, in snow", "an owl by night"]}
    assert test.texts == {"caption": ["1984"]}
    assert list(train.metadata) == ["label", "title"]


def test_rows_without_a_text_can_be_left_out(path):
    path.write_text(CAPTIONED.replace('"a crow, in snow"', "  "))
    dataset = ImageTable(path, split="split", text=["caption"], on_error="skip")
    with pytest.warns(
        UserWarning, match=r"1 of 3 images .* cannot be used: .*c.png \(row 4\): 'capt"
    ):
        train = dataset("train")
    assert train.texts == {"caption": ["a wren on a twig", "an owl by night"]}
    assert [(s.row, s.reason) for s in train.skipped] == [(2, "'caption' is empty")]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"a crow, in snow"', "", r"row 4: 'caption' is empty; .* on_error=\"skip\" leaves"),
        ("1984", "  ", r"birds\.csv, row 3: 'caption' is empty"),
    ],
)
def test_a_missing_caption_is_named_by_its_row(path, old, new, message):
    path.write_text(CAPTIONED.replace(old, new))
    with pytest.raises(ValueError, match=message):
        ImageTable(path, split="split", text=["caption"], columns=[])("train")


@pytest.mark.parametrize(
    "other", [{"label": "caption"}, {"columns": ["caption"]}, {"split": "caption"}]
)
def test_a_column_of_text_is_nothing_else(path, other):
    with pytest.raises(ValueError, match="'caption' is named in text"):
        ImageTable(path, **{"split": "split", "text": ["caption"], **other})


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("image;label;age\na.png;Möwe;3,5\nb.png;Ente;4\n", {}),
        ("image\tlabel\tage\na.png\tMöwe\t3.5\nb.png\tEnte\t4\n", {}),
        ("image|label|age\na.png|Möwe|3.5\nb.png|Ente|4\n", {"sep": "|"}),
        ("image,label,age\na.png,Möwe,3.5\nb.png,Ente,4\n", {"encoding": "cp1252"}),
    ],
)
def test_a_table_is_read_as_it_comes(tmp_path, text, given):
    file = tmp_path / "birds.csv"
    file.write_bytes(text.encode(given.get("encoding", "utf-8-sig")))
    for name in ("a", "b"):
        write_image(tmp_path / f"{name}.png")
    split = ImageTable(file, test=file, **given)("train")
    assert split.vocabulary["label"] == ["Ente", "Möwe"]
    assert split.metadata["age"].tolist() == [3.5, 4.0]


def test_another_encoding_is_an_error_that_says_how_to_give_it(tmp_path):
    file = tmp_path / "birds.csv"
    file.write_bytes("image,label\na.png,Möwe\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r'birds\.csv, after row 0.*encoding = "cp1252"'):
        ImageTable(file, test=file)("train")
    with pytest.raises(ValueError, match="encoding must be one that Python knows, not 'cp-none'"):
        ImageTable(file, test=file, encoding="cp-none")("train")
    with pytest.raises(ValueError, match=r"birds\.csv, after row 0"):
        ImageTable(file, test=file, sep="ab")("train")


def test_yes_and_no_in_a_block_are_bits(tmp_path):
    path = write(tmp_path, "image,label,has_tail,has_fin\na.png,0,yes,No\nb.png,1,no,Yes\n")
    for name in ("a", "b"):
        write_image(tmp_path / f"{name}.png")
    dataset = ImageTable(path, test=path, blocks={"parts": ["has_*"]})
    assert dataset.schema()["parts"] == "multi_label"
    assert dataset("train").metadata["parts"].tolist() == [[1, 0], [0, 1]]


def test_a_small_parquet_file_of_a_billion_cells_is_refused_before_it_is_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = pyarrow.table({"image": ["a.png"] * 10**6, "label": [0] * 10**6})
    with parquet.ParquetWriter(tmp_path / "bomb.parquet", rows.schema) as writer:
        for _ in range(3):
            writer.write_table(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "CELL", 10**6)  # as if there were so many more
        with pytest.raises(
            ValueError, match=r"bomb\.parquet has 3000000 rows and 2 columns.* GiB of memory"
        ):
            read_table(tmp_path / "bomb.parquet")
    assert len(read_table(tmp_path / "bomb.parquet")["label"]) == 3 * 10**6


def messages(test, folder, **given):
    """What is said of the test split of two tables of three images, where something is wrong with it."""
    for i in range(6):
        write_image(folder / f"{i}.png")
    header = "image,label,patient\n"
    (folder / "train.csv").write_text(header + "".join(f"{i}.png,ab,{i}\n" for i in range(3)))
    (folder / "test.csv").write_text(header + test)
    dataset = ImageTable(folder / "train.csv", test=folder / "test.csv", **given)
    with pytest.raises((ValueError, OSError)) as caught:
        dataset("train"), dataset("test")[0]
    return str(caught.value)


@pytest.mark.parametrize(
    ("test", "given", "said"),
    [
        ("3.png,ab,4\n4.png,,5\n", {}, "test.csv, row 3: 'label' is empty"),
        ("3.png,ab,4\n3.png,ab,5\n", {}, "test.csv: '3.png' is in row 2 and row 3"),
        ("3.png,ab,4\n9.png,ab,5\n", {}, "9.png (row 3 of "),
        (
            "3.png,ab,4\n4.png,ab,\n",
            {"group": "patient"},
            "1 samples have no value, such as row 3 of ",
        ),
    ],
)
def test_a_row_is_that_of_the_table_that_is_meant(tmp_path, test, given, said):
    message = messages(test, tmp_path, **given)
    assert said in message
    assert "test.csv" in message


def test_an_image_has_one_row_in_any_spelling_of_its_path(path):
    write(path.parent, path.read_text().replace("d.png", "./a.png"))
    with pytest.raises(ValueError, match=r"'\./a\.png' is in row 2 and row 5: an image must"):
        open_table(path).schema()


def test_images_of_both_tables_are_counted(path):
    train = write(path.parent, "image,label\na.png,0\nb.png,1\n", "train.csv")
    test = write(path.parent, "image,label\nd.png,0\nx/../b.png,1\n", "test.csv")
    with pytest.warns(UserWarning, match=r"1 images are both in .*train\.csv and in .*test\.csv"):
        ImageTable(train, test=test).schema()


@pytest.mark.parametrize("word", ["Train", "test ", "TEST"])
def test_a_split_that_is_almost_a_split_is_refused(path, word):
    write(path.parent, path.read_text().replace("d.png,owl,train", f"d.png,owl,{word}"))
    with pytest.raises(ValueError, match=rf"row 5: the split {word!r} is neither .* write it as"):
        open_table(path)("train")


def test_names_of_images_are_words(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"image": [1, 2], "label": [0, 1]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="'image' must hold names of files, not 1"):
        ImageTable(tmp_path / "a.parquet", test_fraction=0.5)("train")


@pytest.mark.parametrize(
    ("there", "written"),
    [
        ("cafe\u0301.png", "caf\u00e9.png"),
        ("bird.PNG", "Bird.png"),
        ("owl/a.png", "owl\\a.png"),
    ],
)
def test_a_missing_image_of_almost_a_name_is_told(tmp_path, there, written):
    (tmp_path / there).parent.mkdir(exist_ok=True)
    write_image(tmp_path / there)
    write_image(tmp_path / "b.png")
    path = write(tmp_path, f"image,label\n{written},0\nb.png,0\n")
    hint = "write / between" if "/" in there else "differs in case, blanks or the form"
    with pytest.raises(UnreadableImage, match=rf"there is no such file \(1 of 2 .*{hint}"):
        ImageTable(path, test=path)("train")
