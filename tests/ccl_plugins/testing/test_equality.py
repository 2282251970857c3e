"""``equals`` compares an objective with the code it was ported from."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from ccl_plugins.objectives import InfoNCE, SupCon
from ccl_plugins.testing import equals


def reference(x, y):
    """InfoNCE of both views, written out."""
    logits = normalize(x, dim=1) @ normalize(y, dim=1).T / 0.1
    own = logits.diagonal()
    return ((logits.logsumexp(1) - own).mean() + (logits.logsumexp(0) - own).mean()) / 2


def views(n=5):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, n, 4, generator=generator, dtype=torch.float64).unbind()


def test_equal_losses_pass():
    equals(InfoNCE(temperature=0.1), reference, views(), tolerance=1e-9)


def test_conditions_go_by_name():
    given = {"views": views(), "condition": torch.tensor([0, 0, 1, 1, 2])}
    equals(SupCon(), lambda x, y, condition: SupCon()(x, y, condition=condition), given)


def test_another_value_is_shown_with_the_case():
    with pytest.raises(
        AssertionError, match=r"the value differs by .*\n.*\n.*\n.*\nfor the inputs"
    ):
        equals(InfoNCE(temperature=0.2), reference, views())


def test_another_gradient_of_an_equal_value_is_found():
    with pytest.raises(AssertionError, match="the gradient by input 1 differs"):
        equals(lambda x, y: reference(x, 2 * y - y.detach()), reference, views())


def test_a_gradient_that_is_missing_is_found():
    with pytest.raises(AssertionError, match=r"by input 1 is\n  None\nand should be\n  \(5, 4\)"):
        equals(lambda x, y: reference(x, y.detach()), reference, views())


def test_nan_differs_from_a_number():
    with pytest.raises(AssertionError, match="the value differs"):
        equals(lambda x, y: reference(x, y) * torch.nan, reference, views())
