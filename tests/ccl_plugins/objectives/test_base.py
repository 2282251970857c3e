"""What the base class does for an objective that has more than terms."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ccl_plugins.objectives import ClusterCrossEntropy, ContrastiveObjective, InfoNCE, Mixture
from ccl_plugins.protocols import Sizes

X, Y = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).unbind()


class Remembering(ContrastiveObjective):
    """Has state that only its setup can size, and looks at dataset indices."""

    centers: nn.Parameter | None
    average: torch.Tensor | None

    def __init__(self):
        super().__init__()
        self.register_parameter("centers", None)
        self.register_buffer("average", None)

    def setup(self, tables, sizes):
        self.centers = nn.Parameter(torch.ones(sizes.samples, 3))
        self.average = torch.zeros(sizes.samples)

    def terms(self, pairs):
        self.index = pairs.index
        own = pairs.own_sim(0, 1)[None]
        return own, torch.ones_like(own)


def test_a_call_hands_on_dataset_indices():
    objective = Remembering()
    objective(X, Y)
    assert objective.index is None
    objective(X, Y, index=torch.arange(4))
    torch.testing.assert_close(objective.index, torch.arange(4))


def test_a_call_hands_on_further_tensors():
    class Reading(ContrastiveObjective):
        def terms(self, pairs):
            own = pairs.own_sim(0, 1)[None] * pairs.extras["condition/scale"]
            return own, torch.ones_like(own)

    doubled = Reading()(X, Y, extras={"condition/scale": torch.tensor(2.0)})
    once = Reading()(X, Y, extras={"condition/scale": torch.tensor(1.0)})
    torch.testing.assert_close(doubled, 2 * once)


def test_state_that_setup_sizes_is_saved_and_loaded():
    objective = Remembering()
    assert not objective.state_dict()
    objective.setup({}, Sizes(5, 3, 3, 1))
    loaded = nn.ModuleDict({"part": Remembering()})
    loaded.load_state_dict(nn.ModuleDict({"part": objective}).state_dict())
    torch.testing.assert_close(loaded["part"].centers, objective.centers)
    torch.testing.assert_close(loaded["part"].average, torch.zeros(5))
    assert [name for name, _ in loaded.named_parameters()] == ["part.centers"]


def test_a_mixture_lets_its_objectives_refuse_values():
    mixture = Mixture([ClusterCrossEntropy(3, classes=2, of="projection")])
    with pytest.raises(ValueError, match="from 0 to 1, not 0 to 3"):
        mixture(X, Y, condition=torch.arange(4))


def test_a_call_that_is_compiled_gives_the_same_loss_without_the_check_that_waits(monkeypatch):
    objective = InfoNCE(0.3)
    eager = objective(X, Y)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(InfoNCE, "defined_loss", None)
    torch.testing.assert_close(objective(X, Y), eager)
