"""The supervised objectives are the loops that their papers' equations spell out."""

import pytest
import torch
from ccl_plugins.objectives import SupCon
from ccl_plugins.protocols import Sizes, Table
from torch.nn.functional import normalize

from ccl_more import FSCL, BalancedContrastive, EpsSupInfoNCE, MulSupCon, RankNContrast

LABEL = torch.tensor([0, 1, 2, 0, 1, 0, 0])
GROUP = torch.tensor([0, 0, 1, 1, 0, 0, 1])
EVERY = {"label": torch.tensor([*LABEL, 0, 1, 9]), "sensitive": torch.tensor([*GROUP, 1, 0, 9])}
"""The classes and groups of the batch and of a queue, whose last place is empty."""

TAGS = torch.tensor([[1, 0, 1], [0, 1, 1], [0, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 1, 0]])
HEIGHT = torch.tensor([0.3, 1.0, 0.5, 0.3, -2.0, 4.0, 0.7], dtype=torch.float64)
TAU = 0.3


def exp(a, b):
    return (a @ b / TAU).exp()


def test_eps_sup_infonce(views, units, agree):
    def loop(*views):
        rows, losses = units(views), []
        for a, i, v in rows:
            others = [(x, j) for x, j, w in rows if (j, w) != (i, v)]
            positives = [exp(a, x) for x, j in others if LABEL[j] == LABEL[i]]
            negatives = sum(exp(a, x) for x, j in others if LABEL[j] != LABEL[i])
            each = [
                -(p / (p * torch.tensor(-0.5).double().exp() + negatives)).log() for p in positives
            ]
            losses.append(sum(each) / len(each))
        return sum(losses) / len(losses)

    agree(EpsSupInfoNCE(TAU, epsilon=0.5), loop, views, condition=LABEL)


def test_without_a_margin_eps_sup_infonce_is_sincere(views):
    sincere = SupCon(TAU, denominator="negatives")(*views, condition=LABEL)
    found = EpsSupInfoNCE(TAU, epsilon=0.0)(*views, condition=LABEL)
    torch.testing.assert_close(found, sincere, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("plus", [False, True], ids=["fscl", "fscl+"])
def test_fscl(views, units, agree, place, plus):
    call, queue = place
    label, group = EVERY.values()

    def loop(*views):
        rows, losses, weights = units(views), [], []
        for a, i, v in rows:
            others = [(x, j) for x, j, w in rows if (j, w) != (i, v)] + queue
            positives = [exp(a, x) for x, j in others if label[j] == LABEL[i]]
            negatives = [
                exp(a, x) for x, j in others if label[j] != LABEL[i] and group[j] == GROUP[i]
            ]
            if negatives:
                each = [-(p / sum(negatives)).log() for p in positives]
                if plus:
                    of = [j for _, j in others if label[j] == LABEL[i]]
                    total = sum(x / peers(rows, j) for x, j in zip(each, of, strict=True))
                    weights.append(1 / (peers(rows, i) + 1))
                else:
                    total, _ = sum(each) / len(each), weights.append(1)
                losses.append(weights[-1] * total)
        return sum(losses) / sum(weights)

    def peers(rows, j):
        """The other keys of a sample's class and group, as the authors' code counts them."""
        every = [k for _, k, _ in rows] + [k for _, k in queue]
        return sum(bool(label[k] == label[j] and group[k] == group[j]) for k in every) - 1

    objective = FSCL(TAU, group_normalization=plus)
    agree(objective, loop, views, lambda *given: call(*given, **EVERY))


def test_mul_sup_con(views, units, agree):
    def loop(*views):
        rows, losses = units(views), []
        for a, i, v in rows:
            others = [(x, j) for x, j, w in rows if (j, w) != (i, v)]
            total = sum(exp(a, x) for x, _ in others)
            for c in range(3):
                if TAGS[i, c]:
                    each = [-(exp(a, x) / total).log() for x, j in others if TAGS[j, c]]
                    losses.append(sum(each) / len(each))
        return sum(losses) / len(losses)

    agree(MulSupCon(TAU), loop, views, condition=TAGS.bool())


def test_balanced_contrastive(views, units, agree):
    objective = BalancedContrastive(temperature=TAU)
    objective.setup({"condition": Table(LABEL)}, Sizes(len(LABEL), 5, 5, 1))
    objective.double()

    def loop(*views):
        rows, losses = units(views), []
        centers = normalize(objective.centers.detach(), dim=1)
        for a, i, v in rows:
            members = {c: [centers[c]] for c in range(3)}
            for x, j, w in rows:
                if (j, w) != (i, v):
                    members[int(LABEL[j])].append(x)
            total = sum(sum(exp(a, x) for x in xs) / len(xs) for xs in members.values())
            positives = members[int(LABEL[i])]
            losses.append(sum(-(exp(a, x) / total).log() for x in positives) / len(positives))
        return sum(losses) / len(losses)

    agree(objective, loop, views, condition=LABEL)


def test_a_class_that_setup_has_not_seen_is_named(views):
    objective = BalancedContrastive()
    with pytest.raises(ValueError, match="class 2 is not among 0 classes: call setup"):
        objective(*views, condition=LABEL)


@pytest.mark.parametrize(
    "z", [HEIGHT, torch.stack([HEIGHT, HEIGHT.flip(0)], 1)], ids=["one", "two"]
)
def test_rank_n_contrast(views, z, agree):
    def gap(i, j):
        return (z[i] - z[j]).abs().sum()

    def loop(*views):
        n, losses = len(z), []
        rows = [(view[i], i, v) for v, view in enumerate(views) for i in range(n)]
        for a, i, v in rows:
            others = [(x, j) for x, j, w in rows if (j, w) != (i, v)]
            similar = [(-(a - x).norm() / 2).exp() for x, _ in others]
            each = []
            for s, (_, j) in zip(similar, others, strict=True):
                farther = [
                    t for t, (_, k) in zip(similar, others, strict=True) if gap(i, k) >= gap(i, j)
                ]
                each.append(-(s / sum(farther)).log())
            losses.append(sum(each) / len(each))
        return sum(losses) / len(losses)

    agree(RankNContrast(), loop, views, condition=z)


def test_rank_n_contrast_makes_no_tensor_of_all_triples(largest):
    n = 60
    views = torch.randn(2, n, 4).requires_grad_()
    with largest:
        RankNContrast()(*views, condition=torch.randn(n)).backward()
    assert 2 * n * n <= largest.numbers <= 4 * n * n
