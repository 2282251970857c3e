from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from support import oracle
from support.condition_splits import Split, fit
from support.imagenet100 import SYNSETS
from support.scripts import script

from ccl_plugins.conditions import WordNet
from ccl_plugins.conditions.wordnet import lineages, read_nouns, shipped

DATABASE = Path("/usr/share/wordnet")
needs_wordnet = pytest.mark.skipif(
    not (DATABASE / "data.noun").is_file(), reason="Debian's wordnet-base is not installed"
)
CLASSES = ["sparrow", "hawk", "beagle", "pug", "fish", "boat", "car"]


def edges(node):
    for child in node.get("Subcategory", ()):
        yield node["LabelName"], child["LabelName"]
        yield from edges(child)


@pytest.fixture
def toy(tmp_path):
    (root,) = oracle.case("wordnet_levels_toy")["inputs"]["tree"]
    return write(tmp_path, edges(root))


def write(folder, rows):
    with (folder / "toy.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("parent", "child"), *rows])
    return str(folder / "toy.csv")


def same_classes(ids, names):
    return len(set(ids)) == len(set(names)) == len(set(zip(ids, names, strict=True)))


def test_equals_the_stored_levels(toy):
    case = oracle.case("wordnet_levels_toy")
    split = Split(label=CLASSES)
    for level in case["params"]["levels"]:
        ids = fit(WordNet(level=level, source=toy, parents="drop"), split).tolist()
        usable = [name for name, i in zip(CLASSES, ids, strict=True) if i >= 0]
        assert usable == case["extras"]["usable_classes"]
        stored = case["extras"]["clusters"][f"level_{level}"]
        assert same_classes([i for i in ids if i >= 0], [stored[name] for name in usable])
    third = fit(WordNet(level=3, source=toy, parents="drop"), split)
    assert third[third >= 0].unique().numel() == case["expected_paper"]


def test_of_several_parents_the_first_is_kept(toy):
    ids = fit(WordNet(level=3, source=toy), Split(label=CLASSES)).tolist()
    assert ids[CLASSES.index("pug")] == ids[CLASSES.index("beagle")]


def test_several_parents_can_be_an_error(toy):
    with pytest.raises(
        ValueError, match=r"1 of 7 classes .*'pug' has entity > animal > dog > pug and"
    ):
        fit(WordNet(level=3, source=toy, parents="error"), Split(label=CLASSES))


def test_levels_are_columns(toy):
    split = Split(label=CLASSES)
    found = fit(WordNet(levels=[2, 4], source=toy), split)
    expected = [fit(WordNet(level=level, source=toy), split) for level in (2, 4)]
    torch.testing.assert_close(found, torch.stack(expected, 1))
    assert len(found[:, 0].unique()) == 2


def test_class_ids_are_named_by_words_or_by_a_list(toy):
    words = fit(WordNet(level=4, source=toy), Split(label=CLASSES))
    ids = torch.arange(7)
    encoded = Split({"label": CLASSES}, label=ids)
    torch.testing.assert_close(fit(WordNet(level=4, source=toy), encoded), words)
    named = WordNet(level=4, source=toy, classes=CLASSES)
    torch.testing.assert_close(fit(named, Split(label=ids)), words)
    assert fit(named, Split(label=torch.tensor([0, -1]))).tolist()[1] == -1
    with pytest.raises(ValueError, match="'label' holds class ids such as 0, not words"):
        fit(WordNet(level=4, source=toy), Split(label=ids))
    with pytest.raises(ValueError, match="7 in row 1 \\(from 0\\), but there are 7 classes"):
        fit(named, Split(label=torch.tensor([0, 7])))


def test_classes_name_the_nodes_of_words_that_are_no_nodes(toy):
    words = ["a gull", "a kestrel"]
    split = Split({"label": words}, label=torch.tensor([1, 0, -1]))
    condition = WordNet(level=4, source=toy, classes=["sparrow", "hawk"], missing="own")
    by_node = Split({"label": ["hawk", "sparrow"]}, label=torch.tensor([0, 1, -1]))
    node = WordNet(level=4, source=toy, missing="own")
    torch.testing.assert_close(fit(condition, split), fit(node, by_node))
    for wrong in (["sparrow"], "imagenet1k"):
        with pytest.raises(
            ValueError, match="'label' has 2 words: give one node for each of a gull, a kes"
        ):
            fit(WordNet(level=4, source=toy, classes=wrong), split)


def test_dropped_classes_are_left_out_by_default(toy):
    assert WordNet(level=2, source=toy, parents="drop").missing == "drop"
    assert WordNet(level=2, source=toy).missing == "error"
    assert WordNet(level=2, source=toy, parents="drop", missing="own").missing == "own"


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (
            [("a", "b"), ("b", "c")],
            ["c", "d"],
            r"source='.*toy\.csv'; the first is 'd' \(row 1, from 0",
        ),
        ([("a", "b"), ("b", "a")], ["b"], "'b' is above itself: b > a > b"),
        ([("a", "b"), ("a", "b")], ["b"], "row 3: the edge a to b occurs twice"),
        ([("a", "b"), ("a", "")], ["b"], "row 3: an edge needs a parent and a child"),
        ([("a", "b"), ("b", "c")], ["c"], "level 4 is deeper than the tree: .* at level 3"),
    ],
)
@pytest.mark.parametrize("parents", ["prune", "drop"])
def test_edges_and_classes_that_make_no_tree_are_named(tmp_path, rows, labels, message, parents):
    with pytest.raises(ValueError, match=message):
        fit(WordNet(level=4, source=write(tmp_path, rows), parents=parents), Split(label=labels))


def test_sources_that_are_not_there_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="source='imagenet' is not there"):
        fit(WordNet(level=2, source="imagenet"), Split(label=["a"]))
    with pytest.raises(FileNotFoundError, match=r"it has no data\.noun"):
        fit(WordNet(level=2, source=str(tmp_path)), Split(label=["a"]))
    (tmp_path / "data.noun").write_text("  1 license\n00001740 03 n zz\n")
    with pytest.raises(ValueError, match="line 2 is not a synset: '00001740"):
        fit(WordNet(level=2, source=str(tmp_path)), Split(label=["a"]))


@pytest.mark.parametrize("given", [{}, {"level": 2, "levels": [3]}, {"levels": []}])
def test_levels_that_cannot_be_meant_are_refused_at_once(given):
    with pytest.raises(ValueError, match=r"give level=|each of levels must be 1 or more"):
        WordNet(**given)


def test_every_imagenet_class_has_its_place():
    split = Split(label=torch.arange(1000))
    counts = [
        column.unique().numel()
        for column in fit(WordNet(levels=[1, 2, 19], classes="imagenet1k"), split).T
    ]
    assert counts == [1, 2, 1000]
    _, classes = shipped()
    words = fit(WordNet(level=6), Split(label=classes))
    torch.testing.assert_close(words, fit(WordNet(level=6, classes="imagenet1k"), split))


def test_levels_of_imagenet_100_refine_each_other():
    levels = fit(WordNet(levels=list(range(1, 19))), Split(label=SYNSETS)).T
    counts = [level.unique().numel() for level in levels]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert counts[-1] == 100
    for coarse, fine in pairwise(levels):
        assert torch.stack([fine, coarse], 1).unique(dim=0).shape[0] == fine.unique().numel()


@needs_wordnet
def test_the_database_gives_what_is_shipped_on_imagenet_100():
    split = Split(label=SYNSETS)
    for parents in ("prune", "drop"):
        ours = fit(WordNet(levels=[4, 8, 12], parents=parents), split)
        theirs = WordNet(levels=[4, 8, 12], source=str(DATABASE), parents=parents)
        torch.testing.assert_close(fit(theirs, split), ours)


@needs_wordnet
def test_the_database_has_one_root_and_no_circle():
    parents = read_nouns(DATABASE)
    assert len(parents) == 82115
    assert {next(lineages(parents, node))[0] for node in parents} == {"n00001740"}


@needs_wordnet
def test_the_shipped_table_is_what_the_tool_makes():
    tool = script("ccl_plugins/conditions/make_imagenet_hierarchy.py")
    assert tool.table(DATABASE) == tool.OUT.read_text("utf-8")


@pytest.mark.parametrize(
    ("given", "label", "message"),
    [
        ({}, ["tench"], r"^1 of 1 classes are not nodes of source='imagenet1k'; the first is 'tench' "
         r"\(row 0, from 0, of the column 'label'\): its nodes are written as 'n01439121'; give classes="),
        ({}, ["n01440764", "n1443537"], r"'n1443537' \(row 1, from 0, .*\): did you mean 'n01443537'"),
        ({"classes": ["n01440764", "n0144353"]}, [0, 1], r"\(classes\[1\]; row 1, from 0, .* 'n01443537'"),
        ({"source": "imagenet-1k"}, ["tench"], r"^source='imagenet-1k' is not there. Did you mean 'im"),
    ],
)  # fmt: skip
def test_a_class_that_is_no_synset_is_named_with_its_source_and_what_is_near(given, label, message):
    label = torch.tensor(label) if "classes" in given else label
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        fit(WordNet(level=5, **given), Split(label=label))


def test_a_file_that_is_no_hierarchy_is_told_from_one_that_is_missing(tmp_path):
    (tmp_path / "tree.tsv").write_text("parent\tchild\n")
    with pytest.raises(FileNotFoundError, match=r"tree\.tsv' ends neither in \.csv nor in"):
        fit(WordNet(level=2, source=str(tmp_path / "tree.tsv")), Split(label=["a"]))
    with pytest.raises(FileNotFoundError, match=r"it has no data\.noun; Debian's package"):
        fit(WordNet(level=2, source=str(tmp_path)), Split(label=["a"]))
    (tmp_path / "data.noun").write_text("this is no synset\n")
    with pytest.raises(ValueError, match=r"data\.noun, line 1 is not a synset: .*'n01440764'"):
        fit(WordNet(level=2, source=str(tmp_path)), Split(label=["a"]))
