"""The stored numbers of CACR, and of alignment and uniformity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from support.oracle import Answers, Data, Family
from support.sharded import momentum_pairs
from support.slow_cacr import distance, slow_queue, slow_repulsion
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.evaluators.conditional_entropy import conditional_entropy
from ccl_plugins.objectives import CACR, AlignUniform, CACRMoCoV3
from ccl_plugins.pairs import Pairs

WITHOUT: dict[str, Any] = {
    "full": {},
    "without_w1": {"conditional_positives": False},
    "without_w2": {"conditional_negatives": False},
    "none": {"conditional_positives": False, "conditional_negatives": False},
}


def cacr(case: dict[str, Any], data: Data) -> Answers:
    p, views = case["params"], data["views"]
    weights = {"attraction_weight": p["alpha"], "repulsion_weight": p["beta"]}
    build = partial(
        CACR, p["t_plus"], p["t_minus"], positives=len(views) - 1, **WITHOUT[p["choice"]]
    )
    released = partial(build, negatives="later_view", **weights)
    return {
        "expected_paper": lambda: build(symmetric=False)(*views),
        "expected_code": lambda: released()(*views),
        "grad_code": lambda: released()(*views),
        "grad_weights_detached": lambda: released(weight_gradient=False)(*views),
    }


def cacr_rbf(case: dict[str, Any], data: Data) -> Answers:
    p, views = case["params"], data["views"]
    build = partial(CACR, t_minus=p["t_minus"], cost="rbf", precision=p["t"], attraction_weight=0)
    return {
        "expected_paper": lambda: build(symmetric=False)(*views),
        "expected_code": lambda: build(negatives="later_view")(*views),
        "uniform_weights": lambda: build(symmetric=False, conditional_negatives=False)(*views),
    }


def cacr_debiased(case: dict[str, Any], data: Data) -> Answers:
    """The released code has a wrong sign, which a loop reaches and the library does not."""
    tau, t_minus = case["params"]["tau_plus"], case["params"]["t_minus"]
    objective = CACR(t_minus=t_minus, negatives="later_view", tau_plus=tau, attraction_weight=0)

    def wrong_sign() -> Tensor:
        x, y = data["views"]
        own = sum(distance(a, b) for a, b in zip(x, y, strict=True)) / len(x)
        return (slow_repulsion(x, y, t_minus) - tau * own) / (1 - tau)

    return {"expected_paper": lambda: objective(*data["views"]), "expected_code": wrong_sign}


def cacr_queue(case: dict[str, Any], data: Data) -> Answers:
    """The released code takes the first view's products for all, which a loop reaches."""
    p = case["params"]
    given = data["q_views"], data["k_views"], data["queue"]
    objective = CACR(t_plus=p["t_plus"], t_minus=p["t_minus"], intra_batch=p["intra_batch"])
    settings = (*given, p["t_plus"], p["t_minus"], p["intra_batch"])
    answers: dict[str, Callable[[], Tensor]] = {}
    for form, loss in {
        "paper": lambda: objective.loss(momentum_pairs(*given)),
        "code": lambda: slow_queue(*settings, reuse_first_products=True),
    }.items():
        keys = (f"expected_{form}", f"grad_{form}_view0", f"grad_{form}_view1")
        answers |= dict.fromkeys(keys, loss)
    return answers


def cacr_moco_v3(case: dict[str, Any], data: Data) -> Answers:
    cost = {"euclid": "euclidean", "rbf": "rbf"}[case["name"].split("_")[2]]
    q, k = normalize(data["q_views"], dim=-1), normalize(data["k"], dim=-1)
    given = Pairs(q, k[None], tuple(range(len(q))), (len(q),))
    objective = CACRMoCoV3(case["params"]["T"], cost=cost)
    return dict.fromkeys(("expected_paper", "expected_code"), lambda: objective.loss(given))


def entropy(case: dict[str, Any], data: Data) -> Answers:
    t, simplex = case["params"]["t_minus"], torch.eye(len(data["x"]), dtype=data["x"].dtype)
    return {
        "expected_paper": lambda: conditional_entropy(data["x"], t),
        "max_value": lambda: conditional_entropy(simplex, t),
    }


def align_uniform(case: dict[str, Any], data: Data) -> Answers:
    p = case["params"]

    def answer(align: float, uniform: float) -> Callable[[], Tensor]:
        objective = AlignUniform(
            power=p["alpha"], precision=p["t"], align_weight=align, uniform_weight=uniform
        )
        return lambda: objective(data["x"], data["y"])

    whole = answer(p["align_w"], p["unif_w"])
    parts = {"align": answer(1, 0), "uniform": answer(0, 1)}
    return {**dict.fromkeys(("expected_paper", "expected_code", "grad_code"), whole), **parts}


FAMILIES: Mapping[str, Family] = {
    "cacr_K*": cacr,
    "cacr_rbf_repulsion_*": cacr_rbf,
    "cacr_debiased_repulsion": cacr_debiased,
    "cacr_algorithm3_queue_*": cacr_queue,
    "cacr_mocov3_*": cacr_moco_v3,
    "cond_entropy_eq8_*": entropy,
    "aucl_*": align_uniform,
}
