"""A training step looks at no value, so that it never waits for a GPU."""

from __future__ import annotations

import pytest
import torch
from support import every_objective as every
from support.every_objective import Case
from support.sharded import Small
from support.waiting import Refusing

from ccl_plugins.methods import IBOT, MoCoV2
from ccl_plugins.objectives import DINOLoss, IBOTLoss, Mixture
from ccl_plugins.pairs import Masks, Samples
from ccl_plugins.testing.inputs import PatchBackbone
from ccl_plugins.testing.objective_batches import patches_of

MEDIAN = {"rbf": "median", "laplacian": "median"}
BY_MEDIAN = {"use": "product", "on": {"species": "delta", "age": {"use": "rbf", "scale": "median"}}}
KERNELS = [
    {"use": name, **({"scale": MEDIAN[name]} if name in MEDIAN else {})}
    for name in ("rbf", "laplacian", "cosine", "polynomial", "jaccard", "delta")
]
CASES = [
    *every.plain_cases(),
    *every.changing_cases(),
    *(Case("soft_infonce", {"kernel": kernel}, kernel["use"]) for kernel in KERNELS),
    *(Case("fair_cclk", {"kernel": kernel}, kernel["use"]) for kernel in KERNELS),
    Case("fair_cclk", {"kernel": KERNELS[0], "landmarks": 4}, "landmarks"),
    Case("fair_cclk", {"kernel": BY_MEDIAN, "landmarks": 4}, "joint, landmarks"),
]


def test_a_step_with_masked_patches_waits_for_nothing():
    objective = Mixture([DINOLoss(dim=6), IBOTLoss(dim=6), IBOTLoss(dim=6, centering="sinkhorn")])
    sizes = {"hidden": 8, "bottleneck": 4, "dim": 6, "mask_probability": 1.0}
    method = IBOT(**sizes, shared_head=False, backbone=PatchBackbone())
    views = list(torch.randn(3, 4, 3, 32, 32))
    masks = Masks.of(torch.stack([method.masking(32, 32) for _ in range(8)]).view(4, 2, 4, 4))
    with Refusing():
        embedded = method.embed(views, masks)
        samples = Samples(index=torch.arange(4), patches=embedded.patches)
        objective.loss(method.pairs(embedded, samples)).backward()
        method.after_step(0, 2)
        objective.after_step()
    assert len(embedded.patches.student) == sum(masks.counts) > 0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_step_over_a_queue_waits_for_nothing(case):
    objective = case.build()
    method = MoCoV2(8, 16, queue_size=24, symmetric=True, backbone=Small()).double()
    if hasattr(objective, "statistics"):
        method.keep_statistics(objective.statistics())
    vectors = torch.rand(8, 3, dtype=torch.float64)
    condition = case.condition(torch.arange(8) % 3, vectors)
    for step in range(2):
        views = list(torch.randn(2, 8, 3, 4, 4, dtype=torch.float64))
        index = torch.arange(8) + 8 * step
        with Refusing():
            objective.progress(step, 2)
            embedded = method.embed(views)
            embedded = embedded if objective.embedding == "raw" else embedded.normalized()
            patches = patches_of(objective, embedded.projections)
            samples = Samples(condition, index, embedded.features, patches=patches)
            pairs = method.pairs(embedded, samples)
            objective.loss(pairs).backward()
            method.enqueue(pairs)
            method.after_step(step, 2)
