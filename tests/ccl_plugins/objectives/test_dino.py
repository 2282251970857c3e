"""DINO's loss equals a loop, and lightly's loss over steps that move the center."""

from __future__ import annotations

import pytest
import torch
from lightly.loss import DINOLoss as Theirs
from torch import nn

from ccl_plugins.numerics import sinkhorn
from ccl_plugins.objectives import DINOLoss, FairInfoNCE, Guided, Mixture
from ccl_plugins.pairs import Pairs, Samples, with_keys
from ccl_plugins.protocols import Sizes
from ccl_plugins.testing import on_two_ranks

WIDTH, N = 5, 6


def scores(views, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(views, N, WIDTH, generator=generator, dtype=torch.float64).to(dtype)


def slow(student, targets, temperature=0.1):
    """The mean over views of student and teacher that differ, and samples; targets by view and sample."""
    total, terms = 0.0 * sum(view.sum() for view in student), 0  # a view may not count
    for j, view in enumerate(targets):
        for i, anchors in enumerate(student):
            if i != j:
                for target, anchor in zip(view, anchors, strict=True):
                    shares = torch.exp(anchor / temperature)
                    total = total - sum(
                        q * torch.log(s / shares.sum()) for q, s in zip(target, shares, strict=True)
                    )
                    terms += 1
    return total / terms


@pytest.mark.parametrize("views", [2, 5])
def test_steps_are_those_of_lightlys_loss(views):
    # A temperature that lightly's float32 holds exactly.
    theirs = Theirs(WIDTH, teacher_temp=2**-4, warmup_teacher_temp=2**-4).double()
    ours = DINOLoss(teacher_temperature=2**-4, dim=WIDTH).double()
    for step in range(4):
        student, teacher = scores(views, seed=step).requires_grad_(), scores(2, seed=10 + step)
        expected = theirs(list(teacher), list(student))
        found = ours.loss(with_keys(student, teacher, first_key_view=0))
        ours.after_step()
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
        gradients = [torch.autograd.grad(loss, student)[0] for loss in (found, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(ours.center, theirs.center[0, 0], rtol=1e-9, atol=1e-11)


def test_the_center_moves_by_all_batches_of_a_step_and_not_by_losses_without_gradient():
    objective = DINOLoss(momentum=0.9, dim=WIDTH).double()
    batches = [scores(2, seed) for seed in range(3)]
    for batch in batches[:2]:
        objective.loss(with_keys(scores(2), batch, first_key_view=0))
    with torch.no_grad():
        objective.loss(with_keys(scores(2), batches[2], first_key_view=0))
    torch.testing.assert_close(objective.center, torch.zeros(WIDTH).double())
    objective.after_step()
    mean = torch.cat(batches[:2]).mean((0, 1))
    torch.testing.assert_close(objective.center, 0.1 * mean)
    objective.after_step()  # without a batch it stays
    torch.testing.assert_close(objective.center, 0.1 * mean)


def test_sinkhorn_assigns_the_keys_of_all_views_together():
    teacher, student = scores(2, seed=1), scores(3)
    codes = sinkhorn(teacher.reshape(-1, WIDTH), 0.04, 3).view(2, N, WIDTH)
    objective = DINOLoss(centering="sinkhorn")
    assert not objective.state_dict()
    found = objective.loss(with_keys(student, teacher, first_key_view=0))
    objective.after_step()
    torch.testing.assert_close(found, slow(student, codes.tolist()), rtol=1e-9, atol=1e-11)


def after_a_step(world):
    """Loss, gradient and center after a step, of this process's samples."""
    from lightly.utils import dist

    rows = slice(dist.rank() * N // world, (dist.rank() + 1) * N // world)
    student = scores(3)[:, rows].clone().requires_grad_()
    keys = scores(2, seed=1)[:, rows]
    pairs = with_keys(student, keys, first_key_view=0, gather_distributed=True)
    found = []
    for centering in ("mean", "sinkhorn"):
        objective = DINOLoss(dim=WIDTH, centering=centering).double()
        if objective.center is not None:
            objective.center.fill_(0.1)
        loss = objective.loss(pairs)
        (gradient,) = torch.autograd.grad(loss, student)
        objective.after_step()
        found.append((loss.detach(), gradient, objective.center))
    return found


def test_two_processes_have_the_center_and_the_codes_of_one():
    (whole, codes), ranks = after_a_step(1), on_two_ranks(after_a_step, 2)
    for place, expected in enumerate((whole, codes)):
        losses, gradients, centers = zip(*(each[place] for each in ranks), strict=True)
        torch.testing.assert_close(sum(losses) / 2, expected[0], rtol=1e-9, atol=1e-12)
        together = torch.cat(gradients, 1) / 2
        torch.testing.assert_close(together, expected[1], rtol=1e-9, atol=1e-12)
        for center in centers:
            if center is not None:
                torch.testing.assert_close(center, expected[2], rtol=1e-9, atol=1e-12)


def test_it_is_a_part_of_mixtures_and_guided():
    ids, teacher = torch.arange(N) % 2, scores(2, seed=1)
    pairs = with_keys(scores(2), teacher, Samples({"z": ids}, torch.arange(N)), first_key_view=0)
    fair = FairInfoNCE(on="z")
    expected = DINOLoss(dim=WIDTH).loss(pairs) + 0.3 * fair.loss(pairs.normalized())
    own = DINOLoss(dim=WIDTH)
    both = Mixture([own, fair], [1, 0.3])
    torch.testing.assert_close(both.loss(pairs), expected, rtol=1e-9, atol=1e-11)
    both.after_step()
    torch.testing.assert_close(own.center, 0.1 * teacher.mean((0, 1)).float())
    guides = [{"on": "z", "keep": False, "by": FairInfoNCE(), "weight": 0.3}]
    found = Guided(DINOLoss(dim=WIDTH), guides).loss(pairs)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_a_center_is_made_once_and_comes_back_from_a_checkpoint():
    sizes, objective = Sizes(samples=9, embedding=WIDTH, features=3, steps=2), DINOLoss()
    objective.setup({}, sizes)
    objective.center.fill_(0.5)
    other = DINOLoss()
    other.load_state_dict(objective.state_dict())
    other.setup({}, sizes)
    torch.testing.assert_close(other.center, torch.full((WIDTH,), 0.5))
    assert not isinstance(other.center, nn.Parameter)


def test_what_does_not_go_together_is_said():
    pairs = with_keys(scores(2), scores(2, seed=1), first_key_view=0)
    with pytest.raises(ValueError, match="no center yet"):
        DINOLoss().loss(pairs)
    with pytest.raises(ValueError, match="the center has 4 numbers and embeddings 5"):
        DINOLoss(dim=4).loss(pairs)
    masked = Pairs.from_masks(scores(2), torch.zeros(N, N, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"^DINOLoss compares .*: it takes no masks or draws"):
        DINOLoss(dim=WIDTH).loss(masked)
    for wrong in ({"centering": "none"}, {"momentum": 1.0}, {"teacher_temperature": 0.0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            DINOLoss(**wrong)
