"""Which negatives of a batch have their anchor's class."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.watching.batches import count_same_class


@pytest.mark.parametrize("shared", [True, False])
def test_negatives_of_the_anchors_label_are_counted(shared):
    generator = torch.Generator().manual_seed(0)
    anchors = torch.randint(-1, 3, (6,), generator=generator)
    others = torch.randint(-1, 3, (9,) if shared else (6, 9), generator=generator)
    counts = torch.rand(6, 9, generator=generator) < 0.7
    same = negatives = 0
    for i in range(6):
        for j in range(9):
            other = int(others[j] if shared else others[i, j])
            if counts[i, j] and other >= 0 and anchors[i] >= 0:
                negatives += 1
                same += int(anchors[i] == other)
    assert count_same_class(anchors, others, counts).tolist() == [same, negatives]
