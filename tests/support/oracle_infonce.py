"""The stored numbers of InfoNCE, its conditional forms, Cl-InfoNCE, CMC and hard negatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from support.oracle import Answers, Data, Family
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.objectives import (
    CMC,
    HCL,
    HSCL,
    HUCL,
    SCL,
    UCL,
    ClInfoNCE,
    Debiased,
    FairInfoNCE,
    HardNegInfoNCE,
    InfoNCE,
    NTXent,
    WeaklySupInfoNCE,
)
from ccl_plugins.pairs import Pairs


def infonce(case: dict[str, Any], data: Data) -> Answers:
    tau, views = case["params"]["tau"], (data["x"], data["y"])
    return {
        "expected_paper": lambda: InfoNCE(tau, symmetric=False)(*views),
        "expected_code": lambda: InfoNCE(tau, within_view=True)(*views),
    }


def nt_xent(case: dict[str, Any], data: Data) -> Answers:
    def loss() -> Tensor:
        return NTXent(case["params"]["tau"])(data["x"], data["y"])

    return dict.fromkeys(("expected_paper", "expected_code", "grad_code"), loss)


def pairs(data: Data, keys: Tensor | None = None, draws: Tensor | None = None) -> Pairs:
    keys = data["y"] if keys is None else keys
    x, y = normalize(data["x"], dim=1), normalize(keys, dim=1)
    return Pairs(x[None], y[None], anchor_views=(0,), key_views=(1,), draws=draws)


def weaklysup_infonce(case: dict[str, Any], data: Data) -> Answers:
    # The keys are the drawn partners and, after them, the samples that negatives are drawn from.
    y, draws = data["y"], torch.tensor(case["inputs"]["neg_idx"])
    given = pairs(data, torch.cat([y[data["pos_idx"]], y]), len(y) + draws)
    return {"expected_paper": lambda: WeaklySupInfoNCE(case["params"]["tau"]).loss(given)}


def fair_infonce(case: dict[str, Any], data: Data) -> Answers:
    build = partial(FairInfoNCE, case["params"]["tau"])
    if "neg_idx" in data:
        given = pairs(data, draws=torch.tensor(case["inputs"]["neg_idx"]))
        return {"expected_paper": lambda: build().loss(given)}

    def answer(**settings: Any) -> Callable[[], Tensor]:
        return lambda: build(**settings)(data["x"], data["y"], condition=data["z"])

    return {
        "expected_paper": answer(symmetric=False),
        "symmetrized": answer(),
        "ntxent_style_both_views": answer(within_view=True),
    }


def hardneg_infonce(case: dict[str, Any], data: Data) -> Answers:
    def loss() -> Tensor:
        tau, draws = case["params"]["tau"], torch.tensor(case["inputs"]["neg_idx"])
        drawn = HardNegInfoNCE(tau).loss(pairs(data, draws=draws))
        nearest = HardNegInfoNCE(tau, nearest=case["params"]["n"]).loss(pairs(data))
        torch.testing.assert_close(drawn, nearest)
        return drawn

    return {"expected_paper": loss}


def cl_infonce(case: dict[str, Any], data: Data) -> Answers:
    build = partial(ClInfoNCE, case["params"]["tau"])
    if "pair_idx" in data:
        n, partners = len(data["x"]), data["y"][data["pair_idx"]]
        given = pairs(data, partners, torch.arange(n).expand(n, n))
        return {"expected_paper": lambda: build().loss(given)}

    def answer(**settings: Any) -> Callable[[], Tensor]:
        return lambda: build(**settings)(data["x"], data["y"], condition=data["z"])

    released, by_number = answer(form="released"), answer(base_temperature=0.07)
    torch.testing.assert_close(released(), by_number(), rtol=0, atol=0)
    return {"expected_paper": answer(), "expected_code": released, "grad_code": released}


def hardness(case: dict[str, Any], data: Data) -> Answers:
    """UCL, H-UCL, SCL and H-SCL; the released code takes the number of negatives as o."""
    p, name = case["params"], case["name"]
    supervised = name.startswith(("scl", "hscl"))
    hard = {} if name.startswith(("ucl", "scl")) else {"beta": p.get("beta", 0)}
    if "threshold_on_exp_g" in p and hard:
        hard["threshold"] = p["threshold_on_exp_g"]
    if supervised:
        hard["positives"] = "all" if "all" in name else "one"
    build = {"u": UCL, "hu": HUCL, "s": SCL, "hs": HSCL}[name.partition("cl")[0]]

    def answer(o: Any, **settings: Any) -> Callable[[], Tensor]:
        objective, condition = build(p["tau"], o=o, **hard, **settings), data.get("z")
        given = {"condition": condition} if supervised else {}
        return lambda: objective(data["x"], data["y"], **given)

    if name.endswith("eq9_threshold"):
        return {"expected_paper": answer(1)}
    released = answer("negatives")
    answers = {"expected_paper": answer("batch"), "expected_code": released, "grad_code": released}
    if "o_2b" in case["extras"]:
        b = len(data["x"])
        answers |= {"o_2b": answer(2 * b), "eq9_o1": answer(1)}
    if "grad_code_gradient_imp_true" in case["extras"]:
        # The training script's weights carry gradient, those of the script for figure 4 do not.
        answers |= {"grad_code_gradient_imp_true": released}
        answers |= {"grad_code_gradient_imp_false": answer("negatives", weight_gradient=False)}
    elif "beta" in hard and supervised:
        answers["grad_code"] = answer("negatives", weight_gradient=False)
    return answers


def hcl(case: dict[str, Any], data: Data) -> Answers:
    p = case["params"]
    objective = HCL(p["tau"], beta=p["beta"], tau_plus=p["tau_plus"])
    if p["beta"] == 0:
        objective = Debiased(p["tau"], tau_plus=p["tau_plus"])
    keys = ("expected_paper", "expected_code", "grad_code")
    return dict.fromkeys(keys, lambda: objective(data["x"], data["y"]))


def cmc(case: dict[str, Any], data: Data) -> Answers:
    tau, views = case["params"]["tau"], data.get("views", (data.get("x"), data.get("a")))
    answers: Answers = {"expected_paper": lambda: CMC(tau)(*views)}
    if "core_graph" not in case["extras"]:
        return answers
    return {
        **answers,
        "core_graph": lambda: CMC(tau, graph="core")(*views),
        "mean_over_directed_pairs": lambda: CMC(tau, reduction="mean")(*views),
    }


FAMILIES: Mapping[str, Family] = {
    "infonce_*": infonce,
    "ntxent_*": nt_xent,
    "weaklysup_infonce_*": weaklysup_infonce,
    "fair_infonce_*": fair_infonce,
    "hardneg_infonce_*": hardneg_infonce,
    "clinfonce_*": cl_infonce,
    "ucl*": hardness,
    "hucl_*": hardness,
    "scl_*": hardness,
    "hscl_*": hardness,
    "hcl_*": hcl,
    "cmc_*": cmc,
}
