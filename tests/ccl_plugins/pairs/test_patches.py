"""Masked patches, against loops over samples, views and patches."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from ccl_plugins.pairs import Samples
from ccl_plugins.pairs.patches import Masks, PatchScores

MASKED = torch.zeros(3, 2, 2, 3, dtype=torch.bool)
MASKED[0, 0, 1, 2] = MASKED[0, 1, 0, 0] = MASKED[0, 1, 1, 1] = True
MASKED[2, 0, 0, 1] = MASKED[2, 0, 0, 2] = True
COUNTS = MASKED.sum((2, 3))


def patches(dtype=torch.float64):
    """Of five masked patches, with scores that have gradients."""
    torch.manual_seed(0)
    student, teacher = torch.randn(2, 5, 4, dtype=dtype)
    return PatchScores(student.requires_grad_(), teacher, COUNTS)


def test_masks_are_counted_by_sample_over_views_rows_and_columns():
    masks = Masks.of(MASKED)
    assert masks.masked is MASKED
    assert masks.counts == [3, 0, 2]
    part = masks.part(slice(1, 3))
    assert torch.equal(part.masked, MASKED[1:])
    assert part.counts == [0, 2]


def test_places_are_those_of_masked_patches_in_order():
    expected = [i for i, masked in enumerate(MASKED.flatten().tolist()) if masked]
    assert Masks.of(MASKED).places().tolist() == expected
    torch.manual_seed(0)
    many = torch.rand(7, 2, 8, 8) < 0.4  # a sort that is not stable orders as few as above alike
    assert torch.equal(Masks.of(many).places(), many.flatten().nonzero().flatten())


def test_the_mean_of_images_is_that_of_each_views_patches():
    values = torch.tensor([1.0, 2.0, 4.0, 8.0, 32.0], dtype=torch.float64, requires_grad=True)
    means = patches().mean_of_images(values)
    assert means.tolist() == [[1.0, 0.0, 20.0], [3.0, 0.0, 0.0]]
    means.sum().backward()
    assert values.grad.tolist() == [1.0, 0.5, 0.5, 0.5, 0.5]
    none = replace(patches(), counts=torch.zeros(3, 2, dtype=torch.long))
    assert none.mean_of_images(values[:0]).tolist() == [[0.0] * 3] * 2


def test_joined_patches_are_those_of_all_parts_in_order():
    whole = patches()
    parts = [
        PatchScores(whole.student[:3], whole.teacher[:3], COUNTS[:2]),
        PatchScores(whole.student[3:], whole.teacher[3:], COUNTS[2:]),
    ]
    joined = PatchScores.joined(parts)
    for name in ("student", "teacher", "counts"):
        assert torch.equal(getattr(joined, name), getattr(whole, name))


def test_scores_are_widened_and_detached_and_the_rest_stays():
    narrow = patches(torch.bfloat16)
    wide = narrow.at_least_float32()
    assert (wide.student.dtype, wide.teacher.dtype) == (torch.float32, torch.float32)
    assert wide.student.requires_grad
    assert patches().at_least_float32().student.dtype == torch.float64
    alone = narrow.detached()
    assert not alone.student.requires_grad
    assert torch.equal(alone.student, narrow.student)
    assert alone.teacher is narrow.teacher
    assert wide.counts is alone.counts is COUNTS


def test_patches_and_samples_stay_as_they_are_and_equal_only_themselves():
    for each in (patches(), Samples(patches=patches())):
        assert len({each, replace(each)}) == 2
        assert each != replace(each)
        with pytest.raises(FrozenInstanceError):
            each.student = each.patches = None
