"""Texts become vectors of the samples that they belong to."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import ccl_plugins as ccl
import pytest
import torch
from ccl_plugins.kernels import Cosine
from ccl_plugins.testing import parametrize_with_checks

from ccl_text_condition import Hashing, Text

ROOT = Path(__file__).parent.parent
CAPTIONS = ["a red fox", "two cats", "A red, red fox!", "a blue fox", None]


@parametrize_with_checks("ccl-text-condition")
def test_conformance(check):
    check()


class Split(SimpleNamespace):
    def __len__(self):
        return len(next(iter(self.metadata.values())))


def split(texts=CAPTIONS):
    return Split(metadata={"caption": texts})


def fit(condition, of=None):
    return condition.fit(of or split(), None, None)


def test_texts_are_alike_as_far_as_they_share_words():
    values = fit(Text("caption", missing="drop"))
    assert values.isnan().any(1).tolist() == [False] * 4 + [True]
    same, half, none = Cosine()(values[:1], values[[2, 3, 1]])[0].tolist()
    assert same > 0.9 > half > 0.5
    assert none == 0


def test_texts_beside_the_metadata_are_read():
    beside = Split(metadata={"label": torch.arange(4)}, texts={"caption": CAPTIONS[:4]})
    found = fit(Text("caption"), beside)
    torch.testing.assert_close(found, fit(Text("caption"), split(CAPTIONS[:4])))


def test_main_directions_keep_what_is_alike():
    texts = [f"{color} {animal}" for color in ("red", "blue") for animal in ("cat", "dog", "emu")]
    full, fewer = (
        fit(Text("caption"), split(texts)),
        fit(Text("caption", components=4), split(texts)),
    )
    assert fewer.shape == (6, 4)
    torch.testing.assert_close(Cosine()(fewer, fewer), Cosine()(full, full), atol=1e-5, rtol=0)


def test_an_encoder_gets_every_different_text_once():
    given = []

    def encode(texts):
        given.append(texts)
        return [[len(text), 1] for text in texts]

    values = fit(Text("caption", encoder=encode), split(["bb", "a", "bb"]))
    assert given == [["a", "bb"]]
    assert values.tolist() == [[2, 1], [1, 1], [2, 1]]


def test_words_are_read_through_the_vocabulary():
    of = Split(metadata={"caption": torch.tensor([1, 0, -1])}, vocabulary={"caption": ["x", "y"]})
    values = fit(Text("caption", encoder=lambda texts: [[ord(t)] for t in texts]), of)
    assert values[:2].tolist() == [[ord("y")], [ord("x")]]
    assert values[2].isnan()


def test_a_file_gives_texts_by_row_or_by_name(tmp_path):
    file = tmp_path / "captions.csv"
    file.write_text('name,caption\nq,"one, two"\np,three\n', encoding="utf-8")
    texts = []

    def encode(each):
        texts.extend(each)
        return [[len(text)] for text in each]

    two = Split(metadata={"name": ["a", "b"]})
    assert fit(Text("caption", file, encoder=encode), two).tolist() == [[8], [5]]
    named = Split(metadata={"name": ["p", "z", "q"]})
    values = fit(Text("caption", file, key="name", encoder=encode), named)
    assert values.nan_to_num(-1).tolist() == [[5], [-1], [8]]
    assert set(texts) == {"one, two", "three"}


def test_a_mistake_is_named(tmp_path):
    file = tmp_path / "captions.csv"
    file.write_text("name,caption\nq,x\nq,y\n", encoding="utf-8")
    wrong = [
        (Text("words"), split(), "no column 'words'; it has caption"),
        (Text("caption"), split([1, 2]), "holds 1 in row 0, which is not a text"),
        (Text("caption"), split([None, " "]), "holds no text"),
        (Text("caption", encoder=len), split(["x"]), r"gave \(\) for 1"),
        (Text("tags", file), split(["x", "y"]), "no column 'tags'; it has name, caption"),
        (Text("caption", file), split(), "has 2 rows, but the data set has 5 samples"),
        (
            Text("caption", file, "name"),
            Split(metadata={"name": ["q"]}),
            "names the sample 'q' in row 2 and row 3",
        ),
    ]
    for condition, of, message in wrong:
        with pytest.raises(ValueError, match=message):
            fit(condition, of)
    with pytest.raises(TypeError, match="must be a function of a list of texts, not 'minilm'"):
        Text("caption", encoder="minilm")
    with pytest.raises(ValueError, match="components must be at least 1 and below features=8"):
        Hashing(8, 8)


def test_the_example_trains_on_the_captions_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    Path("readme.py").write_text("\n".join(blocks), encoding="utf-8")
    pipeline = runpy.run_path("readme.py")["pipeline"]
    pipeline.fit(epochs=1, batch_size=256, workers=0, out="object", progress=False)
    record = ccl.Pipeline.from_toml(ROOT / "example.toml").to_dict()
    record["dataset"]["test_fraction"] = 0.8
    pipeline = ccl.Pipeline.from_dict(record).with_settings(epochs=1, workers=0)
    run = pipeline.fit(out="run", progress=False)
    assert 0 < run.evaluate()["linear/top1"] <= 1


@pytest.mark.parametrize("text", [[], ["caption"]])
def test_captions_of_ones_own_data_set_are_read_from_its_metadata_or_texts(tmp_path, text):
    images = torch.randint(0, 256, (64, 3, 32, 32), dtype=torch.uint8)
    table = {"label": [i % 4 for i in range(64)], "caption": [f"cat {i % 4}" for i in range(64)]}
    splits = {"train": images, "test": images, "metadata": table, "test_metadata": table}
    pipeline = ccl.Pipeline(
        dataset=ccl.create("dataset", "torch", **splits, text=text),
        transform=ccl.transform("simclr", size=32),
        backbone=ccl.backbone("lenet5"),
        method=ccl.method("simclr", hidden=16, dim=8),
        objective=ccl.objective("weaklysup_cclk", kernel=ccl.kernel("cosine")),
        condition=ccl.condition("text", column="caption"),
        monitor="off",
        loggers=[],
    )
    pipeline.fit(epochs=1, batch_size=32, workers=0, out=tmp_path / "run", progress=False)
    assert (tmp_path / "run" / "weights.pt").is_file()


@pytest.mark.parametrize(
    "objective",
    [
        ccl.objective("soft_infonce", kernel=ccl.kernel("cosine"), target_temperature=0.1),
        ccl.objective("weaklysup_cclk", kernel=ccl.kernel("cosine")),
    ],
    ids=lambda objective: objective.spec.name,
)
def test_two_towers_are_conditioned_on_captions(objective, tmp_path):
    pytest.importorskip("tokenizers")
    images = torch.randint(0, 256, (32, 3, 32, 32), dtype=torch.uint8)
    table = {"label": [i % 4 for i in range(32)], "caption": [f"a cat {i % 4}" for i in range(32)]}
    splits = {"train": images, "test": images, "metadata": table, "test_metadata": table}
    tower = ccl.backbone("text_transformer", length=8, width=16, depth=1, heads=2)
    pipeline = ccl.Pipeline(
        dataset=ccl.create("dataset", "torch", **splits, text=["caption"]),
        transform={
            "image": ccl.transform("simclr", size=32),
            "text": ccl.transform("tokens", length=8),
        },
        backbone="lenet5",
        method=ccl.method("dual", towers={"text": tower}, dim=8),
        objective=objective,
        condition=ccl.condition("text", column="caption", features=32),
        evaluate=[ccl.evaluator("cross_retrieval", k=[1])],
    )
    run = pipeline.fit(epochs=1, batch_size=16, workers=0, out=tmp_path / "run", progress=False)
    assert 0 <= run.evaluate()["cross_retrieval/text_to_image_recall_at_1"] <= 1
