from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from support import oracle
from support.condition_splits import Split, fit

from ccl_plugins.conditions import Synthetic
from ccl_plugins.conditions.synthetic import last_level, within
from ccl_plugins.information.entropies import information

LABELS = torch.arange(90) % 5
LABELS[:20] = 3  # classes of different sizes
SPLIT = Split(label=LABELS, size=LABELS / 2)


def about(**given):
    return information(fit(Synthetic(**given), SPLIT), LABELS)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", oracle.names("synthetic_hierarchy_*"))
def test_equals_the_stored_hierarchies(name):
    case = oracle.case(name)
    size, branch = case["inputs"]["n_instances"], case["inputs"]["branch"]
    assert last_level(size, branch) == len(case["extras"]["labels"]) - 1
    total = 0
    for level, labels in case["extras"]["labels"].items():
        found = within(size, int(level), branch)
        assert found.tolist() == labels
        total += found.sum()
    assert total == case["expected_paper"]


def test_mutual_goes_from_instances_to_labels_and_keeps_what_is_known_of_them():
    found = [about(family="mutual", level=level) for level in range(7)]
    for each in found:
        close(each.mutual, information(LABELS, LABELS).entropy)
    rest = [each.conditional_entropy for each in found]
    assert rest == sorted(rest, reverse=True)
    close(found[0].entropy, information(range(90), LABELS).entropy)
    close(rest[-1], 0.0)


def test_conditional_goes_from_labels_to_nothing_and_adds_nothing():
    found = [about(family="conditional", level=level) for level in range(4)]
    for each in found:
        close(each.conditional_entropy, 0.0)
    close(found[0].mutual, found[0].entropy)
    mutual = [each.mutual for each in found]
    assert mutual == sorted(mutual, reverse=True)
    close(mutual[-1], 0.0)


@pytest.mark.parametrize("level", [2, 4])
def test_entropy_keeps_the_entropy_and_mixes_classes(level):
    found = [about(family="entropy", level=level, mixed=mixed) for mixed in (0, 2, 5)]
    whole = about(family="mutual", level=level)
    for each in found:
        close(each.entropy, whole.entropy)
    close(found[0].mutual, whole.mutual)
    assert found[0].mutual > found[1].mutual > found[2].mutual


def test_levels_join_clusters_of_the_level_before():
    for family, last in (("mutual", 6), ("conditional", 3)):
        levels = [fit(Synthetic(family, level), SPLIT) for level in range(last + 1)]
        for fine, coarse in pairwise(levels):
            assert len(torch.stack([fine, coarse], 1).unique(dim=0)) == len(fine.unique())


def test_another_seed_draws_others():
    first, again, other = (
        fit(Synthetic("mutual", 2, seed=seed), SPLIT).tolist() for seed in (0, 0, 1)
    )
    assert first == again != other


def test_samples_without_a_label_have_no_cluster():
    labels = torch.tensor([0, -1, 0, 1])
    ids = fit(Synthetic("mutual", 1, missing="drop"), Split(label=labels))
    assert ids.tolist() == [0, -1, 0, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"family": "mutual", "level": 7}, "level 7 is beyond the last of family 'mutual', .* 6"),
        ({"family": "conditional", "level": 4}, "level 4 is beyond .* which is 3"),
        ({"family": "entropy", "level": 1, "mixed": 6}, "mixed=6 classes, but there are 5"),
        (
            {"family": "mutual", "level": 1, "column": "klass"},
            "no column 'klass'; it has label, size",
        ),
        (
            {"family": "mutual", "level": 1, "column": "size"},
            "'size' holds torch.float32 .* not class",
        ),
        (
            {"family": "mutual", "level": 1, "mixed": 1},
            "mixed= is a number of classes, and only for family",
        ),
        ({"family": "entropy", "level": 1}, "mixed= is a number of classes, and only for family"),
    ],
)
def test_what_cannot_be_made_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        fit(Synthetic(**given), SPLIT)
