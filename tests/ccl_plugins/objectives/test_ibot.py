"""iBOT's loss equals a loop, and lightly's loss over steps that move the center."""

from __future__ import annotations

import itertools

import pytest
import torch
from lightly.loss import IBOTPatchLoss as Theirs

from ccl_plugins.numerics import sinkhorn
from ccl_plugins.objectives import DINOLoss, IBOTLoss, Mixture
from ccl_plugins.pairs import Masks, PatchScores, Samples, with_keys
from ccl_plugins.testing import on_two_ranks

WIDTH, N = 5, 6


def numbers(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def masked(views=2, seed=0, n=N):
    """(n, v, 3, 2) with 0 to 6 masked patches in each view; the first sample has none."""
    found = numbers(n, views, 3, 2, seed=seed) > 0.3
    found[0] = False
    return found


def patches_of(mask, seed=0, dtype=torch.float64, shrink=1.0):
    """Scores of the masked patches among those of all patches."""
    scores = [numbers(*mask.shape, WIDTH, seed=seed + k, dtype=dtype)[mask] for k in (1, 2)]
    student, teacher = scores[0].requires_grad_(), shrink * scores[1]
    return PatchScores(student, teacher, mask.sum((2, 3)))


def pairs_of(patches, world=1):
    scores = numbers(3, len(patches.counts), WIDTH)
    samples = Samples(patches=patches)
    return with_keys(scores, scores[:2], samples, first_key_view=0, gather_distributed=world > 1)


def slow(student, targets, counts, temperature=0.1):
    """The mean over all views of the mean over their masked patches; these stand view by view."""
    total, patch = 0.0 * student.sum(), 0
    for count in (int(c) for c in counts.flatten()):
        for _ in range(count):
            shares = torch.exp(student[patch] / temperature)
            own = sum(
                q * torch.log(s / shares.sum()) for q, s in zip(targets[patch], shares, strict=True)
            )
            total, patch = total - own / count, patch + 1
    return total / counts.numel()


@pytest.mark.usefixtures("in_float64")
def test_steps_are_those_of_lightlys_loss():
    theirs, ours = Theirs(WIDTH), IBOTLoss(dim=WIDTH)
    for step in range(4):
        mask = masked(seed=step)
        given = patches_of(mask, seed=10 * step)
        expected = theirs(given.teacher, given.student, mask.flatten(0, 1))
        found = ours.loss(pairs_of(given))
        ours.after_step()
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
        gradients = [torch.autograd.grad(loss, given.student)[0] for loss in (found, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(ours.center, theirs.center.value[0], rtol=1e-9, atol=1e-11)


def test_sinkhorn_assigns_the_masked_patches_of_all_views_together():
    given = patches_of(masked())
    codes = sinkhorn(given.teacher, 0.04, 3)
    objective = IBOTLoss(centering="sinkhorn")
    assert not objective.state_dict()
    found = objective.loss(pairs_of(given))
    expected = slow(given.student, codes.tolist(), given.counts)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def after_a_step(world, only_first):
    """Loss, gradient and center after a step, of this process's samples."""
    from lightly.utils import dist

    mask = masked(n=8, seed=3)
    if only_first:
        mask[4:] = False
    student, teacher = numbers(*mask.shape, WIDTH, seed=1), numbers(*mask.shape, WIDTH, seed=2)
    student.requires_grad_()
    rows = slice(dist.rank() * 8 // world, (dist.rank() + 1) * 8 // world)
    own = mask[rows]
    patches = PatchScores(student[rows][own], teacher[rows][own], own.sum((2, 3)))
    pairs = pairs_of(patches, world)
    found = []
    for centering in ("mean", "sinkhorn"):
        objective = IBOTLoss(dim=WIDTH, centering=centering).double()
        if objective.center is not None:
            objective.center.fill_(0.1)
        loss = objective.loss(pairs)
        (gradient,) = torch.autograd.grad(loss, student, retain_graph=True)
        objective.after_step()
        found.append((loss.detach(), gradient, objective.center))
    return found


@pytest.mark.parametrize("only_first", [False, True])
def test_two_processes_with_different_numbers_of_patches_are_one(only_first):
    """Values, gradients, center and codes; on the second process there may be no masked patch."""
    whole, ranks = after_a_step(1, only_first), on_two_ranks(after_a_step, 2, only_first)
    for place, (loss, gradient, center) in enumerate(whole):
        losses, gradients, centers = zip(*(each[place] for each in ranks), strict=True)
        near = {"rtol": 1e-9, "atol": 1e-12}
        torch.testing.assert_close(sum(losses) / 2, loss, **near)
        torch.testing.assert_close(sum(gradients) / 2, gradient, **near)
        for each in centers:
            if center is not None:
                torch.testing.assert_close(each, center, **near)


def test_a_batch_without_a_mask_has_a_loss_of_zero_and_does_not_move_the_center():
    given = patches_of(torch.zeros(N, 2, 3, 2, dtype=torch.bool))
    for centering in ("mean", "sinkhorn"):
        objective = IBOTLoss(dim=WIDTH, centering=centering).double()
        loss = objective.loss(pairs_of(given))
        loss.backward()
        assert float(loss.detach()) == 0
        objective.after_step()
        assert centering == "sinkhorn" or not bool(objective.center.any())


def test_it_is_a_further_term_of_dinos_mixture():
    pairs = pairs_of(patches_of(masked()))
    parts = [DINOLoss(dim=WIDTH), IBOTLoss(dim=WIDTH)]
    expected = parts[0].loss(pairs) + 0.5 * parts[1].loss(pairs)
    both = Mixture([DINOLoss(dim=WIDTH), IBOTLoss(dim=WIDTH)], [1, 0.5])
    assert both.reads_patches
    torch.testing.assert_close(both.loss(pairs), expected, rtol=1e-9, atol=1e-11)


def test_masks_say_where_their_patches_are():
    mask = masked()
    masks = Masks.of(mask)
    assert masks.counts == mask.sum((1, 2, 3)).tolist()
    assert masks.places().tolist() == mask.flatten().nonzero().flatten().tolist()
    part = masks.part(slice(2, 4))
    assert part.places().tolist() == mask[2:4].flatten().nonzero().flatten().tolist()
    whole = patches_of(mask)
    ends = [0, *mask.sum((1, 2, 3)).cumsum(0).tolist()]
    pieces = [
        PatchScores(whole.student[a:b], whole.teacher[a:b], whole.counts[i : i + 1])
        for i, (a, b) in enumerate(itertools.pairwise(ends))
    ]
    joined = PatchScores.joined(pieces)
    torch.testing.assert_close(vars(joined), vars(whole))


def test_what_does_not_go_together_is_said():
    pairs = pairs_of(patches_of(masked()))
    with pytest.raises(ValueError, match="IBOTLoss has no center yet"):
        IBOTLoss().loss(pairs)
    with pytest.raises(ValueError, match="the center has 4 numbers and embeddings 5"):
        IBOTLoss(dim=4).loss(pairs)
    scores = numbers(2, N, WIDTH)
    with pytest.raises(ValueError, match="reads masked patches, and these pairs have none"):
        IBOTLoss(dim=WIDTH).loss(with_keys(scores, scores, first_key_view=0))
    with pytest.raises(TypeError, match="call it with patches="):
        IBOTLoss(dim=WIDTH)(*scores)
