"""The page for lightly's users: its numbers are measured, and it names every loss."""

from __future__ import annotations

import inspect
from pathlib import Path

import lightly.transforms as transforms
import pytest
import torch
from lightly.loss import BarlowTwinsLoss, DCLLoss, NTXentLoss
from lightly.loss.hypersphere_loss import HypersphereLoss
from lightly.utils import dist
from lightly.utils.scheduler import cosine_schedule
from torch import distributed
from torch.nn.functional import batch_norm, normalize
from torch.utils._python_dispatch import TorchDispatchMode
from torchmetrics import retrieval

from ccl_plugins.evaluators.cross_retrieval import median, ranks
from ccl_plugins.kernels import RBF
from ccl_plugins.methods import QueuedLoss
from ccl_plugins.objectives import (
    AlignUniform,
    DINOLoss,
    FairCCLK,
    InfoNCE,
    Lightly,
    NTXent,
    SupCon,
)
from ccl_plugins.objectives.lightly import TAKES
from ccl_plugins.pairs import in_batch
from ccl_plugins.testing import on_two_ranks

PAGE = (Path(__file__).parent.parent / "docs" / "how-to" / "from-lightly.md").read_text()


def vectors():
    torch.manual_seed(0)
    x = torch.randn(256, 128)
    return x, x + torch.randn(256, 128)


def test_the_losses_of_one_batch_are_those_on_the_page():
    x, y = vectors()
    objectives = NTXentLoss(0.5), NTXent(0.5), InfoNCE(0.5), InfoNCE(0.5, within_view=True)
    found = [f"{float(each(x, y)):.3f}" for each in objectives]
    assert f"# {', '.join(found)}" in PAGE
    torch.testing.assert_close(objectives[1](x, y), objectives[0](x, y))


def test_losses_over_a_bank_and_a_queue_are_those_on_the_page():
    bank = NTXentLoss(0.5, memory_bank_size=(4096, 128))
    torch.manual_seed(0)
    bank.memory_bank._init_memory_bank((4096, 128))  # random vectors, of every run others
    queued, losses = QueuedLoss(InfoNCE(0.5), 4096, 128), []
    for step in range(17):
        torch.manual_seed(step)
        query = torch.randn(256, 128, requires_grad=True)
        key = (query + torch.randn(256, 128)).detach()
        losses.append([each(query, key).item() for each in (bank, queued)])
    assert losses[-1][0] == pytest.approx(losses[-1][1], abs=1e-5)
    assert f"({losses[-1][1]:.3f}, {losses[-1][1]:.3f})" in PAGE
    assert losses[0][0] == pytest.approx(6.923, abs=0.02)
    assert f"6.923 against {losses[0][1]:.3f}" in PAGE


def test_barlow_twins_of_parts_is_as_on_the_page():
    x, y = vectors()

    def standard(z):
        return batch_norm(z, None, None, training=True)

    def gathered(parts):
        cs = [standard(a).T @ standard(b) / len(a) for a, b in parts]
        c = sum(cs) / len(parts)
        on = torch.diagonal(c)
        return float((on - 1).square().sum() + 5e-3 * (c.square().sum() - on.square().sum()))

    halves, eighths = ([*zip(x.chunk(k), y.chunk(k), strict=True)] for k in (2, 8))
    local = sum(float(BarlowTwinsLoss()(a, b)) for a, b in eighths) / 8
    whole = float(Lightly("BarlowTwinsLoss")(x, y))
    for number in (gathered(halves), gathered(eighths), whole, local):
        assert f"{number:.2f}" in PAGE
    assert gathered([(x, y)]) == pytest.approx(whole, rel=1e-5)


def test_lightlys_momentum_is_1_in_the_last_epoch():
    assert cosine_schedule(9, 10, 0.996, 1) == 1.0


def test_align_uniform_is_lightlys_hypersphere_loss():
    x, y = vectors()
    ours = AlignUniform(power=3.0, precision=1.5, uniform_weight=0.5)
    torch.testing.assert_close(ours(x, y), HypersphereLoss(t=1.5, lam=0.5, alpha=3.0)(x, y))


def test_every_loss_and_every_parameter_of_lightlys_transforms_is_on_the_page():
    assert not [name for name in TAKES if f"`{name}`" not in PAGE]
    given = inspect.signature(transforms.SimCLRTransform).parameters
    rest = [name for name in given if f"`{name}`" not in PAGE]
    assert rest == ["rr_degrees"]


class Waiting(TorchDispatchMode):
    """How many operations were called that wait for a GPU."""

    found = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        indices = args[1] if name.startswith("aten.index.") else ()
        bools = any(x is not None and x.dtype == torch.bool for x in indices)
        self.found += bools or any(n in name for n in ("_local_scalar", "nonzero", "masked_select"))
        return func(*args, **(kwargs or {}))


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")  # DCLWLoss
def test_the_losses_that_wait_for_a_gpu_are_named_on_the_page(monkeypatch):
    # As in a new process: VISRegLoss waits where torch checks the arguments of distributions.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    waiting = []
    for name in TAKES:
        options = {"DirectCLRLoss": {"loss_dim": 4}, "SIGReg": {"num_vectors": 4}}.get(name)
        objective, pairs = Lightly(name, options), in_batch(torch.randn(3, 8, 6))
        with Waiting() as mode:
            objective.loss(pairs)
        waiting += [name] * bool(mode.found)
    listed = next(line for line in PAGE.split("\n- ") if "wait for a GPU" in line)
    listed = listed.partition("wait for a GPU")[0]
    assert waiting == [name for name in TAKES if f"`{name}`" in listed]


def waits(function, *args, **options):
    with Waiting() as mode:
        function(*args, **options).backward()
    return mode.found


def test_a_direct_call_waits_as_often_as_the_page_says():
    x, y = torch.randn(2, 8, 6, requires_grad=True).unbind()
    labels, color = torch.arange(8) % 3, torch.rand(8, 3)
    assert "`criterion(z0, z1)` checks its inputs and waits once" in " ".join(PAGE.split())
    for objective in (InfoNCE(), NTXent()):
        assert waits(objective, x, y) == 1
    assert waits(SupCon(), x, y, condition=labels) == 1
    assert waits(SupCon(), x, y, condition=labels, missing="ignore") == 1
    assert waits(FairCCLK(RBF(scale=0.1)), x, y, condition=color) == 1
    assert waits(FairCCLK(RBF(scale=0.1)), x, y, condition=color, missing="ignore") == 1
    assert waits(InfoNCE(), x, y, features=(x, y)) == 1
    assert waits(DINOLoss(dim=6), x, y) == 2
    assert waits(QueuedLoss(InfoNCE(), 64, 6), x, y) == 0
    assert waits(InfoNCE().loss, in_batch(torch.stack([x, y]))) == 0


def test_a_peer_that_averages_nonzero_losses_alone_gives_the_number_on_the_page():
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    reducers = pytest.importorskip("pytorch_metric_learning.reducers")
    e = torch.eye(16)
    z = torch.stack([e[0], e[0], e[1], e[1], e[2], e[2] + 1.2 * e[0]])
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    there = losses.SupConLoss(temperature=0.01)(z, labels)
    mean = losses.SupConLoss(temperature=0.01, reducer=reducers.MeanReducer())(z, labels)
    here = SupCon(temperature=0.01)(z[::2], z[1::2], condition=labels[::2])
    torch.testing.assert_close(mean, here)
    assert f"at 0: {there:.2f} |" in PAGE
    assert f"have a positive: {here:.2f}, as with" in PAGE
    assert losses.SupConLoss()(z[:1], labels[:1]) == 0


def clip_gradient(options):
    """The gradient of a loss of images and texts, the mean over the processes that take part."""
    torch.manual_seed(0)
    w = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    x = torch.randn(8, 6, dtype=torch.float64)
    y = x + 0.3 * torch.randn(8, 6, dtype=torch.float64)
    rank, ranks = dist.rank(), dist.world_size()
    a, b = (normalize(z.chunk(ranks)[rank] @ w, dim=1) for z in (x, y))
    if options is None:
        InfoNCE(0.1, gather_distributed=True)(a, b).backward()
    else:
        from open_clip.loss import ClipLoss

        ClipLoss(**options, rank=rank, world_size=ranks)(a, b, 10.0).backward()
    if ranks > 1:
        distributed.all_reduce(w.grad)
    return w.grad / ranks


@pytest.mark.slow  # processes that import open_clip
def test_the_flags_of_open_clip_are_what_the_page_says():
    pytest.importorskip("open_clip")
    whole = clip_gradient(None)
    torch.testing.assert_close(clip_gradient({}), whole)
    for options in (None, *({"gather_with_grad": True, "local_loss": x} for x in (False, True))):
        torch.testing.assert_close(on_two_ranks(clip_gradient, options)[0], whole)
    torch.testing.assert_close(on_two_ranks(clip_gradient, {})[0], whole / 2)
    local = on_two_ranks(clip_gradient, {"local_loss": True})[0]
    cosine = torch.cosine_similarity(local.flatten(), whole.flatten(), dim=0)
    assert f"(a cosine of {cosine:.2f} in an example)" in PAGE


def test_the_median_rank_of_open_clip_is_what_the_page_says():
    metrics = pytest.importorskip("open_clip_train.train").get_clip_metrics
    images, texts = normalize(torch.tensor([[1.0, 0], [2, 1]]), dim=1), torch.eye(2)
    ours = ranks(images, texts, torch.arange(2), torch.arange(2))
    assert ours.tolist() == [1, 2]
    assert metrics(images, texts, torch.tensor(1.0))["image_to_text_median_rank"] == 1
    assert median(ours)["value"] == 1.5


def test_retrieval_metrics_of_torchmetrics_are_what_the_page_says():
    cosines, right = -torch.tensor([0.1, 0.2, 0.9, 0.5]), torch.tensor([True, False, True, False])
    for name in ("RetrievalMAP", "RetrievalMRR", "RetrievalPrecision", "RetrievalRecall"):
        metric = getattr(retrieval, name)
        given = {"indexes": torch.zeros(4, dtype=torch.long)}
        assert metric(top_k=2)(cosines, right, **given) == 0
        assert metric(top_k=2)(cosines + 1, right, **given) > 0
    two = {"indexes": torch.tensor([0, 0, 1, 1])}
    right = torch.tensor([True, False, False, False])
    assert retrieval.RetrievalMAP()(cosines + 1, right, **two) == 0.5
    assert retrieval.RetrievalMAP(empty_target_action="skip")(cosines + 1, right, **two) == 1


def test_small_and_large_batches_are_what_the_page_says():
    one = torch.randn(2, 1, 8).unbind()
    assert NTXentLoss()(*one) == 0
    assert DCLLoss()(*one) == -torch.inf
    with pytest.raises(ValueError, match="a batch needs at least 2, not 1"):
        InfoNCE()(*one)
    queries, keys = torch.randn(2, 12, 4, requires_grad=True).unbind()
    bank = NTXentLoss(memory_bank_size=(8, 4))
    bank(queries, keys.detach())
    torch.testing.assert_close(bank.memory_bank.bank, normalize(keys.detach(), dim=1)[:8])
    with pytest.raises(ValueError, match="12 keys does not fit into a queue of 8"):
        QueuedLoss(InfoNCE(), 8, 4)(queries, keys.detach())
