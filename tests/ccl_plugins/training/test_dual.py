"""Two towers in the hands of the engine: they learn, resume, and are read by evaluators."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from support.captions import TEXT, WORDS, Captioned, Plain, pipeline
from support.resuming import StopAfter, assert_equal

from ccl_plugins.experiments import RunInterrupted
from ccl_plugins.pairs import Samples
from ccl_plugins.training.same_data import fingerprint
from ccl_plugins.training.step import embed

QUEUE = {"use": "dual", "towers": {"text": TEXT}, "dim": 8, "queue_size": 32, "momentum": 0.9}
PROMPTS = [f"a {word} square" for word in WORDS]


def state(run: Any) -> Any:
    return run.parts.networks["method"].state_dict()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: Any) -> Any:
    settings = {
        "epochs": 30,
        "optimizer": {"use": "adamw", "lr": 1e-2},
        "batch_size": 8,
        "workers": 0,
        "checkpoint_every": 30,
    }
    with warnings.catch_warnings():
        # Three captions are three points in space, which is what the finding says.
        warnings.filterwarnings("ignore", ".*lie on a line")
        return pipeline(fit=settings, monitor="off").fit(
            out=tmp_path_factory.mktemp("dual") / "run", progress=False
        )


def test_images_are_named_by_the_nearest_text(trained: Any) -> None:
    split = trained.splits[1]
    cosines = trained.project(split.images) @ trained.encode_text(PROMPTS).T
    torch.testing.assert_close(cosines.argmax(1), split.metadata["label"])
    assert cosines.abs().max() <= 1 + 1e-6


def test_evaluators_get_features_of_images_and_projections_of_both_towers(trained: Any) -> None:
    found, split = trained.features("test"), trained.splits[1]
    torch.testing.assert_close(found.features, trained.encode(split.images))
    towers = found.towers
    torch.testing.assert_close(towers.images, trained.project(split.images))
    torch.testing.assert_close(towers.texts(PROMPTS), trained.encode_text(PROMPTS))
    assert towers.captions["caption"] == split.texts["caption"]
    torch.testing.assert_close(towers.images.norm(dim=1), torch.ones(len(split)))
    one_by_one = torch.cat([trained.encode_text([text], batch_size=1) for text in PROMPTS])
    torch.testing.assert_close(one_by_one, towers.texts(PROMPTS), rtol=1e-5, atol=1e-6)
    assert trained.evaluate()["knn/top1"] > 0.9


def test_what_is_no_list_of_texts_is_refused(trained: Any) -> None:
    for texts in ("a red square", []):
        with pytest.raises(ValueError, match="texts must be one or more strings in a list"):
            trained.encode_text(texts)


def test_a_run_without_a_text_tower_says_so(tmp_path: Path) -> None:
    run = pipeline(method="simclr", transform=Plain(2)).fit(out=tmp_path / "run", progress=False)
    with pytest.raises(ValueError, match="SimCLR has no tower for texts: a method dual has one"):
        run.encode_text(PROMPTS)
    assert run.features("test").towers is None


def test_a_resumed_run_equals_an_unbroken_one(tmp_path: Path) -> None:
    def fit(folder: str, **more: Any) -> Any:
        return pipeline(method=QUEUE, evaluate=[], monitor="off").fit(
            out=tmp_path / folder, progress=False, **more
        )

    whole = fit("whole", epochs=3)
    with pytest.raises(RunInterrupted):
        fit("broken", epochs=3, callbacks=[StopAfter(4)])
    late = fit("broken", epochs=3, resume=True)
    assert_equal(state(late), state(whole))


@pytest.mark.parametrize(
    ("queue_size", "settings"),
    [
        (0, {"precision": "bf16-mixed"}),
        (32, {"precision": "bf16-mixed"}),
        (32, {"micro_batch": 3}),
        (0, {"channels_last": True, "accumulate": 2}),
    ],
    ids=str,
)
def test_settings_of_training_apply_to_both_towers(
    tmp_path: Path, queue_size: int, settings: Any
) -> None:
    run = pipeline(method={**QUEUE, "queue_size": queue_size}, evaluate=[], monitor="off").fit(
        out=tmp_path / "run", progress=False, **settings
    )
    assert all(weight.isfinite().all() for weight in state(run).values())


@pytest.mark.slow  # networks of one input are compiled in test_preparing
def test_compiled_towers_train_to_the_same_weights(tmp_path: Path) -> None:
    runs = [
        pipeline(evaluate=[], monitor="off").fit(
            out=tmp_path / str(i), progress=False, compile=backend
        )
        for i, backend in enumerate((False, "eager"))
    ]
    torch.testing.assert_close(*(state(run) for run in runs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("queue_size", [0, 32])
def test_pieces_of_a_batch_have_the_gradient_of_the_whole(queue_size: int) -> None:
    torch.manual_seed(0)
    parts = pipeline(method={**QUEUE, "queue_size": queue_size}).build()
    method = parts.method.double()
    views = [torch.rand(8, 3, 8, 8).double(), torch.randint(0, 257, (8, 16))]
    found = []
    for size in (None, 3):
        pairs = method.pairs(
            embed(method, views, size).normalized(), Samples(index=torch.arange(8))
        )
        loss = parts.objective.double().loss(pairs)
        learned = [p for p in method.parameters() if p.requires_grad]
        found.append([loss, *torch.autograd.grad(loss, learned)])
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_other_texts_are_other_data(tmp_path: Path) -> None:
    pipeline().fit(out=tmp_path / "run", progress=False)
    other = Captioned(words=("red", "green", "yellow"))
    with pytest.raises(ValueError, match="column 'caption' has other values"):
        pipeline(dataset=other).fit(out=tmp_path / "run", progress=False, resume=True, epochs=3)
    assert fingerprint(other("train")) != fingerprint(Captioned()("train"))


def test_a_run_is_not_resumed_with_another_tokenizer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    def save(*words: str) -> None:
        tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="?"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.save(str(tmp_path / "words.json"))

    def fit(**more: Any) -> Any:
        tokens = {"use": "tokens", "length": 16, "path": str(tmp_path / "words.json")}
        views = {"image": Plain(), "text": tokens}
        return pipeline(transform=views).fit(out=tmp_path / "run", progress=False, **more)

    save("a", "square", "?", *WORDS)
    fit()
    save("square", "a", "?", *WORDS)
    with pytest.raises(ValueError, match="column 'tokens of text' has other values"):
        fit(resume=True, epochs=3)


def test_the_image_tower_is_exported_alone(trained: Any, tmp_path: Path) -> None:
    from ccl_plugins.experiments.export import export

    folder = export(trained, tmp_path / "out", format="torch")
    model = torch.export.load(folder / "backbone.pt2").module()
    images = trained.splits[1].images
    torch.testing.assert_close(model(images / 255), trained.encode(images), rtol=1e-4, atol=1e-5)


def test_an_anchor_is_drawn_with_the_share_of_its_text(trained: Any) -> None:
    from ccl_plugins.figures import Anchor
    from ccl_plugins.figures.anchor import weights

    found = weights(trained, 3)
    assert found.modalities == ("image", "text")
    assert [*found.own] == [1]
    assert found.views[1] == "a red square"
    labels = [text for axes in Anchor(3)({"dual": trained}).axes for text in [axes.get_xlabel()]]
    assert any(label.startswith("text ") for label in labels)
