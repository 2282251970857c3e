"""Objectives that are others with some settings, or on some class ids."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.kernels import Linear
from ccl_plugins.objectives import (
    CACR,
    HCL,
    HSCL,
    HUCL,
    UCL,
    AlignUniform,
    ClInfoNCE,
    Debiased,
    FairInfoNCE,
    HardNegInfoNCE,
    InfoNCE,
    NTXent,
    SoftInfoNCE,
    SupCon,
    WeaklySupInfoNCE,
)

TAU = 0.3
SOME, ONE, DISTINCT = torch.tensor([0, 1, 0, 2, 1]), torch.zeros(5).long(), torch.arange(5)
VIEWS = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
SAME = {
    "a cluster is a class": (ClInfoNCE(TAU), SupCon(TAU), SOME),
    "clusters of one sample": (ClInfoNCE(TAU), NTXent(TAU), DISTINCT),
    "classes of one sample, supcon": (SupCon(TAU), NTXent(TAU), DISTINCT),
    "one positive, sincere": (SupCon(TAU, denominator="negatives"), SupCon(TAU), DISTINCT),
    "one positive, inside": (SupCon(TAU, summation="inside"), SupCon(TAU), DISTINCT),
    "classes of one sample, weaklysup": (WeaklySupInfoNCE(TAU), InfoNCE(TAU), DISTINCT),
    "one sensitive class": (FairInfoNCE(TAU), InfoNCE(TAU), ONE),
    "all keys are the nearest": (
        HardNegInfoNCE(TAU, nearest=100, within_view=True),
        InfoNCE(TAU, within_view=True),
        SOME,
    ),
    "negatives of both views": (InfoNCE(TAU, within_view=True), NTXent(TAU), SOME),
    "equality of classes": (SoftInfoNCE(Linear(), TAU), WeaklySupInfoNCE(TAU), SOME),
    "alike to none": (SoftInfoNCE(Linear(), TAU), InfoNCE(TAU), DISTINCT),
    "o is the number of negatives": (UCL(TAU, o="negatives"), NTXent(TAU), SOME),
    "no hard weights": (HUCL(TAU, beta=0, o=8), NTXent(TAU), SOME),
    "all classes are distinct": (HSCL(TAU, beta=2.0), HUCL(TAU, beta=2.0), DISTINCT),
    "all classes are distinct, all": (
        HSCL(TAU, beta=2.0, positives="all"),
        HUCL(TAU, beta=2.0),
        DISTINCT,
    ),
    "no false negatives, hcl": (
        HCL(TAU, beta=2.0, tau_plus=0),
        HUCL(TAU, beta=2.0, o="negatives"),
        SOME,
    ),
    "no false negatives, debiased": (Debiased(TAU, tau_plus=0), NTXent(TAU), SOME),
    "no hard weights, hcl": (
        Debiased(TAU, tau_plus=0.2),
        HCL(TAU, beta=0.0, tau_plus=0.2),
        SOME,
    ),
    "equal weights of positives": (
        CACR(conditional_positives=False, repulsion_weight=0),
        AlignUniform(uniform_weight=0),
        SOME,
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_two_objectives_are_the_same_loss(name):
    *both, ids = SAME[name]
    views = VIEWS[:2] if isinstance(both[0], SupCon) else VIEWS  # of three, each has two positives
    one, other = (o(*views, condition=ids if o.conditions else None) for o in both)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
