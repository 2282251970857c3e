"""Two towers: what they embed, what objectives make of it, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support import oracle
from support.every_objective import D, representatives
from torch import nn

from ccl_plugins.backbones import MLP, LeNet5, TextTransformer
from ccl_plugins.conditions import Embedding
from ccl_plugins.kernels import RBF, Linear
from ccl_plugins.methods import Dual
from ccl_plugins.numerics.gram import ExactFeatures, Statistic
from ccl_plugins.objectives import CMC, FairCCLK, InfoNCE, SupCon
from ccl_plugins.pairs import Samples


class Flat(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.num_features = width

    def forward(self, x):
        return x.flatten(1)


def text(**given):
    return TextTransformer(**{"vocabulary": 11, "length": 6, "width": 8, "depth": 1, **given})


def dual(modalities=None, towers=None, **given):
    torch.manual_seed(0)
    towers = {"text": text()} if towers is None else towers
    return Dual(towers, dim=8, **given, backbone=Flat(), modalities=modalities)


def sample(n=5, images=1, texts=1):
    generator = torch.Generator().manual_seed(1)
    seen = [torch.randn(n, 3, 2, 2, generator=generator) for _ in range(images)]
    return seen + [torch.randint(1, 11, (n, 6), generator=generator) for _ in range(texts)]


def clip(images, texts, temperature):
    """CLIP's loss as its paper's figure 3 writes it, with loops: the mean of two cross entropies."""
    images = [image / image.norm() for image in images]
    texts = [each / each.norm() for each in texts]
    n, total = len(images), 0.0
    for i in range(n):
        by_image = [images[i] @ texts[j] / temperature for j in range(n)]
        by_text = [images[j] @ texts[i] / temperature for j in range(n)]
        total += sum(each.exp() for each in by_image).log() - by_image[i]
        total += sum(each.exp() for each in by_text).log() - by_text[i]
    return total / (2 * n)


@pytest.mark.parametrize(("layers", "biases"), [(1, [False]), (2, [True] * 2), (3, [True] * 3)])
def test_one_layer_is_a_projection_without_bias_and_several_are_a_network(layers, biases):
    for projection in dual(layers=layers).heads.values():
        linear = [each for each in projection.modules() if isinstance(each, nn.Linear)]
        assert [each.bias is not None for each in linear] == biases


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-9), (torch.float32, 2e-5)])
def test_infonce_on_two_towers_is_the_loss_of_clip_in_value_and_gradient(dtype, near):
    method, views = dual().to(dtype), sample()
    views[0] = views[0].to(dtype)
    objective = InfoNCE(temperature={"learn": True, "start": 0.07}).to(dtype)
    loss = objective.loss(
        method.pairs(method.embed(views).normalized(), Samples(index=torch.arange(5)))
    )
    temperature = objective.scalars()["temperature"]
    torch.testing.assert_close(float(temperature), 0.07, rtol=1e-6, atol=0)
    image, words = (
        method.embed_modality(*each) for each in zip(("image", "text"), views, strict=True)
    )
    expected = clip(image, words, temperature)
    torch.testing.assert_close(loss, expected, rtol=near, atol=near)
    weights = [*method.parameters()]
    found = torch.autograd.grad(loss, weights)
    torch.testing.assert_close(found, torch.autograd.grad(expected, weights), rtol=near, atol=near)


def test_each_modality_has_a_tower_and_a_head_of_its_own():
    method = dual(("image", "image", "text")).eval()
    views = sample(images=2)
    embedded = method.embed(views)
    assert embedded.features.shape == (2, 5, 12)
    assert embedded.projections.shape == (3, 5, 8)
    torch.testing.assert_close(embedded.features[1], views[1].flatten(1))
    torch.testing.assert_close(embedded.projections[1], method.project(views[1]))
    torch.testing.assert_close(embedded.projections[2], method.embed_modality("text", views[2]))
    torch.testing.assert_close(method.encode(views[0]), embedded.features[0])
    assert [type(head.layers) for head in method.heads.values()] == [nn.Sequential] * 2
    shapes = [tuple(p.shape) for p in method.heads.parameters()]
    assert shapes == [(8, 12), (8, 8)], "linear without a bias, as CLIP's"


def test_pairs_are_of_all_views_whatever_their_modalities():
    method = dual(("image", "image", "text", "text"))
    embedded = method.embed(sample(images=2, texts=2)).normalized()
    samples = Samples(index=torch.arange(5), features=embedded.features)
    pairs = method.pairs(embedded, samples)
    assert pairs.anchor_views == pairs.key_views == (0, 1, 2, 3)
    assert len([*pairs.cross()]) == 12
    assert pairs.samples.features is embedded.features


@pytest.mark.parametrize("views", [("image", "text"), ("image", "image", "text", "text")], ids=len)
@pytest.mark.parametrize("case", representatives(), ids=str)
def test_each_way_of_reading_pairs_runs_on_two_towers(case, views):
    n, images = 8, views.count("image")
    torch.manual_seed(0)
    method = Dual({"text": text()}, dim=D, backbone=Flat(D), modalities=views).double()
    given = [
        view.double() if view.is_floating_point() else view for view in sample(n, images, images)
    ]
    given[:images] = [torch.cat([view, view[:, :1]], 1) for view in given[:images]]
    condition = case.condition(torch.arange(n) % 3, torch.rand(n, 3).double())
    condition = {k: z.repeat(images, 1, 1) if z.ndim == 3 else z for k, z in condition.items()}
    objective = case.build()
    if objective.min_views > len(views):
        pytest.skip("needs more views")
    if objective.reads_features:
        pytest.skip("reads the features of the images alone, here of a backbone without weights")
    embedded = method.embed(given)
    embedded = embedded if objective.embedding == "raw" else embedded.normalized()
    loss = objective.loss(method.pairs(embedded, Samples(condition, torch.arange(n))))
    loss.backward()
    assert loss.isfinite()
    towers = [method.heads["image"], method.heads["text"], method.towers]
    if case.name != "cluster_cross_entropy":  # its features are those of the images alone
        assert all(any(p.grad.abs().sum() > 0 for p in tower.parameters()) for tower in towers)


@pytest.mark.parametrize(
    ("towers", "modalities", "message"),
    [
        ({}, None, "dual needs towers of other modalities than the image"),
        ({"image": text()}, None, "whose tower is the backbone"),
        (
            {"text": text()},
            ("image", "image"),
            "dual has a tower for 'text', but the views are of image:",
        ),
        (
            {"text": text()},
            ("image", "text", "sound"),
            "dual has no tower for the views of 'sound'",
        ),
        ({"keys": text()}, None, "cannot be called 'keys'"),
        ({"a.b": text()}, None, "cannot be called 'a.b'"),
    ],
)
def test_towers_and_views_that_do_not_go_together_are_refused(towers, modalities, message):
    with pytest.raises(ValueError, match=message):
        dual(modalities, towers)


def test_another_number_of_views_is_refused():
    with pytest.raises(ValueError, match="embeds views of image, text, but got 3 views"):
        dual().embed(sample(images=2))


def test_the_backbone_condition_of_a_text_is_the_features_of_its_image():
    embedded = dual(("image", "image", "text")).embed(sample(images=2))
    z = Embedding(of="backbone")(embedded)
    torch.testing.assert_close(z[:2], embedded.features)
    torch.testing.assert_close(z[2], embedded.features[0])


def test_attributes_as_a_view_are_cmc_with_an_encoder_of_attributes():
    case = oracle.case("cmc_attribute_view")
    x, a = (torch.tensor(case["inputs"][key], dtype=torch.float64) for key in "xa")
    method = Dual({"attributes": MLP(16, hidden=())}, dim=16, backbone=MLP(16, hidden=())).double()
    with torch.no_grad():
        for head in method.heads.values():
            head.layers[0].weight.copy_(torch.eye(16))
    embedded = method.embed([x, a]).normalized()
    loss = CMC(temperature=case["params"]["tau"]).loss(method.pairs(embedded, Samples()))
    torch.testing.assert_close(loss.item(), case["expected_paper"], rtol=1e-9, atol=1e-9)


def test_color_channels_as_modalities_are_the_lab_views_of_cmc():
    """L and ab of an image, each with a network of its own."""
    method = Dual({"ab": LeNet5(in_channels=2)}, dim=8, backbone=LeNet5(in_channels=1)).eval()
    lab = torch.randn(4, 3, 32, 32)
    views = [lab[:, :1], lab[:, 1:]]
    embedded = method.embed(views)
    torch.testing.assert_close(embedded.projections[1], method.embed_modality("ab", views[1]))
    loss = CMC(reduction="mean").loss(method.pairs(embedded.normalized(), Samples()))
    raw = InfoNCE(temperature=0.07)(*embedded.projections)
    torch.testing.assert_close(loss, raw)


def test_towers_of_any_network_take_part():
    towers = {"text": text(pooling="class"), "features": MLP(5, hidden=())}
    method = dual(("image", "text", "features"), towers)
    embedded = method.embed([*sample(), torch.randn(5, 5)])
    assert embedded.projections.shape == (3, 5, 8)
    InfoNCE().loss(method.pairs(embedded.normalized(), Samples())).backward()
    assert all(p.grad is not None for p in method.parameters())


def queued(n, filled, modalities=("image", "text"), **given):
    """A method with a queue of some samples, and the pairs of a batch on it."""
    method = dual(modalities, queue_size=6, momentum=0.5, **given).double()
    images, texts = modalities.count("image"), modalities.count("text")
    for first in range(0, filled, 2):
        earlier = [
            view[first : first + 2].double()
            if view.is_floating_point()
            else view[first : first + 2]
            for view in sample(20, images, texts)
        ]
        index = torch.arange(100 + first, 102 + first)
        method.enqueue(method.pairs(method.embed(earlier).normalized(), Samples(index=index)))
    views = [
        v[10 : 10 + n].double() if v.is_floating_point() else v[10 : 10 + n]
        for v in sample(20, images, texts)
    ]
    return method, views


def clip_with_queues(method, views, temperature):
    """InfoNCE of each query with the momentum keys of the other modality, and with the queue of these."""
    n, total = len(views[0]), 0.0
    unit = [
        nn.functional.normalize(method.embed_modality(*each), dim=1)
        for each in zip(("image", "text"), views, strict=True)
    ]
    keys = [
        nn.functional.normalize(method.key_encoders[name](x), dim=1)
        for name, x in zip(("image", "text"), views, strict=True)
    ]
    filled, size = int(method.queue.filled), len(method.queue)
    held = dict(zip(("text", "image"), method.queue.keys.chunk(2, 1), strict=True))
    for queries, others, name in ((unit[0], keys[1], "text"), (unit[1], keys[0], "image")):
        for i in range(n):
            seen = [others[j] for j in range(n) if j == i or filled < size]
            seen += [held[name][j] for j in range(filled)]
            scores = [queries[i] @ key / temperature for key in seen]
            total += (
                sum(score.exp() for score in scores).log() - queries[i] @ others[i] / temperature
            )
    return total / (2 * n)


@pytest.mark.parametrize("filled", [0, 4, 6])
@pytest.mark.parametrize("name", ["infonce", "supcon"])
def test_each_modality_is_compared_with_a_queue_of_the_other(filled, name):
    method, views = queued(4, filled)
    pairs = method.pairs(
        method.embed(views).normalized(), Samples({"label": torch.arange(4)}, torch.arange(4))
    )
    pairs = replace(pairs, queue=replace(pairs.queue, condition={"label": torch.arange(10, 16)}))
    objective = (
        InfoNCE(temperature=0.2) if name == "infonce" else SupCon(on="label", temperature=0.2)
    )
    loss, expected = objective.loss(pairs), clip_with_queues(method, views, 0.2)
    if name == "infonce":
        torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-9)
        weights = [p for p in method.parameters() if p.requires_grad]
        found = torch.autograd.grad(loss, weights)
        torch.testing.assert_close(
            found, torch.autograd.grad(expected, weights), rtol=1e-9, atol=1e-9
        )
    assert loss.isfinite()
    assert not pairs.queue.keys.requires_grad
    assert not pairs.keys.requires_grad


@pytest.mark.parametrize("filled", [2, 6])
@pytest.mark.parametrize("case", representatives(), ids=str)
def test_each_way_of_reading_pairs_runs_with_the_queues_of_two_towers(case, filled):
    method, views = queued(4, filled, ("image", "image", "text"))
    objective = case.build()
    if case.name == "cluster_cross_entropy" or not objective.reads_queue:
        pytest.skip("reads no queue")
    condition = case.condition(torch.arange(4) % 2, torch.rand(4, 3).double())
    condition = {k: z[:1].expand(3, -1, -1) if z.ndim == 3 else z for k, z in condition.items()}
    embedded = method.embed(views)
    embedded = embedded if objective.embedding == "raw" else embedded.normalized()
    loss = objective.loss(method.pairs(embedded, Samples(condition, torch.arange(4))))
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in method.parameters())


def test_momentum_towers_follow_and_the_queue_holds_both_modalities_of_a_sample():
    method, views = queued(4, 0)
    with torch.no_grad():
        for p in method.parameters():
            p.add_(1.0) if p.requires_grad else None
    before = method.key_encoders["text"].head.layers[0].weight.clone()
    method.after_step(0, 10)
    now, online = (
        method.key_encoders["text"].head.layers[0].weight,
        method.heads["text"].layers[0].weight,
    )
    torch.testing.assert_close(now, (before + online) / 2)
    pairs = method.pairs(
        method.embed(views).normalized(), Samples({"age": torch.arange(4.0)}, torch.arange(4))
    )
    method.enqueue(pairs)
    held = method.queue.keys[:4].chunk(2, 1)
    torch.testing.assert_close(held, (pairs.keys[1], pairs.keys[0]))
    torch.testing.assert_close(method.queue.condition("age", torch.zeros(1))[:4], torch.arange(4.0))
    torch.testing.assert_close(method.project_key(views[0]), method.key_encoders["image"](views[0]))


def test_partners_need_two_views_of_the_image_for_a_queue():
    method, views = queued(4, 0)
    pairs = method.pairs(method.embed(views).normalized(), Samples(index=torch.arange(4)))
    with pytest.raises(ValueError, match="take two views of the image, or queue_size=0"):
        method.enqueue(replace(pairs, samples=replace(pairs.samples, partner=torch.arange(4))))


def test_without_a_queue_there_is_nothing_to_keep():
    method = dual()
    method.check_batch(10**6)
    method.read_conditions(lambda index: {})
    method.keep_statistics({})
    method.after_step(0, 1)
    assert not any("queue" in name or "key" in name for name in method.state_dict())
    with pytest.raises(ValueError, match="batch of 8 does not fit into the queue of 6"):
        queued(4, 0)[0].check_batch(8)
    assert [Dual.has_queue({"queue_size": size, "dim": 4}) for size in (0, 1)] == [False, True]


def test_the_queue_keeps_the_statistics_that_an_objective_asks_for():
    method, wanted = dual(queue_size=6), {"gram": Statistic("age", ExactFeatures(Linear()))}
    method.keep_statistics(wanted)
    assert method.queue.statistics == wanted


@pytest.mark.parametrize(
    "objective",
    [
        FairCCLK(RBF()),
        pytest.param(InfoNCE(), marks=pytest.mark.slow),
        pytest.param(SupCon(on="condition"), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_losses_over_a_queue_of_each_modality_compile_without_graph_breaks(objective):
    method, views = queued(4, 4, ("image", "image", "text"))
    ids = isinstance(objective, SupCon)
    condition = {"condition": torch.arange(4) % 2 if ids else torch.rand(4, 3).double()}
    with torch.no_grad():
        pairs = method.pairs(method.embed(views).normalized(), Samples(condition, torch.arange(4)))
    compiled = torch.compile(objective.loss, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(pairs), objective.loss(pairs))


@pytest.mark.parametrize(("own", "counted"), [("ignore", False), ("negative", True)])
def test_the_keys_of_an_anchors_own_sample_are_left_out_of_the_queue_or_not(own, counted):
    method, views = queued(4, 4, own_in_queue=own)
    pairs = method.pairs(method.embed(views).normalized(), Samples(index=torch.arange(101, 105)))
    assert pairs.in_queue().expand(4, -1)[0, 1].item() is counted
