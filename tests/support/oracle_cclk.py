"""The stored numbers of CCL-K and of its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from support.oracle import Answers, Data, Family
from torch import Tensor

from ccl_plugins.kernels import RBF, Cosine, Laplacian, Linear, Polynomial
from ccl_plugins.numerics.conditional_operator import conditional_operator
from ccl_plugins.objectives import FairCCLK, HardNegCCLK, WeaklySupCCLK

KERNELS = {"rbf": RBF, "laplacian": Laplacian, "linear": Linear, "polynomial": Polynomial}


CCLK = {"weaklysup": WeaklySupCCLK, "fair": FairCCLK, "hardneg": HardNegCCLK}


def kernel(p: Mapping[str, Any]) -> Any:
    return Cosine() if p["kernel"] == "cosine" else KERNELS[p["kernel"]](scale=p["kernel_scale"])


def cclk(case: dict[str, Any], data: Data) -> Answers:
    p = case["params"]
    build = partial(CCLK[case["name"].split("_")[1]], kernel(p), p["tau"], ridge=p["lambda"])
    z = (data["z_x"], data["z_y"]) if "z_x" in data else data["z"]

    def answer(**settings: Any) -> Callable[[], Tensor]:
        return lambda: build(**settings)(data["x"], data["y"], condition=z)

    return {
        "expected_paper": answer(symmetric=False, negative_weights="keep"),
        "paper_symmetrized_only": answer(negative_weights="keep"),
        "paper_with_negative_W_clipped_to_0": answer(symmetric=False),
        "expected_code": answer(form="released"),
        "grad_code": answer(form="released"),
    }


def cclk_weights(case: dict[str, Any], data: Data) -> Answers:
    ridge, z = case["params"]["lambda"], data["z"].double()
    gram = kernel(case["params"])

    def weights() -> Tensor:
        found = conditional_operator(gram, z, ridge)
        if case["name"].endswith("_lab"):
            by_ids = conditional_operator(gram, z.argmax(1), ridge, dtype=z.dtype)
            torch.testing.assert_close(by_ids, found, rtol=1e-9, atol=1e-12)
        return found

    return {"expected_paper": lambda: weights().sum(), "W": weights, "K": lambda: gram(z, z)}


FAMILIES: Mapping[str, Family] = {
    "cclk_fair_*": cclk,
    "cclk_hardneg_*": cclk,
    "cclk_weaklysup_*": cclk,
    "cclk_weights_*": cclk_weights,
}
