"""The studies make the data that their pages describe, run, and show the measured numbers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy
import pytest
import torch
from support.font_samples import write_font
from support.scripts import script

from ccl_plugins.datasets.fonts import LETTERS

FOLDER = Path(__file__).parent.parent / "docs" / "evidence" / "studies"
NAMES = ["sites", "plates", "ages"]


def study(name):
    return script(f"docs/evidence/studies/{name}.py")


@pytest.mark.parametrize("name", [*NAMES, "emojis", "letters", "letters_weights"])
def test_the_tables_of_a_page_are_what_was_measured(name):
    made = study(name).STUDY
    rows, page = made.stored(), (FOLDER / f"{made.name}.md").read_text()
    assert rows
    assert len({(row["form"], row["tried"], row["seed"]) for row in rows}) == len(rows)
    assert {row["form"] for row in rows} == {*made.forms}
    assert made.page(rows, page) == page


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("sites", "labels beside Fair-CCLK, groups drawn alike"),
        ("plates", "InfoNCE, gain and background drawn"),
        ("ages", "scale 0.1, a fifth missing, `ignore`"),
    ],
)
def test_a_row_is_trained_and_measured(monkeypatch, name, title):
    module = study(name)
    if name == "plates":
        monkeypatch.setattr(module, "WELLS", 24)
    if name == "ages":
        monkeypatch.setattr(module, "COUNTS", dict.fromkeys(module.COUNTS, 160))
    monkeypatch.setattr(module, "drawn", module.drawn.__wrapped__)  # leave nothing small behind
    row = module.STUDY.run((title, 0.1, 1), steps=1)
    assert {*module.STUDY.columns, *module.STUDY.described} <= row["test"].keys()
    assert all(abs(value) < 10 for value in row["test"].values())


def test_a_class_is_mostly_of_one_site_in_training_alone():
    sites = study("sites")
    train, test = (sites.drawn(0, part).metadata for part in ("train", "test"))
    own = (train["site"] == train["label"] % sites.KNOWN).double().mean()
    assert 0.82 < own < 0.88
    counts = torch.zeros(10, sites.KNOWN).index_put(
        (test["label"], test["site"]), torch.ones(len(test["label"])), accumulate=True
    )
    assert (counts == counts[:, :1]).all()
    assert (sites.drawn(0, "new").metadata["site"] == sites.KNOWN).all()


def test_images_of_each_site_are_brought_to_one_mean_and_deviation():
    sites = study("sites")
    images = torch.randint(0, 120, (40, 3, 4, 4), dtype=torch.uint8)
    site = torch.arange(40) % 2
    images[site == 1] += 100
    made = sites.on_each_site(images, site).float()
    for each in range(2):
        std, mean = torch.std_mean(made[site == each], (0, 2, 3))
        torch.testing.assert_close(mean, torch.full((3,), 100.0), atol=1, rtol=0)
        torch.testing.assert_close(std, torch.full((3,), 40.0), atol=1, rtol=0)


def test_features_of_each_site_are_brought_to_one_mean():
    sites = study("sites")
    site = {"train": torch.arange(40) % 2, "new": torch.full((20,), 4)}
    x = {name: torch.randn(len(each), 3) + each[:, None] for name, each in site.items()}
    made = sites.cured(x, site, "standardized")
    for name, each in site.items():
        for one in each.unique():
            torch.testing.assert_close(
                made[name][each == one].mean(0), torch.zeros(3), atol=1e-5, rtol=0
            )
    assert sites.cured(x, site, None) == x


def test_unseen_plates_have_controls_and_all_treatments(monkeypatch):
    plates = study("plates")
    monkeypatch.setattr(plates, "WELLS", 80)
    train, test = (plates.drawn.__wrapped__(0, part, False).metadata for part in ("train", "test"))
    assert not {*train["plate"].tolist()} & {*test["plate"].tolist()}
    for each in test["plate"].unique():
        of = test["label"][test["plate"] == each]
        assert (of == 0).double().mean() == 0.25
        assert len(of.unique()) == 1 + plates.TREATMENTS
    treated = train["label"] > 0
    layout = (train["plate"] >= 4) == (train["label"] > plates.TREATMENTS // 2)
    assert 0.81 < layout[treated].double().mean() < 0.89


def test_controls_of_each_plate_are_brought_to_one_mean_and_deviation():
    plates = study("plates")
    x, plate = torch.rand(40, 5, 4, 4), torch.arange(40) % 2
    control = torch.arange(40) < 20
    made = plates.by_controls(x * (1 + plate)[:, None, None, None], plate, control)
    for each in range(2):
        pixels = made[control & (plate == each)]
        torch.testing.assert_close(pixels.mean((0, 2, 3)), torch.full((5,), 0.3))
        torch.testing.assert_close(pixels.std((0, 2, 3)), torch.full((5,), 0.2))


def test_groups_that_are_apart_are_not_mixed_and_hide_replicates():
    module = study("study")
    group, label = (torch.arange(120) // n % 2 for n in (1, 2))
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(120, 4, generator=draw) + 6 * label[:, None] * torch.tensor([1, 0, 0, 0])
    apart = x + 20 * group[:, None] * torch.tensor([0, 1, 0, 0])
    mixed, split = (module.mixed(each, group, label) for each in (x, apart))
    assert mixed.keys() == module.MIXED.keys()
    assert mixed["ilisi"] > 0.7 > 0.1 > split["ilisi"]
    assert mixed["kbet"] < 0.2 < 0.9 < split["kbet"]
    assert mixed["map"] > split["map"]


def test_age_goes_with_the_diagnosis_in_training_and_some_ages_are_missing():
    ages = study("ages")

    def correlation(of):
        return torch.corrcoef(torch.stack([of["label"].float(), of["age"]]))[0, 1]

    assert correlation(ages.drawn(0, "train").metadata) > 0.6
    assert correlation(ages.drawn(0, "test").metadata).abs() < 0.1
    known, lost, filled = (
        ages.Heads(0, missing=missing)("train").metadata["age"] for missing in (None, "nan", "mean")
    )
    gone = lost.isnan()
    assert 0.15 < gone.double().mean() < 0.25
    assert torch.equal(lost[~gone], known[~gone])
    torch.testing.assert_close(filled[gone], known[~gone].mean().expand(int(gone.sum())))


def test_what_age_tells_by_a_parabola_is_regressed_out():
    ages = study("ages")
    age = torch.linspace(20, 90, 50)
    x = {"train": torch.stack([age, age**2, torch.cos(age)], 1)}
    out = ages.regressed_out(x, {"train": {"age": age}})["train"]
    assert out[:, :2].abs().max() < 0.05
    assert out[:, 2].abs().max() > 0.5


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """The study, on twenty families of boxes."""
    folder = tmp_path_factory.mktemp("fonts")
    module = study("letters")
    for number in range(20):
        path = folder / f"{number}.ttf"
        write_font(path, f"{number:02}", LETTERS, weight=300 + 20 * number, index=7 * number)
    module.FOLDER = str(folder)
    return module


def test_families_of_letters_are_in_one_part(letters):
    made = letters.parts(3)
    families = {name: {*each.metadata["family"].tolist()} for name, each in made.items()}
    assert sum(map(len, families.values())) == 20
    assert {name: len(each) for name, each in families.items()} == {
        "train": 12,
        "validation": 4,
        "test": 4,
    }
    of = made["train"].metadata
    assert torch.equal(of["heavy"], (of["weight"] >= 400).long() + (of["weight"] > 500))


def test_neighbors_are_of_other_families(letters):
    split = letters.parts(3)["test"]
    n = len(split)
    every = torch.ones(n, dtype=torch.bool)
    by_font = torch.nn.functional.one_hot(split.metadata["font"]).float()
    noisy = by_font + 0.01 * torch.rand(n, by_font.shape[1])
    assert letters.neighbors(noisy, split, every).mean() < 0.1
    letter = torch.nn.functional.one_hot(split.targets).float()
    # Four fonts: three of other families have the letter, and twenty neighbors are asked for.
    assert float(letters.neighbors(letter, split, every).mean()) == pytest.approx(3 / 20)
    some = split.targets == 3
    assert torch.equal(
        letters.neighbors(noisy, split, some), letters.neighbors(noisy, split, every)[some]
    )
    x = letter + split.metadata["font"][:, None]
    there = letters.on_each_group(x, split.metadata["font"])
    torch.testing.assert_close(there[split.targets == 3].std(0), torch.zeros(62), atol=1e-5, rtol=0)


def test_a_letter_leans_and_grows_as_it_is_imitated(letters):
    images = letters.parts(3)["train"].images[:8]
    transform = letters.Imitated()
    first, second = (transform.batch_transforms[0](images, torch.arange(8) + k) for k in (0, 100))
    assert first.shape == (8, 1, 32, 32)
    assert first.isfinite().all()
    assert not torch.equal(first, second)
    assert torch.equal(first, transform.batch_transforms[0](images, torch.arange(8)))


def test_letter_and_weight_are_tied_in_training_alone(letters):
    label = torch.arange(62).repeat(600)
    heavy = torch.arange(len(label)) // 62 % 3
    kept = letters.tied_in(label, heavy, 0)
    counts = torch.zeros(62, 3).index_put(
        (label[kept], heavy[kept]), torch.ones(int(kept.sum())), accumulate=True
    )
    share = counts.amax(1) / counts.sum(1)
    assert ((share > 0.84) & (share < 0.87)).all()
    plain, tied = (letters.parts(3, tied=each) for each in (False, True))
    assert len(tied["train"]) < len(plain["train"])
    assert torch.equal(tied["test"].images, plain["test"].images)


def test_held_out_weights_do_not_train_and_all_held_families_are_tested(letters, monkeypatch):
    monkeypatch.setattr(letters, "HELD", (320.0, 500.0, 640.0))
    plain, apart = (letters.parts(5, apart=each) for each in (False, True))
    assert not torch.isin(apart["train"].metadata["weight"], torch.tensor(letters.HELD)).any()
    assert len(apart["test"]) == len(plain["test"]) + len(plain["validation"])
    letters.parts.cache_clear()


@pytest.mark.parametrize("title", ["", "held-out weights: "])
def test_a_row_of_letters_is_trained_and_measured(letters, monkeypatch, title):
    monkeypatch.setattr(letters, "HELD", (320.0, 500.0, 640.0))
    for name in ("combat", "harmony"):  # of packages that the tests do not install
        monkeypatch.setattr(letters, name, lambda x, batch: x)
    row = letters.STUDY.run((title + letters.OURS, 0.1, 5), steps=1)
    assert row["test"].keys() - {"families"} == letters.STUDY.columns.keys()
    assert row["test"]["letter"] == pytest.approx(row["test"]["combat"])
    assert row["test"]["families"]
    letters.parts.cache_clear()
    if not title:
        assert 0 <= row["validation"] <= 1
        chooses = letters.STUDY.run((letters.OURS, 0.1, 10), steps=1)
        assert chooses.keys() == {"form", "tried", "seed", "validation"}


def test_families_are_drawn_again_by_their_letters(letters):
    pairs = [({"families": {f"{k}": [62, 0.5 + k / 100] for k in range(9)}},) * 2]
    assert letters.of_families(pairs) == (0, 0)
    other = {"families": {f"{k}": [62, 0.4] for k in range(9)}}
    low, high = letters.of_families([(pairs[0][0], other)])
    assert 0.1 < low < 0.14 < high < 0.18
    heavy = {"families": {**pairs[0][0]["families"], "9": [62_000, 0.9]}}
    against = {"families": {**other["families"], "9": [62_000, 0.4]}}
    assert letters.of_families([(heavy, against)])[1] > 0.48


def test_the_protocol_decides_by_both_intervals(letters):
    def row(title, seed, value, **more):
        test = {"letter": value, "families": {"a": [62, value], "b": [62, value + 0.01]}}
        return {"form": title, "tried": 0.1, "seed": seed, "test": test, **more}

    def rows(gain):
        for title in (letters.OURS, *letters.PEERS):
            for tried in letters.TEMPERATURES:
                found = 0.5 + (tried == 0.1) + (title == letters.PEERS[1])
                yield {"form": title, "tried": tried, "seed": 10, "validation": found}
        for seed in range(3):
            yield row(letters.OURS, seed, 0.6 + gain + seed / 1000)
            yield row(letters.PEERS[1], seed, 0.6)
            yield row(letters.PEERS[0], seed, 0.1, validation=9.0)  # a seed that does not choose

    said = {gain: letters.verdict([*rows(gain)])[0] for gain in (0.05, 0.01, -0.05)}
    assert said[0.05].startswith("**Supported**")
    assert "+5.1 points" in said[0.05]
    assert "whole fonts, imitating:" in said[0.05]
    assert said[0.01].startswith("**Inconclusive**")
    assert said[-0.05].startswith("**Refuted**")
    assert letters.verdict([]) == []


@pytest.fixture
def emojis(monkeypatch):
    """The study, on forty things with variants, random drawings and random weights."""
    module = study("emojis")
    names = [f"{who}thing-{i}" for i in range(20) for who in ("man-", "woman-")]
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (4, 40, 3, 64, 64), generator=generator, dtype=torch.uint8)
    x = torch.rand(4, 40, 1 + 2 * module.DRAWN, 192, 2, 2, generator=generator)
    meanings = torch.nn.functional.normalize(torch.randn(40, 384, generator=generator), dim=1)
    monkeypatch.setattr(module, "drawn", lambda: (names, images, x, meanings))
    monkeypatch.setattr(module, "weights", lambda: None)
    module.parts.cache_clear()
    return module


def test_variants_of_a_thing_are_in_one_part_with_all_vendors(emojis):
    made = emojis.parts(3)
    assert {name: len(each) for name, each in made.items()} == {
        "train": 96,
        "validation": 32,
        "test": 32,
    }
    names = [{*(each.metadata["name"][:, 0].tolist())} for each in made.values()]
    assert sum(map(len, names)) == 40
    for each in made.values():
        assert each.metadata["label"].bincount().tolist() == [4] * (len(each) // 4)
        assert each.metadata["vendor"].bincount().tolist() == [len(each) // 4] * 4


def test_the_first_neighbor_may_be_of_the_own_vendor_or_not(emojis):
    split = emojis.parts(3)["test"]
    label, vendor = (torch.nn.functional.one_hot(split.metadata[c]) for c in ("label", "vendor"))
    x = torch.cat([label, 10 * vendor], 1).float()
    assert emojis.found(x, split) == (1, 0)
    assert emojis.found(x, split, others=False) == (0, 1)


def test_each_vendor_is_sphered_by_what_trains(emojis):
    generator = torch.Generator().manual_seed(0)
    vendor = torch.arange(160) % 4
    train = torch.randn(160, 60, generator=generator) * torch.rand(60, generator=generator)
    x = {"train": train + vendor[:, None], "test": torch.randn(8, 60, generator=generator)}
    made = emojis.sphered(x, {"train": vendor, "test": vendor[:8]}, "test")
    for each in range(4):  # of 40 samples and 60 features
        known = x["train"][vendor == each].double()
        covariance = torch.cov(known.T)
        values, axes = torch.linalg.eigh(covariance + covariance.trace() / 60 * torch.eye(60))
        wanted = (x["test"][vendor[:8] == each] - known.mean(0)) @ axes / values.sqrt() @ axes.T
        torch.testing.assert_close(made[vendor[:8] == each].double(), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("title", ["OURS", "BESIDE_NAMES"])
def test_a_row_of_emojis_is_trained_and_measured(emojis, title):
    row = emojis.STUDY.run((getattr(emojis, title), 0.1, 0), steps=1)
    assert row["test"].keys() == emojis.STUDY.columns.keys()
    assert all(0 <= value <= 1 for value in row["test"].values())


@pytest.mark.parametrize(
    ("ours", "word"),
    [
        ([0.62, 0.63], "Supported"),
        ([0.53, 0.54], "Inconclusive"),  # above the frozen network by less than the margin
        ([0.42, 0.43], "Refuted"),
    ],
)
def test_the_comparison_of_emojis_is_decided_by_both_others(ours, word):
    module = study("emojis")
    values = {module.OURS: ours, module.OTHER: [0.5, 0.51], "frozen": [0.525, 0.535]}
    chosen = [
        {"form": title, "tried": tried, "seed": 10, "validation": tried}
        for title in (module.OURS, module.OTHER)
        for tried in module.TEMPERATURES
    ]
    rows = [
        {
            "form": title,
            "tried": None if title == "frozen" else max(module.TEMPERATURES),
            "seed": seed,
            "test": {"sphered": value},
        }
        for title, pair in values.items()
        for seed, value in enumerate(pair)
    ]
    assert module.verdict(chosen) == []
    assert module.verdict(chosen + rows)[0].startswith(f"**{word}**")


def test_the_value_with_the_best_validation_is_taken_and_differences_are_in_pairs():
    module = study("study")
    forms = {
        "a": module.Form({}, (0.1, 0.3)),
        "b": module.Form({}),
        "c": module.Form({}, like="a"),
    }
    made = module.Study("x", forms, {"n": "number"}, {"a": ["b"]}, None, None, None, 1)

    def row(form, tried, seed, value, validation=0.0):
        found = {"form": form, "tried": tried, "seed": seed, "test": {"n": value}}
        return {**found, "validation": validation}

    rows = [row("a", 0.1, 0, 0.1, 0.5)]
    assert made.final(rows, "a") == {}
    assert made.missing(rows, 2) == [("a", 0.3, 0), ("b", None, 0), ("b", None, 1)]
    rows += [row("a", 0.3, 0, 0.4, 0.6), row("a", 0.3, 1, 0.7), row("b", None, 0, 0.2)]
    rows += [row("b", None, 1, 0.3), row("b", None, 2, 9.0)]
    assert made.chosen(rows, "c") == 0.3
    assert made.missing(rows, 2) == [("c", 0.3, 0), ("c", 0.3, 1)]
    later = dataclasses.replace(made, first=1)
    assert later.missing(rows, 2) == [("c", 0.3, 1), ("a", 0.3, 2), ("c", 0.3, 2)]
    assert [*later.final(rows, "a")] == [1]
    # Of 0.2 and 0.4, with Student's t of one degree of freedom.
    half = 12.7062 * 0.2 / 2
    assert made.differences(rows)[-1] == f"| a, less b | 2 | +0.30 ± {half:.2f} |"
    assert made.differences([]) == []
    assert "| a | 0.3 | 2 | 0.55 ± 1.91 |" in made.table(rows, made.columns)


@pytest.mark.parametrize(("endpoint", "bold"), [(None, 0), ("n", 2)])
def test_differences_are_tested_together_or_those_of_the_column_that_was_named(endpoint, bold):
    module = study("study")
    forms, columns = {title: module.Form({}) for title in "abc"}, {"n": "number", "m": "other"}
    given = (forms, columns, {"a": ["b", "c"]}, None, None, None, 1)
    made = module.Study("x", *given, endpoint=endpoint)
    # Differences of 4, 5, 6 have a p of .013, those of -1, 0, 1 one of 1.
    rows = [
        {"form": title, "tried": None, "seed": seed, "test": {"n": own * (seed + 4), "m": seed - 1}}
        for title, own in (("a", 1), ("b", 0), ("c", 0))
        for seed in range(3)
    ]
    for row in rows[3:]:
        row["test"]["m"] = 0
    words, _, *lines = made.differences(rows)
    assert f"the {bold} with p below" in words
    assert "\n".join(lines).count("**+5.00 ± 2.48**") == bold
    assert lines[-1].endswith("| +0.00 ± 2.48 |")


@pytest.fixture
def cells(monkeypatch):
    """The study, with few steps, and cells of two types by two batches, which shift them."""
    module = study("cells")
    monkeypatch.setattr(module, "STEPS", 2)
    monkeypatch.setattr(module, "BATCH", 16)
    monkeypatch.setattr(module, "NEIGHBORS", 4)
    batch, label = (numpy.arange(64) // n % 2 for n in (1, 2))
    x = numpy.random.default_rng(0).normal(size=(64, 12))
    x[:, 0] += 9 * label
    x[:, 1] += 9 * batch
    return module, module.Cells(x.astype("float32"), batch, label)


def test_the_tables_of_cells_are_what_was_measured():
    module = study("cells")
    rows, page = json.loads((FOLDER / "cells.json").read_text()), (FOLDER / "cells.md").read_text()
    found = {(row["data"], row["form"], row["seed"]) for row in rows}
    compared = ("CONCORD", module.OURS)
    assert found >= {(d, f, s) for d in module.LABELED for f in compared for s in range(5)}
    assert len(rows) == len(found)
    assert module.page(rows, page) == page


def test_a_row_of_ours_gives_features_of_every_cell(cells):
    module, of = cells
    for title in ("untrained", module.OURS, "Fair-InfoNCE, donors shuffled"):
        made = module.FORMS[title](of, 0)
        assert made.shape == (64, 128)
        assert numpy.isfinite(made).all()
    assert of.some(0).x.shape == (51, 12)


def test_neighbors_of_the_own_batch_are_kept_by_what_moves_batches_alone(cells):
    module, of = cells
    moved = of.x + 5 * of.batch[:, None]
    assert module.kept(of.x, moved, of.batch) == 1
    assert module.kept(of.x, of.x[::-1].copy(), of.batch) < 0.5
