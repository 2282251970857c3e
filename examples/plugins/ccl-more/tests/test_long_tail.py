"""KCL, TSC and PaCo are the loops that their papers' equations spell out."""

import copy
import itertools

import pytest
import torch
from ccl_plugins.objectives import SupCon
from ccl_plugins.pairs import Samples, in_batch
from ccl_plugins.protocols import Sizes, Table
from torch.nn.functional import normalize

from ccl_more import KCL, TSC, PaCo
from ccl_more.kcl import next_in_shuffle
from ccl_more.tsc import match, uniform_targets

LABEL = torch.tensor([0, 1, 0, 0, 1, 0, 0])
EVERY = torch.tensor([*LABEL, 0, 1, 9])
"""The classes of the batch and of a queue, whose last place is empty."""

TAU, WIDTH = 0.3, 5


def exp(a, b):
    return (a @ b / TAU).exp()


def ready(objective, label=LABEL):
    objective.setup({"condition": Table(label)}, Sizes(len(label), WIDTH, WIDTH, 1))
    return objective.double()


def drawn(k, step=0, label=LABEL):
    """Which samples of batch and queue each sample draws."""
    alike = (LABEL[:, None] == label) & ~torch.eye(7, len(label)).bool()
    return next_in_shuffle(alike, slice(0, 7), k, torch.tensor(step))


@pytest.mark.parametrize("k", [1, 2, 6])
def test_a_draw_has_k_of_the_class_or_all_of_it(k):
    alike = (LABEL[:, None] == LABEL) & ~torch.eye(7).bool()
    found = drawn(k)
    assert (found <= alike).all()
    assert found.sum(1).tolist() == alike.sum(1).clamp_max(k).tolist()


def test_over_many_steps_each_of_the_class_is_drawn_about_equally_often():
    total = sum(drawn(1, step).double() for step in range(600)) / 600
    share = total[LABEL == 0][:, LABEL == 0]
    assert (share[~torch.eye(5).bool()] - 0.25).abs().max() < 0.07, share


def test_the_anchors_of_a_process_draw_as_in_the_whole_batch():
    alike = (LABEL[:, None] == LABEL) & ~torch.eye(7).bool()
    part = next_in_shuffle(alike[3:6], slice(3, 6), 2, torch.tensor(5))
    assert torch.equal(part, drawn(2, 5)[3:6])


def test_kcl(views, units, agree, place):
    call, queue = place
    chosen = drawn(2, label=EVERY if queue else LABEL)

    def loop(*views):
        rows, losses = units(views), []
        for a, i, v in rows:
            others = [(x, j) for x, j, w in rows if (j, w) != (i, v)] + queue
            total = sum(exp(a, x) for x, _ in others)
            positives = [exp(a, x) for x, j in others if j == i or chosen[i, j]]
            losses.append(sum(-(p / total).log() for p in positives) / len(positives))
        return sum(losses) / len(losses)

    agree(KCL(TAU, k=2), loop, views, lambda *given: call(*given, condition=EVERY))


def test_with_as_many_positives_as_the_largest_class_kcl_is_supcon(views):
    found = KCL(TAU, k=6)(*views, condition=LABEL)
    torch.testing.assert_close(found, SupCon(TAU)(*views, condition=LABEL))


def test_each_step_of_a_run_draws_anew_and_a_resumed_run_draws_the_same(views):
    objective, losses = KCL(TAU, k=1), []
    for step in range(3):
        objective.progress(step, 3)
        losses.append(float(objective(*views, condition=LABEL)))
    assert len(set(losses)) > 1
    loaded = KCL(TAU, k=1)
    loaded.load_state_dict(objective.state_dict())
    assert float(loaded(*views, condition=LABEL)) == losses[-1]


def test_samples_without_a_class_are_not_drawn(views):
    lost = LABEL.clone()
    lost[[2, 4]] = -1
    found = KCL(TAU, k=6)(*views, condition=lost, missing="ignore")
    expected = SupCon(TAU)(*views, condition=lost, missing="ignore")
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("weight", [1.0, 0.4])
def test_tsc(views, units, agree, place, weight):
    call, queue = place
    objective = ready(TSC(TAU, k=2, target_weight=weight))
    objective.target_of.copy_(torch.tensor([1, 0]))
    chosen, targets = drawn(2, label=EVERY if queue else LABEL), objective.targets

    def loop(*views):
        rows, losses = units(views), []
        for a, i, v in rows:
            others = [(x, j) for x, j, w in rows if (j, w) != (i, v)] + queue
            total = sum(exp(a, x) for x, _ in others) + sum(exp(a, t) for t in targets)
            positives = [exp(a, x) for x, j in others if j == i or chosen[i, j]]
            value = sum(-(p / total).log() for p in positives) / len(positives)
            target = targets[1 - int(LABEL[i])]
            losses.append(value - weight * (exp(a, target) / total).log())
        return sum(losses) / len(losses)

    agree(objective, loop, views, lambda *given: call(*given, condition=EVERY))


@pytest.mark.parametrize(("classes", "width"), [(2, 5), (3, 5), (6, 5), (10, 64)])
def test_few_targets_are_the_corners_of_a_simplex(classes, width):
    targets = uniform_targets(classes, width, 0.1).double()
    products = (targets @ targets.T)[~torch.eye(classes).bool()]
    torch.testing.assert_close(
        products, torch.full_like(products, -1 / (classes - 1)), rtol=0, atol=1e-4
    )
    assert torch.equal(targets, uniform_targets(classes, width, 0.1).double())


def test_many_targets_are_farther_apart_than_random_vectors():
    targets = uniform_targets(20, 6, 0.1)
    random = normalize(torch.randn(20, 6, generator=torch.Generator().manual_seed(1)), dim=1)
    other = ~torch.eye(20).bool()
    assert (targets @ targets.T)[other].max() < (random @ random.T)[other].max() - 0.2


def test_classes_are_matched_to_the_targets_near_them():
    targets = uniform_targets(5, 4, 0.1)
    for order in itertools.islice(itertools.permutations(range(5)), 0, 120, 17):
        means = targets[list(order)] + 0.1
        assert match(means, targets).tolist() == list(order)


def test_averages_move_by_the_batch_and_classes_are_matched_at_every_nth_step(views):
    objective = ready(TSC(TAU, every=3, momentum=0.75))
    unit = torch.stack([normalize(view, dim=1) for view in views])
    batch = [normalize(unit.mean(0)[LABEL == c].mean(0), dim=0) for c in range(2)]
    matched = []
    for step in range(4):
        objective.progress(step, 4)
        before = objective.means.clone()
        objective(*views, condition=LABEL)
        assert torch.equal(objective.means, before), "a loss commits nothing"
        objective.target_of.fill_(7)
        objective.after_step()
        matched.append(objective.target_of.tolist() != [7, 7])
        objective.target_of.copy_(torch.arange(2))
    assert matched == [True, False, False, True]
    torch.testing.assert_close(objective.means, torch.stack(batch))
    opposite = torch.stack([-view for view in views])
    objective(*opposite, condition=LABEL)
    objective.after_step()
    moved = normalize(0.75 * torch.stack(batch) - 0.25 * torch.stack(batch), dim=1)
    torch.testing.assert_close(objective.means, moved)


def test_a_class_that_is_not_in_the_batch_keeps_its_average(views):
    objective = ready(TSC(TAU), torch.tensor([0, 1, 2]))
    objective.means.copy_(torch.eye(3, 5))
    objective(*views, condition=LABEL)
    objective.after_step()
    assert torch.equal(objective.means[2], torch.eye(3, 5).double()[2])
    assert not torch.equal(objective.means[0], torch.eye(3, 5).double()[0])


@pytest.mark.parametrize("rebalance", [True, False])
@pytest.mark.parametrize("of", ["backbone", "projection"])
def test_paco(views, units, agree, place, of, rebalance):
    call, queue = place
    if of == "backbone":
        queue = []
    torch.manual_seed(0)
    objective = ready(PaCo(TAU, alpha=0.2, rebalance=rebalance, of=of))
    centers = objective.centers.detach()
    share = [5 / 7, 2 / 7] if rebalance else [1, 1]
    features = [view.sin() for view in views]

    def loop(*views):
        rows, losses = units(views), []
        for a, i, v in rows:
            others = [(x, j) for x, j, w in rows if (j, w) != (i, v)] + queue
            if of == "backbone":
                of_center = [q * (c @ features[v][i]).exp() for q, c in zip(share, centers)]
            else:
                of_center = [q * exp(a, normalize(c, dim=0)) for q, c in zip(share, centers)]
            total = sum(exp(a, x) for x, _ in others) + sum(of_center)
            positives = [exp(a, x) for x, j in others if EVERY[j] == LABEL[i]]
            value = sum(-0.2 * (p / total).log() for p in positives)
            value = value - (of_center[int(LABEL[i])] / total).log()
            losses.append(value / (0.2 * len(positives) + 1))
        return sum(losses) / len(losses)

    if of == "backbone":
        agree(objective, loop, views, condition=LABEL, features=tuple(features))
    else:
        agree(objective, loop, views, lambda *given: call(*given, condition=EVERY))


def test_paco_names_the_features_that_pairs_lack(views):
    pairs = in_batch(torch.stack(views), Samples({"condition": LABEL}))
    with pytest.raises(ValueError, match="compares centers with features"):
        ready(PaCo()).loss(pairs)


def test_the_gradient_reaches_centers_and_features(views):
    objective = ready(PaCo())
    features = [view.clone().requires_grad_() for view in views]
    objective(*views, condition=LABEL, features=features).backward()
    assert objective.centers.grad.any(1).all()
    assert all(each.grad.any() for each in features)


@pytest.mark.parametrize("build", [TSC, PaCo])
def test_a_condition_without_a_table_is_refused(build):
    with pytest.raises(ValueError, match="reads the classes of 'condition' before training"):
        build().setup({}, Sizes(7, WIDTH, WIDTH, 1))


@pytest.mark.parametrize("build", [TSC, PaCo])
def test_a_run_that_goes_on_keeps_what_setup_created(build):
    objective = ready(build())
    state = copy.deepcopy(objective.state_dict())
    loaded = build()
    loaded.load_state_dict(state)
    ready(loaded)
    assert loaded.classes == 2
    for name, tensor in state.items():
        torch.testing.assert_close(loaded.state_dict()[name], tensor)
