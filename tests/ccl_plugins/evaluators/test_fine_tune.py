"""Fine-tuning trains a copy of the network on the images of the run."""

from __future__ import annotations

import copy

import pytest
import torch
from support.measured import values
from support.vector_pipeline import make_pipeline
from torch import nn
from torch.nn import functional

import ccl_plugins as ccl
from ccl_plugins.evaluators import FineTune
from ccl_plugins.protocols import Frozen, Images


class Network(nn.Module):
    """With batch statistics and dropout, which training must not spread."""

    num_features = 6

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        return self.dropout(self.norm(self.layer(x)).relu())


def frozen(network, n, seed=0):
    """Samples whose class no linear classifier of the inputs finds: the sign of a product."""
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))
    label = (x[:, 0] * x[:, 1] > 0).long()
    images = Images(
        torch.arange(n), lambda pieces: (x[p] for p in pieces), lambda: copy.deepcopy(network)
    )
    return Frozen(network.eval()(x).detach(), {"label": label, "digit": label + 3}, images)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Network()


def test_a_copy_is_trained_and_the_network_stays_as_it_is(network):
    before, state = copy.deepcopy(network.state_dict()), torch.get_rng_state()
    train, test = frozen(network, 200), frozen(network, 100, seed=1)
    evaluator = FineTune(lr=0.1, epochs=40, batch_size=50)
    found = evaluator(train, test)
    assert values(found)["fine_tune/top1"] > 0.8, "frozen features do not tell"
    assert found[0].interval is not None
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)
    assert not network.training
    assert torch.get_rng_state().equal(state)
    torch.manual_seed(5)
    with torch.no_grad():
        assert evaluator(train, test) == found


def test_a_network_without_weights_has_a_trained_classifier():
    network = nn.Identity()
    network.num_features = 4
    train, test = frozen(network, 60), frozen(network, 30, seed=1)
    assert FineTune(epochs=1)(train, test)[0].name == "fine_tune/top1"


def test_the_training_is_that_of_a_loop_written_out(network):
    network.dropout.p = 0.0
    train, test = frozen(network, 60), frozen(network, 40, seed=1)
    found = values(FineTune(lr=0.1, epochs=3, batch_size=20, seed=2)(train, test))
    generator = torch.Generator().manual_seed(2)
    model = nn.Sequential(copy.deepcopy(network), nn.Linear(6, 2)).train()
    nn.init.normal_(model[1].weight, 0.0, 0.01, generator=generator)
    nn.init.zeros_(model[1].bias)
    speed = [torch.zeros_like(p) for p in model.parameters()]
    (x,) = train.images.batches([torch.arange(60)])
    for step in range(9):
        if step % 3 == 0:
            order = torch.randperm(60, generator=generator)
        rows = order[20 * (step % 3) :][:20]
        model.zero_grad()
        functional.cross_entropy(model(x[rows]), train.metadata["label"][rows]).backward()
        lr = 0.1 * 0.5 * (1 + torch.cos(torch.tensor(torch.pi * step / 9)).item())
        with torch.no_grad():
            for p, v in zip(model.parameters(), speed, strict=True):
                v.mul_(0.9).add_(p.grad)
                p.sub_(lr * (p.grad + 0.9 * v))
    (x,) = test.images.batches([torch.arange(40)])
    predicted = model.eval()(x).argmax(1)
    expected = (predicted == test.metadata["label"]).double().mean().item()
    assert found == {"fine_tune/top1": expected}


def test_few_samples_of_each_class_are_used(network, monkeypatch):
    train, sizes = frozen(network, 200), []
    plan = "ccl_plugins.evaluators.gradient_probes.Plan.train"
    monkeypatch.setattr(
        plan, lambda self, model, optimizer, read, index, g: sizes.append(len(index))
    )
    assert list(values(FineTune(samples=5)(train, train))) == ["fine_tune_5/top1"]
    assert list(values(FineTune(samples=0.1, column="digit")(train, train))) == [
        "fine_tune_0.1-digit/top1"
    ]
    assert sizes[0] == 10
    assert 19 <= sizes[1] <= 21


def test_features_without_images_are_refused(network):
    train = frozen(network, 20)
    with pytest.raises(ValueError, match="needs the images and the network behind the features"):
        FineTune()(Frozen(train.features, train.metadata), train)


def test_a_run_is_fine_tuned_without_a_change_of_its_weights(tmp_path):
    choices = make_pipeline().choices
    tune = ccl.evaluator("fine_tune", epochs=2, batch_size=8)
    pipeline = ccl.Pipeline(
        **choices, evaluate=["knn", tune], fit={"epochs": 1, "workers": 0, "batch_size": 16}
    )
    run = pipeline.fit(out=tmp_path / "tuned", progress=False)
    plain = make_pipeline(epochs=1).fit(out=tmp_path / "plain", progress=False)
    states = [each.parts.method.state_dict() for each in (run, plain)]
    torch.testing.assert_close(*states, rtol=0, atol=0)
    features = run.features("test").features.clone()
    before = copy.deepcopy(states[0])
    assert run.evaluate().keys() == run.before.keys() == {"knn/top1", "fine_tune/top1"}
    assert run.validate().keys() == {"knn/top1", "fine_tune/top1"}
    torch.testing.assert_close(run.parts.method.state_dict(), before, rtol=0, atol=0)
    images = run.features("train").images
    rows = torch.tensor([3, 1])
    (x,) = run.features("train").take(rows).images.batches([torch.arange(2)])
    torch.testing.assert_close(run.parts.method.encode(x), run.features("train").features[rows])
    assert len(images.rows) == 32
    torch.testing.assert_close(run.features("test").features, features)
