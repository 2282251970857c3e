"""Every objective of the registry, in the settings that make a difference, and batches for it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import distribution
from typing import Any

import torch
from torch import Tensor

import ccl_plugins as ccl
from ccl_plugins.objectives import GuideHead
from ccl_plugins.objectives.scalars import ScalarAttribute
from ccl_plugins.pairs import Samples, in_batch
from ccl_plugins.protocols import Sizes, Table, trait

CLASSES = ("species", "camera")
"""Names under which an objective gets class ids."""
JOINT = {"use": "product", "on": {"species": "delta", "age": {"use": "rbf", "scale": 0.5}}}
EITHER = {
    "use": "sum",
    "on": {"species": "delta", "age": "laplacian"},
    "weights": {"age": 0.5, "species": 2.0},
}
NUMBERS = {"use": "product", "on": {"age": "cosine", "pose": "linear"}}
IDS = {"use": "product", "on": {"species": "delta", "camera": "linear"}}
RISING = {"schedule": "linear", "start": 0.2, "end": 1.0}
VARIANTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "infonce": {
        "within view": {"within_view": True},
        "one way": {"symmetric": False},
        "excluding": {"exclude": ["cosine", 0.9]},
        "excluding jointly": {"exclude": [JOINT, 0.9]},
    },
    "cl_infonce": {"released": {"form": "released"}},
    "supcon": {
        "sincere": {"denominator": "negatives"},
        "inside": {"summation": "inside"},
        "sincere inside": {"denominator": "negatives", "summation": "inside"},
        "one": {"contrast_mode": "one"},
    },
    "soft_infonce": {
        "softmax": {"kernel": "cosine", "target_temperature": 0.1, "own": False},
        "joint, per view": {"kernel": JOINT},
    },
    "fair_cclk": {
        "released": {"form": "released"},
        "class ids": {"kernel": "linear"},
        "joint": {"kernel": JOINT},
        "joint, numbers": {"kernel": NUMBERS},
        "joint, class ids": {"kernel": IDS},
    },
    "weaklysup_cclk": {
        "released": {"form": "released"},
        "class ids": {"kernel": "delta"},
        "joint, sum": {"kernel": EITHER, "exclude": ["cosine", 0.9]},
        "joint, released": {"kernel": JOINT, "form": "released"},
    },
    "hardneg_cclk": {"per view": {"ridge": 0.5}, "joint, per view": {"kernel": JOINT}},
    "hucl": {
        "fixed weights": {"weight_gradient": False},
        "threshold": {"threshold": 1.0, "o": "negatives"},
        "steep": {"beta": 5.0},
    },
    "hcl": {"steep": {"beta": 5.0, "tau_plus": 0.8}},
    "debiased": {"biased": {"tau_plus": 0.8}},
    "align_uniform": {"square root": {"power": 0.5}},
    "scl": {"all": {"positives": "all", "o": "negatives"}},
    "hscl": {
        "all": {"positives": "all", "beta": 5.0},
        "all by anchors": {"positives": "all", "average": "anchors", "threshold": 0.5},
    },
    "cacr": {
        "rbf": {"cost": "rbf"},
        "other view": {"negatives": "other_view", "tau_plus": 0.1, "weight_gradient": False},
    },
    "ibot": {"sinkhorn": {"centering": "sinkhorn"}},
    "cacr_moco_v3": {"euclidean": {"cost": "euclidean"}},
    "cmc": {"core": {"graph": "core"}},
    "cluster_cross_entropy": {"projection": {"of": "projection"}},
    "mixture": {
        "unlike": {
            "objectives": [
                {"use": "supcon", "temperature": {"learn": True, "start": 0.2}, "on": "label"},
                {"use": "fair_cclk", "kernel": "rbf"},
                "align_uniform",
            ],
            "weights": [1, RISING, 0.5],
        }
    },
}
"""Settings beside the example's, by objective and name; the conformance kit runs its laws with them too."""
OF_OTHER_VALUES = ("joint", "class ids", "per view")
"""Words in the names of variants with condition values that the kit does not give by itself."""

GIVEN = {"threshold": 1.0, "target_temperature": 0.5, "base_temperature": 0.07, "o": 2.0}
"""Numbers for what is None or a word by default."""

D = 16


@dataclass(frozen=True)
class Case:
    """An objective of the registry, and what it is built with beside its defaults."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""

    def __str__(self) -> str:
        return f"{self.name}, {self.variant}" if self.variant else self.name

    def build(self, seed: int = 0, dtype: torch.dtype = torch.float64, width: int = D) -> Any:
        torch.manual_seed(seed)
        objective = ccl.create("objective", self.name, **self.params)
        if isinstance(objective, GuideHead):
            objective = _begun(objective)
        elif not objective.conditions:  # others would need tables
            trait(objective, "setup")({}, Sizes(24, width, width, steps=10))
        return objective.to(dtype)

    def with_params(self, **params: Any) -> Case:
        return Case(self.name, {**self.params, **params}, self.variant)

    def condition(self, ids: Tensor, vectors: Tensor) -> dict[str, Tensor]:
        """Class ids for an objective, or a variant, that reads these, else vectors."""
        wanted = self.build().conditions
        if self.variant.endswith("per view"):
            vectors = torch.stack([vectors, vectors.flip(0)])
        return {
            name: ids if self._has_ids(name, value_types) else vectors
            for name, value_types in wanted.items()
        }

    def _has_ids(self, name: str, value_types: Any) -> bool:
        return "continuous" not in value_types or self.variant == "class ids" or name in CLASSES


def variant_of(name: str, variant: str) -> dict[str, Any]:
    """A variant for the conformance kit: its settings, and the values of its conditions."""
    params = dict(VARIANTS[name][variant])
    if not any(words in variant for words in OF_OTHER_VALUES):
        return params
    case = Case(name, {**getattr(classes()[name], "EXAMPLE", {}), **params}, variant)
    vectors = torch.rand(8, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return {**params, "EXAMPLE_CONDITION": case.condition(torch.arange(8) % 3, vectors)}


def _begun(head: GuideHead) -> GuideHead:
    """A head of projections, as a guide may hold it, that has seen every class."""
    n, ids = 24, torch.arange(24) % 5
    vectors = torch.rand(n, 3, generator=torch.Generator().manual_seed(1))
    values = vectors if "continuous" in head.value_types else ids
    head.serve("projection", None)
    head.setup({head.on: Table(values)}, Sizes(n, D, D, steps=10))
    x = torch.randn(1, n, D, generator=torch.Generator().manual_seed(2))
    head.loss(in_batch(x.requires_grad_(), Samples({head.on: values})))
    trait(head, "after_step")()
    return head


def classes() -> dict[str, type]:
    """The objectives that this distribution declares, by name."""
    points = distribution("ccl-plugins").entry_points.select(group="ccl_plugins.objective")
    return {point.name: point.load() for point in sorted(points)}


def numbers(objective: type) -> Iterator[tuple[str, ScalarAttribute, float]]:
    """The parameters of an objective that take a `Scalar`, and a number for each."""
    for name, parameter in inspect.signature(objective).parameters.items():
        attribute = inspect.getattr_static(objective, name, None)
        if isinstance(attribute, ScalarAttribute):
            plain = isinstance(parameter.default, int | float)
            yield name, attribute, parameter.default if plain else GIVEN.get(name, 1.0)


def plain_cases() -> list[Case]:
    """Every objective as its example has it, and its variants."""
    found = []
    for name, objective in classes().items():
        example = dict(getattr(objective, "EXAMPLE", {}))
        found.append(Case(name, example))
        for variant, params in VARIANTS.get(name, {}).items():
            found.append(Case(name, {**example, **params}, variant))
    return found


def representatives() -> list[Case]:
    """One case for each way of reading pairs, for tests of what makes these.

    That a queue is read, and how far, the conformance kit checks for every objective.
    """
    found: dict[Any, Case] = {}
    for case in plain_cases():
        built = case.build()
        traits = ("embedding", "within_view", "min_views", "distributed", "reads_queue")
        way = [getattr(built, name) for name in traits]
        types = sorted({t for each in built.conditions.values() for t in each})
        features = getattr(built, "reads_features", False)
        if trait(built, "reads_patches"):  # of the method ibot alone
            continue
        key = (*way, features, *types, case.variant.endswith("per view"))
        found.setdefault(key, case)
    return [*found.values()]


def changing_cases() -> list[Case]:
    """Every objective with all numbers that change over training: learned, or else scheduled."""
    found = []
    for name, objective in classes().items():
        params = dict(getattr(objective, "EXAMPLE", {}))
        for key, attribute, number in numbers(objective):
            if attribute.learnable:
                params[key] = {"learn": True, "start": number}
            elif key != "base_temperature":  # does not go with a learned temperature
                params[key] = {"schedule": "cosine", "start": number, "end": number / 2}
        if params.keys() & {key for key, _, _ in numbers(objective)}:
            found.append(Case(name, params, "changing"))
    return found


def random_batch(case: Case, n: int = 8, seed: int = 3) -> tuple[Tensor, dict[str, Tensor]]:
    """(2, n, d) raw embeddings and the conditions."""
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(2, n, D, generator=generator, dtype=torch.float64)
    views[1] += views[0]
    vectors = torch.rand(n, 3, generator=generator, dtype=torch.float64)
    ids = torch.arange(n) % 3
    return views, case.condition(ids, vectors)
