from __future__ import annotations

import pytest
import torch

from ccl_plugins.backbones import TextTransformer

SMALL = {"vocabulary": 11, "length": 6, "width": 8, "depth": 2, "heads": 2}
TEXTS = torch.tensor([[3, 4, 5, 0, 0, 0], [7, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6]])


def transformer(**given):
    torch.manual_seed(0)
    return TextTransformer(**{**SMALL, **given})


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "class"])
def test_padding_changes_nothing(pooling, mode):
    network = transformer(pooling=pooling).train(mode)
    features = network(TEXTS)
    torch.testing.assert_close(network(TEXTS[:2, :3]), features[:2])
    torch.testing.assert_close(network(TEXTS[1:2, :1]), features[1:2])


@pytest.mark.parametrize("pooling", ["mean", "class"])
def test_a_text_without_tokens_has_features_and_a_gradient(pooling):
    network = transformer(pooling=pooling)
    features = network(torch.zeros(2, 6, dtype=torch.long))
    features.square().sum().backward()
    assert features.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("pooling", ["mean", "class"])
def test_the_order_of_tokens_matters_and_every_token_sees_every_other(pooling):
    network = transformer(pooling=pooling)
    features = network(TEXTS)
    assert not torch.allclose(network(TEXTS.flip(1))[2], features[2], atol=1e-3)
    first_changed = TEXTS.clone()
    first_changed[2, 0] = 9
    assert not torch.allclose(network(first_changed)[2], features[2], atol=1e-3)


def test_layers_are_drawn_one_by_one():
    first, second = (layer.linear1.weight for layer in transformer().layers.layers)
    assert not torch.equal(first, second)


def test_vectors_of_tokens_are_not_decayed():
    assert transformer(pooling="class").no_weight_decay() == {
        "tokens.weight",
        "positions",
        "class_token",
    }
    assert transformer().no_weight_decay() == {"tokens.weight", "positions"}


@pytest.mark.parametrize(
    "x", [torch.zeros(2, 7).long(), torch.zeros(2, 6), torch.zeros(6).long()], ids=lambda x: x.ndim
)
def test_what_is_no_batch_of_token_ids_is_refused(x):
    with pytest.raises(ValueError, match=r"takes token ids \(n, 6\) or fewer"):
        transformer()(x)


def test_heads_divide_the_width():
    with pytest.raises(ValueError, match="multiple of heads=3"):
        transformer(heads=3)


def test_it_compiles_without_graph_breaks():
    network = transformer()
    compiled = torch.compile(network, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(TEXTS), network(TEXTS))
