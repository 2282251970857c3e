"""FairKL is the divergence of its paper, and makes groups alike that a bias keeps apart."""

import math

import pytest
import torch
from ccl_plugins.objectives import Mixture
from ccl_plugins.pairs import Samples, in_batch
from torch.nn.functional import normalize

from ccl_more import EpsSupInfoNCE, FairKL

LABEL = torch.tensor([0, 1, 0, 0, 1, 0, 0])
GROUP = torch.tensor([0, 0, 1, 1, 0, 0, 1])
CONDITION = {"label": LABEL, "sensitive": GROUP}
EVERY = {"label": torch.tensor([*LABEL, 0, 1, 9]), "sensitive": torch.tensor([*GROUP, 1, 0, 9])}
"""The classes and groups of the batch and of a queue, whose last place is empty."""


def normal(values):
    mean = sum(values) / len(values)
    spread = sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1)
    return mean, spread + 1e-6


def kl(a, b):
    (mean, var), (other, other_var) = normal(a), normal(b)
    return 0.5 * ((var + (mean - other) ** 2) / other_var - (var / other_var).log() - 1)


DIVERGENCES = {
    "kl": kl,
    "jeffreys": lambda a, b: kl(a, b) + kl(b, a),
    "mean": lambda a, b: (normal(a)[0] - normal(b)[0]) ** 2,
}


def sets(rows, anchors, queue):
    """Similarities of the four sets of pairs of some anchors."""
    label, group = EVERY.values()
    found = {(alike, same): [] for alike in (True, False) for same in (True, False)}
    for a, i, v in anchors:
        for x, j in [(x, j) for x, j, w in rows if (j, w) != (i, v)] + queue:
            key = bool(LABEL[i] == label[j]), bool(GROUP[i] == group[j])
            found[key].append(a @ x)
    return found


def value(found, divergence):
    least = 1 if divergence == "mean" else 2
    parts = [
        DIVERGENCES[divergence](found[alike, True], found[alike, False])
        for alike in (True, False)
        if min(len(found[alike, True]), len(found[alike, False])) >= least
    ]
    return sum(parts) if parts else None


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("over", ["anchor", "batch"])
def test_it_is_its_loop(views, units, agree, place, divergence, over):
    call, queue = place

    def loop(*views):
        rows = units(views)
        if over == "anchor":
            values = [value(sets(rows, [row], queue), divergence) for row in rows]
        else:
            values = [
                value(sets(rows, [row for row in rows if row[2] == v], queue), divergence)
                for v in range(len(views))
            ]
        counted = [each for each in values if each is not None]
        return sum(counted) / len(counted)

    agree(FairKL(divergence, over), loop, views, lambda *given: call(*given, **EVERY))


@pytest.mark.parametrize("over", ["anchor", "batch"])
def test_samples_without_a_group_are_in_no_distribution(views, over):
    lost = GROUP.clone()
    lost[[2, 4]] = -1
    kept = [0, 1, 3, 5, 6]
    found = FairKL(over=over)(
        *views, condition={"label": LABEL, "sensitive": lost}, missing="ignore"
    )
    rest = {name: z[kept] for name, z in CONDITION.items()}
    expected = FairKL(over=over)(*[view[kept] for view in views], condition=rest)
    torch.testing.assert_close(found, expected)


def test_a_batch_of_one_group_has_no_divergence(views):
    loss = FairKL()(*views, condition={"label": LABEL, "sensitive": torch.zeros(7).long()})
    assert loss == 0


def test_in_a_mixture_it_closes_the_gap_between_groups():
    """Embeddings start sorted by group; the mixture moves them until a class shows no group."""
    generator = torch.Generator().manual_seed(0)
    label, group = torch.arange(64) % 2, torch.arange(64) // 2 % 2
    start = torch.randn(64, 8, generator=generator) * 0.3
    start[:, 0] += 2.0 * group - 1
    start[:, 1] += 2.0 * label - 1

    def gap(x):
        sims, own = normalize(x, dim=1) @ normalize(x, dim=1).T, ~torch.eye(64).bool()
        alike, same = label[:, None] == label, group[:, None] == group
        return float(sims[alike & same & own].mean() - sims[alike & ~same].mean())

    gaps = {}
    for weight in (0.0, 1.0):
        objective = Mixture(
            {"base": EpsSupInfoNCE(on="label"), "fair": FairKL()},
            {"base": 1.0, "fair": weight},
        )
        x = start.clone().requires_grad_()
        optimizer = torch.optim.Adam([x], lr=0.03)
        for _ in range(40):
            views = torch.stack([x, x + 0.01 * torch.randn(x.shape, generator=generator)])
            pairs = in_batch(
                normalize(views, dim=-1), Samples({"label": label, "sensitive": group})
            )
            optimizer.zero_grad()
            objective.loss(pairs).backward()
            optimizer.step()
        gaps[weight] = gap(x.detach())
    assert gap(start) > 0.5
    assert gaps[1.0] < 0.7 * gaps[0.0], gaps
    assert math.isfinite(gaps[1.0])
