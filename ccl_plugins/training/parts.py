"""The built parts of a pipeline that training works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ccl_plugins.protocols import Condition, Dataset, Sampler, Transform


@dataclass(frozen=True)
class Parts:
    """The built parts of a pipeline.

    Args:
        dataset: The data set; ``dataset("train")`` is trained on.
        transform: The augmentations.
        method: A `ccl_plugins.protocols.Method` and ``nn.Module``; holds the backbone and the heads.
        objective: A `ccl_plugins.protocols.Objective` and ``nn.Module``.
        sampler: Makes the sampler; called with the keyword arguments ``size``, ``batch_size``, ``seed``
            and, with ``sampler_on``, ``condition`` (values, one row per sample).
        conditions: The conditions by their names in ``pairs.samples.condition``; a single one is called
            ``"condition"``.
        sampler_on: The name of the condition that the sampler reads; None: it reads none.
    """

    dataset: Dataset
    transform: Transform
    method: Any
    objective: Any
    sampler: Callable[..., Sampler]
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    sampler_on: str | None = None

    @property
    def networks(self) -> dict[str, Any]:
        """The modules that are learned, by their names in checkpoints."""
        return {"method": self.method, "objective": self.objective}
