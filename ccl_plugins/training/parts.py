"""The built objects that training works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ccl_plugins.protocols import Condition, Dataset, Sampler, Views


@dataclass(frozen=True)
class Parts:
    """A pipeline's parts, built.

    Args:
        dataset: The data set component; ``dataset("train")`` is trained on.
        views: The augmentations.
        method: A `ccl_plugins.protocols.Method` and ``nn.Module``; holds the backbone and the heads.
        objective: A `ccl_plugins.protocols.Objective` and ``nn.Module``.
        conditions: The conditioning variables by the name they have in ``pairs.condition``; a single
            one is called ``"condition"``.
        sampler: Makes the sampler; called with the keyword arguments ``size``, ``batch_size``, ``seed``
            and, where its signature has it or ``sampler_on`` is given, ``condition`` (values, one row
            per sample).
        sampler_on: The condition that the sampler reads.  None: the only one, or that called
            ``"condition"``, where the sampler's signature asks for one.
    """

    dataset: Dataset
    views: Views
    method: Any
    objective: Any
    sampler: Callable[..., Sampler]
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    sampler_on: str | None = None

    @property
    def networks(self) -> dict[str, Any]:
        """What is learned, by the name it has in checkpoints."""
        return {"method": self.method, "objective": self.objective}
