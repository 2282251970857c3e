"""What each built-in component means without a parameter, recorded in ``components.json``.

Run ``PYTHONPATH=tests python -m support.components`` to record it anew.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from support.imports import ROOT

from ccl_plugins.kinds import registry
from ccl_plugins.objectives.scalars import ScalarAttribute

RECORD = ROOT / "tests" / "support" / "components.json"
DECLARED = {
    "kernel": ("positive_definite", "one_hot"),
    "objective": (
        "within_view",
        "min_views",
        "embedding",
        "distributed",
        "hierarchies",
        "reads_queue",
        "reads_features",
        "reads_patches",
        "conditions",
        "place",
        "compiles",
        "in_parts",
        "adversarial",
        "stops_gradient",
        "hides",
    ),
}
"""What components of a kind declare, read from one that is built from its example."""


def components() -> dict[str, dict[str, str]]:
    """By kind and name: defaults, the example, the numbers that can be learned, and what is declared."""
    found = registry()
    return {
        f"{spec.kind}/{spec.name}": dict(sorted(_meaning(spec).items()))
        for spec in sorted(found.specs(), key=lambda spec: (spec.kind, spec.name))
        if spec.plugin == found.host
    }


def _meaning(spec: Any) -> dict[str, str]:
    component = spec.load()
    example = getattr(component, "EXAMPLE", {})
    example = {} if callable(example) else dict(example)  # callable: its files' paths differ
    meaning = {f"default of {key}": repr(value) for key, value in defaults(component).items()}
    meaning |= {f"example of {key}": repr(value) for key, value in example.items()}
    for key in defaults(component):
        number = inspect.getattr_static(component, key, None)
        if isinstance(number, ScalarAttribute):
            meaning[f"{key} can be learned"] = repr(number.learnable)
    if spec.kind in DECLARED:
        built = registry().choose(spec.kind, spec.id, **example).build()
        meaning |= {key: repr(getattr(built, key, None)) for key in DECLARED[spec.kind]}
    return meaning


def defaults(component: Any) -> dict[str, Any]:
    """The defaults of a constructor or function."""
    parameters = inspect.signature(component).parameters.items()
    return {name: p.default for name, p in parameters if p.default is not p.empty}


if __name__ == "__main__":
    RECORD.write_text(json.dumps(components(), indent=1) + "\n", encoding="utf-8")
