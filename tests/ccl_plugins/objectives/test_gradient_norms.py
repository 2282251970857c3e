"""Where the features that guides read come from, so that gradients meet there."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.graph import get_gradient_edge

from ccl_plugins.objectives.gradient_norms import COPYING, gradient_norms, origins
from ccl_plugins.pairs import Samples, in_batch

COPIES = {
    "Alias": torch.ops.aten.alias,
    "Cat": lambda x: torch.cat([x]),
    "Clone": torch.clone,
    "Permute": lambda x: x.permute(1, 0),
    "ReshapeAlias": lambda x: torch.ops.aten._reshape_alias(x, [24], [1]),
    "Select": lambda x: x[0],
    "Slice": lambda x: x[1:],
    "Split": lambda x: x.split(2)[0],
    "SplitWithSizes": lambda x: x.split([1, 3])[1],
    "Squeeze": lambda x: x.squeeze(1),
    "Stack": lambda x: torch.stack([x]),
    "T": torch.t,
    "ToCopy": torch.Tensor.float,
    "Transpose": lambda x: x.transpose(0, 1),
    "Unbind": lambda x: x.unbind()[1],
    "UnsafeView": lambda x: x.T.flatten(),
    "Unsqueeze": lambda x: x[None],
    "View": lambda x: x.view(24),
}


@pytest.mark.parametrize("name", COPYING)
def test_a_copy_comes_from_what_it_copies(name):
    made = torch.ones(4, 6, dtype=torch.float64, requires_grad=True) * 2
    copy = COPIES[name](made)
    assert f"{name}Backward" in copy.grad_fn.name()
    assert [*origins(copy)] == [get_gradient_edge(made)]


def test_a_copy_of_several_comes_from_each_and_a_sum_from_itself():
    one, two = (torch.ones(4, 6, requires_grad=True) for _ in range(2))
    found = [*origins(torch.stack([one.T, two.T]))]
    assert {edge.node for edge in found} == {get_gradient_edge(x).node for x in (one, two)}
    total = one + two
    assert [*origins(total[0])] == [get_gradient_edge(total)]


def test_the_norms_are_those_of_the_gradients_at_the_features_or_the_anchors():
    leaf = torch.arange(1.0, 13.0, dtype=torch.float64).reshape(2, 3, 2).requires_grad_()
    made = leaf * 1
    anchors = made.square()
    constant = torch.zeros((), dtype=torch.float64)
    losses = [anchors.sum(), made.sum(), constant]
    there = in_batch(anchors, Samples({}, features=made.reshape(2, 3, 2)))
    found = gradient_norms(losses, there)
    expected = [2 * leaf.detach().norm(), torch.tensor(12.0).double().sqrt(), constant]
    torch.testing.assert_close(found, expected)
    losses = [anchors.sum(), 3 * anchors.sum()]
    found = gradient_norms(losses, in_batch(anchors, Samples({})))
    torch.testing.assert_close(torch.stack(found), torch.tensor([1.0, 3.0]).double() * 12**0.5)
    with pytest.raises(ValueError, match="finds no gradient of the base by the features"):
        gradient_norms([constant, anchors.sum()], there)
