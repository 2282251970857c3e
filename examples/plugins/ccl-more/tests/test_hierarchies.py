"""HMLC is the loop of its paper, on any number of levels, and reads wordnet and clusters."""

import itertools

import ccl_plugins as ccl
import pytest
import torch
from ccl_plugins.objectives import SupCon
from ccl_plugins.pairs import Pairs, Queue, Samples, in_batch
from ccl_plugins.protocols import Sizes, Table
from torch.nn.functional import normalize

from ccl_more import HMLC

# Coarse to fine.  The last but one column does not nest in the first, as clusters need not.
IDS = torch.tensor([[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [1, 0, 4], [0, 0, 0], [0, 1, 5]])
TAU = 0.3
FORMS = {"himulcone": (True, True), "himulcon": (True, False), "hicone": (False, True)}


def level_of(i, j, ids):
    """The last level down to which two samples have equal classes; -1: none."""
    for level, (a, b) in enumerate(zip(ids[i], ids[j], strict=True)):
        if a != b:
            return level - 1
    return len(ids[i]) - 1


def slow(anchors, ids, weighted, constrained):
    """``anchors``: of each its sample, and the other keys it is compared with, each with its sample."""
    levels = ids.shape[1]
    totals, least = [0.0 for _ in anchors], None
    for level in reversed(range(levels)):
        factor = 2 ** (1 / (levels - level)) if weighted else 1.0
        largest = least
        for n, (a, i, others) in enumerate(anchors):
            total = sum((a @ x / TAU).exp() for x, _ in others)
            losses = [
                -((a @ x / TAU).exp() / total).log()
                for x, j in others
                if level_of(i, j, ids) == level
            ]
            if constrained and least is not None:
                losses = [torch.maximum(loss, least) for loss in losses]
            for loss in losses:
                largest = loss if largest is None else torch.maximum(largest, loss)
            if losses:
                totals[n] += factor / levels * sum(losses) / len(losses)
        least = largest
    return sum(totals) / len(totals)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("columns", [[2], [0, 2], [0, 1, 2]], ids=["one", "two", "three"])
def test_it_is_its_loop(views, units, agree, form, columns):
    ids = IDS[:, columns]

    def loop(*views):
        rows = units(views)
        anchors = [(a, i, [(x, j) for x, j, w in rows if (j, w) != (i, v)]) for a, i, v in rows]
        return slow(anchors, ids, *FORMS[form])

    agree(HMLC(TAU, form=form), loop, views, condition=ids)


def test_with_a_queue_it_is_its_loop(views):
    ids, queue_ids = IDS, torch.tensor([[0, 0, 1], [1, 2, 3], [1, 2, 9], [7, 7, 7], [0, 0, 0]])
    x, y = (view.requires_grad_() for view in views[:2])
    queue = normalize(torch.randn(5, 5, generator=torch.Generator().manual_seed(4)).double(), dim=1)
    unit = [normalize(view, dim=1) for view in (x, y)]
    pairs = Pairs(
        unit[0][None],
        unit[1][None].detach(),
        (0,),
        (1,),
        samples=Samples(index=torch.arange(7), condition={"condition": ids}),
        queue=Queue(
            queue,
            torch.tensor([True, True, True, True, False]),
            {"condition": queue_ids},
            index=torch.tensor([3, 20, 21, 22, 23]),
        ),
    )
    every = torch.cat([ids, queue_ids])
    keys = [(unit[1][j].detach(), j) for j in range(7)]
    anchors = [
        (a, i, keys + [(queue[k], 7 + k) for k in range(4) if not (k == 0 and i == 3)])
        for i, a in enumerate(unit[0])
    ]
    loss, expected = HMLC(TAU).loss(pairs), slow(anchors, every, True, True)
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-9)
    found, wanted = (
        torch.autograd.grad(each, x, retain_graph=True)[0] for each in (loss, expected)
    )
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_on_one_level_without_weights_it_is_supcon(views):
    found = HMLC(TAU, form="hicone")(*views, condition=IDS[:, 0])
    torch.testing.assert_close(found, SupCon(TAU)(*views, condition=IDS[:, 0]))


def test_a_pair_has_no_smaller_loss_than_one_that_is_nearer(views):
    """With pairs on the finest level that are far from each other, all others count as much."""
    flipped = [views[0], -views[0]]
    values, _ = HMLC(TAU, form="hicone").terms(
        in_batch(normalize(torch.stack(flipped), dim=-1), Samples({"condition": IDS}))
    )
    unconstrained, _ = HMLC(TAU, weights=[1, 1, 1], form="himulcon").terms(
        in_batch(normalize(torch.stack(flipped), dim=-1), Samples({"condition": IDS}))
    )
    assert (values >= unconstrained).all()
    assert (values > unconstrained).any()


def test_weights_are_one_for_each_level(views):
    with pytest.raises(ValueError, match="weights has 2 numbers for 3 levels"):
        HMLC(weights=[1.0, 2.0])(*views, condition=IDS)
    with pytest.raises(ValueError, match="form='hicone' has no weights"):
        HMLC(form="hicone", weights=[1.0])
    doubled = HMLC(TAU, form="himulcon", weights=[2, 2, 2])(*views, condition=IDS)
    single = HMLC(TAU, form="himulcon", weights=[1, 1, 1])(*views, condition=IDS)
    torch.testing.assert_close(doubled, 2 * single)


def test_levels_from_fine_to_coarse_are_refused():
    table = {"condition": Table(IDS.flip(1))}
    with pytest.raises(ValueError, match=r"from coarse to fine, and have \[6, 3, 2\] classes"):
        HMLC().setup(table, Sizes(7, 5, 5, 1))


def test_masks_of_positives_are_refused(views):
    pairs = Pairs.from_masks(
        torch.stack(views), torch.zeros(7, 7).bool(), None, Samples({"condition": IDS})
    )
    with pytest.raises(ValueError, match="cannot take masks of positives"):
        HMLC().loss(pairs)


WORDS = ["n01440764", "n01443537", "n02123045", "n02123159", "n02084071", "n02106662"]
CONDITIONS = {
    "wordnet": {"use": "wordnet", "levels": [5, 8, 11], "classes": "imagenet1k"},
    "clusters": {"use": "clusters", "k": [4, 12], "backend": "sklearn"},
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_it_trains_on_levels_of(name, tmp_path):
    pipeline = ccl.Pipeline(
        dataset=ccl.dataset("color_digits", test_fraction=0.8),
        transform=ccl.transform("noise", std=0.1),
        backbone=ccl.backbone("lenet5"),
        method=ccl.method("moco_v2", hidden=16, dim=8, queue_size=512),
        objective=ccl.objective("hmlc"),
        condition=CONDITIONS[name],
    )
    pipeline.fit(epochs=1, batch_size=64, workers=0, seed=0, out=tmp_path / "run", progress=False)
    assert type(ccl.load(tmp_path / "run").parts.objective) is HMLC


def test_the_columns_of_wordnet_are_the_levels_in_their_order():
    classes = [0, 281, 207, 1, 285]  # tench, tabby, golden retriever, goldfish, Egyptian cat
    condition = ccl.create("condition", "wordnet", levels=[5, 8, 11], classes="imagenet1k")

    class Split:
        metadata = {"label": torch.tensor(classes)}  # noqa: RUF012
        vocabulary: dict = {}  # noqa: RUF012

        def __len__(self):
            return len(classes)

    ids = condition.fit(Split(), lambda: None, None)
    assert ids.shape == (5, 3)
    for i, j in itertools.combinations(range(5), 2):
        shared = (ids[i] == ids[j]).int()
        assert (shared.diff() <= 0).all(), "samples that differ on a level differ below it"
    x, y = torch.randn(2, 5, 8)
    assert HMLC()(x, y, condition=ids).isfinite()
