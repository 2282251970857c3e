"""Every stored number is reached: values as the papers have them and as the released code does.

A case that no family computes and that does not belong to another kind of component fails.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
import torch
from support import oracle, oracle_cacr, oracle_cclk, oracle_infonce
from torch import Tensor

FAMILIES = {**oracle_infonce.FAMILIES, **oracle_cclk.FAMILIES, **oracle_cacr.FAMILIES}

ELSEWHERE = {
    "attr_topk_entropy_*": "conditions",
    "info_*": "information",
    "wordnet_levels_toy": "conditions",
    "kmeans_lloyd20": "conditions",
    "synthetic_hierarchy_*": "conditions",
    "colormnist_background": "datasets",
    "imbalance_*": "samplers",
    "color_mse_probe": "evaluators",
    "linear_probe_lbfgs": "evaluators",
    "knn_weighted_top1": "evaluators",
    "sched_*": "training",
    "lars_*": "training",
}
"""Cases of conditions, samplers, evaluation and schedules, and whose tests they belong to."""

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}


def owners(name: str) -> list[str]:
    return [pattern for pattern in (*FAMILIES, *ELSEWHERE) if fnmatchcase(name, pattern)]


def test_the_folder_holds_what_its_index_lists():
    assert oracle.index() == oracle.names("*")


def test_every_pattern_is_of_some_case():
    met = {pattern for name in oracle.names("*") for pattern in owners(name)}
    assert met == {*FAMILIES, *ELSEWHERE}


def assert_gradient(loss: Tensor, key: str, stored: Any, data: dict[str, Tensor]) -> None:
    """The gradient for each raw input has the stored norm and the stored first row."""
    if isinstance(stored, list):  # one per view
        found = zip(torch.autograd.grad(loss, data["views"])[0], stored, strict=False)
    elif "l2" in stored:
        found = [(torch.autograd.grad(loss, data["q_views"])[0][int(key[-1])], stored)]
    else:
        gradients = torch.autograd.grad(loss, [data[name] for name in stored])
        found = zip(gradients, stored.values(), strict=True)
    for gradient, each in found:
        rtol = TOLERANCE[gradient.dtype]
        expected = torch.tensor([each["l2"], *each["row0"]], dtype=gradient.dtype)
        actual = torch.cat([gradient.norm()[None], gradient[0]])
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=1e-15 + each["l2"] * rtol / 10)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])
@pytest.mark.parametrize("name", oracle.names("*"))
def test_stored_numbers_are_reached(name, dtype):
    (owner,) = owners(name)
    if owner in ELSEWHERE:
        return
    case = oracle.case(name)
    data = {
        key: value.requires_grad_(value.is_floating_point())
        for key, value in oracle.tensors(case["inputs"], dtype).items()
    }
    numbers = {key: case[key] for key in ("expected_paper", "expected_code")} | case["extras"]
    answers = FAMILIES[owner](case, data)
    wanted = {k for k, v in numbers.items() if k.startswith(("expected", "grad")) and v is not None}
    assert wanted <= answers.keys()
    for key in answers.keys() & numbers.keys():
        stored = numbers[key]
        if key.startswith("grad"):
            if stored is not None:
                assert_gradient(answers[key](), key, stored, data)
        elif stored is None:
            with pytest.raises(ValueError, match=r"undefined for .* anchors: \["):
                answers[key]()
        else:
            found = answers[key]()
            expected = torch.tensor(stored, dtype=found.dtype)
            torch.testing.assert_close(found, expected, rtol=TOLERANCE[dtype], atol=1e-12)
