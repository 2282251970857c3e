"""Classes named by prompts equal a loop over images, classes and prompts."""

from __future__ import annotations

import math

import pytest
import torch
from support.measured import values
from torch.nn.functional import normalize

import ccl_plugins as ccl
from ccl_plugins.evaluators import ZeroShot
from ccl_plugins.evaluators import zero_shot as module
from ccl_plugins.protocols import Frozen, Towers, UndefinedMetric

NAMES = ["cat", "dog", "emu", "fox", "gnu", "owl", "yak"]


def project(texts):
    """Unit vectors that are random but the same for the same text."""
    found = []
    for text in texts:
        generator = torch.Generator().manual_seed(sum(i * ord(c) for i, c in enumerate(text, 1)))
        found.append(torch.randn(6, generator=generator))
    return normalize(torch.stack(found), dim=1)


def frozen(n=80, classes=7, seed=0):
    """Images near the name of their class, with columns whose ids have words and one without."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(n) ** 2 % classes
    near = project([f"a {NAMES[i]}" for i in label])
    images = normalize(near + 0.5 * torch.randn(n, 6, generator=generator), dim=1)
    columns = {"label": label, "digit": label, "wordless": label}
    words = {"label": NAMES, "digit": NAMES}
    return Frozen(torch.zeros(n, 2), columns, towers=Towers(images, project), vocabulary=words)


def slow(test, prompts_of):
    """For each image the classes, best first, with one cosine at a time."""
    found = []
    vectors = []
    for name in NAMES:
        mean = [0.0] * 6
        for prompt in prompts_of(name):
            for i, number in enumerate(project([prompt])[0].tolist()):
                mean[i] += number / len(prompts_of(name))
        length = math.sqrt(sum(number**2 for number in mean))
        vectors.append([number / length for number in mean])
    for image in test.towers.images.tolist():
        cosines = [sum(a * b for a, b in zip(image, v, strict=True)) for v in vectors]
        found.append(sorted(range(7), key=lambda c: -cosines[c]))
    return found


@pytest.mark.parametrize(
    ("prompts", "prompts_of"),
    [
        ("a {}", lambda name: [f"a {name}"]),
        (["a {}", "{} in the {}"], lambda name: [f"a {name}", f"{name} in the {name}"]),
        (
            {name: [f"a {name}", "an animal"] if name > "e" else f"one {name}" for name in NAMES},
            lambda name: [f"a {name}", "an animal"] if name > "e" else [f"one {name}"],
        ),
    ],
)
def test_the_metrics_are_those_of_a_slow_loop(prompts, prompts_of):
    test = frozen()
    ranking, ids = slow(test, prompts_of), test.metadata["label"].tolist()
    measured = ZeroShot(prompts, balanced=True)(test, test)
    found = values(measured)
    hits = [each[0] == label for each, label in zip(ranking, ids, strict=True)]
    fives = [label in each[:5] for each, label in zip(ranking, ids, strict=True)]
    of_class = [[hit for hit, i in zip(hits, ids, strict=True) if i == c] for c in sorted({*ids})]
    assert found == pytest.approx(
        {
            "zero_shot/top1": sum(hits) / len(hits),
            "zero_shot/top5": sum(fives) / len(fives),
            "zero_shot/balanced": sum(sum(c) / len(c) for c in of_class) / len(of_class),
        }
    )
    assert len({*found.values()}) == 3
    assert all(each.interval[0] < each.value < each.interval[1] for each in measured)


def test_blocks_change_nothing(monkeypatch):
    test = frozen()
    whole = values(ZeroShot("a {}")(test, test))
    monkeypatch.setattr(module, "BLOCK", 20)
    assert values(ZeroShot("a {}")(test, test)) == whole


def test_braces_in_names_and_prompts_are_letters():
    test = frozen(classes=2)
    seen = []
    towers = Towers(test.towers.images, lambda texts: seen.extend(texts) or project(texts))
    ZeroShot("{0} {} %s {}", names=["{x}", "{}"])(
        test, Frozen(test.features, test.metadata, towers=towers)
    )
    assert seen == ["{0} {x} %s {x}", "{0} {} %s {}"]


def test_names_are_the_words_of_the_column_or_given():
    test = frozen()
    words = values(ZeroShot("a {}", column="digit")(test, test))
    assert words == {
        f"zero_shot-digit/{k}": v
        for k, v in (
            ("top1", words["zero_shot-digit/top1"]),
            ("top5", words["zero_shot-digit/top5"]),
        )
    }
    given = values(ZeroShot("a {}", column="wordless", names=NAMES)(test, test))
    assert [*given.values()] == [*words.values()]
    turned = values(ZeroShot("a {}", names=NAMES[::-1])(test, test))
    assert turned["zero_shot/top1"] < words["zero_shot-digit/top1"]


def test_few_classes_have_no_top5():
    test = frozen(classes=4)
    found = values(ZeroShot("a {}", column="wordless", names=NAMES[:5])(test, test))
    assert list(found) == ["zero_shot-wordless/top1"]


@pytest.mark.parametrize(
    ("evaluator", "message"),
    [
        (ZeroShot("a {}", "wordless"), "'wordless' has no words for its class ids: give names="),
        (ZeroShot("a {}", names=["a", "b"]), "class id 4, but there are 2 names"),
        (ZeroShot({"cat": "a cat"}), "'dog' has no prompt; the classes of 'label' are cat, dog"),
        (
            ZeroShot({**dict.fromkeys(NAMES, "x"), "bat": "a bat"}),
            "'bat' is no class; the classes",
        ),
        (ZeroShot("a {}", "species"), "no column 'species'"),
    ],
)
def test_what_is_missing_is_said(evaluator, message):
    test = frozen()
    with pytest.raises(ValueError, match=message):
        evaluator(test, test)


def test_towers_are_needed_and_must_be_finite():
    test = frozen()
    with pytest.raises(ValueError, match='no text tower: give the pipeline method = "dual"'):
        ZeroShot("a {}")(test, Frozen(test.features, test.metadata))
    broken = Towers(test.towers.images, lambda texts: project(texts) * torch.nan)
    with pytest.raises(ValueError, match=r"the projection of 'a cat' is not finite \(7 of 7\)"):
        ZeroShot("a {}", names=NAMES)(test, Frozen(test.features, test.metadata, towers=broken))
    narrow = Towers(test.towers.images, lambda texts: project(texts)[:, :3])
    with pytest.raises(ValueError, match=r"must be \(7, 6\)"):
        ZeroShot("a {}", names=NAMES)(test, Frozen(test.features, test.metadata, towers=narrow))
    one = Frozen(test.features, {"label": torch.ones(80).long()}, towers=test.towers)
    with pytest.raises(UndefinedMetric, match="balanced accuracy is undefined"):
        ZeroShot("a {}", names=NAMES, balanced=True)(one, one)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ("a cat", r"'a cat' has no {}, the place of the class's name"),
        (["a {}", "cat"], "'cat' has no {}"),
        ([], r"prompts must be one or more texts, not \[\]"),
        ({}, "prompts must name the classes"),
        ({"cat": " "}, "the prompts of 'cat' must be one or more texts, not ' '"),
    ],
)
def test_prompts_without_a_place_for_the_name_are_refused(prompts, message):
    with pytest.raises(ValueError, match=message):
        ZeroShot(prompts)


@pytest.mark.parametrize("name", ["zero_shot", "cross_retrieval"])
def test_a_pipeline_without_a_text_tower_is_refused_when_it_is_composed(name):
    parts = {
        "dataset": ccl.dataset("color_digits", captions=True),
        "backbone": "lenet5",
        "objective": "infonce",
        "transform": ccl.transform("simclr", size=32),
    }
    with pytest.raises(ValueError, match="method simclr has no text tower"):
        ccl.Pipeline(**parts, evaluate=[name])
    parts["transform"] = {"image": parts["transform"], "color": {"use": "column", "name": "color"}}
    towers = {"color": ccl.backbone("mlp", in_features=3)}
    with pytest.raises(ValueError, match="and the views are of image, color: give transform"):
        ccl.Pipeline(**parts, method={"use": "dual", "towers": towers}, evaluate=[name])
