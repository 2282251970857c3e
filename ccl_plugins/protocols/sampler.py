"""The contract of samplers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from ccl_plugins.protocols.condition import ValueType
from ccl_plugins.protocols.traits import absent_by_default, traits_of


class Sampler(Protocol):
    """The order of samples: a pure function of its settings, the seed and the epoch.

    The pipeline supplies ``size``, ``batch_size``, ``seed``, ``condition`` (a row per sample) and ``split``
    (the training split, of as many samples, with its ``metadata`` and ``vocabulary``) by keyword to a
    constructor that takes them.  A parameter ``on`` names the condition.
    """

    def __len__(self) -> int:
        """Batches per epoch, independent of a condition's values."""

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        """Global batches of sample indices, (B,) or, for partners, (B, 2), from batch ``start`` on.

        Several epochs may be read at the same time, and every process draws the batches of all
        processes.
        """


@traits_of("sampler")
class SamplerTraits:
    """The optional members of a sampler."""

    @absent_by_default
    @staticmethod
    def value_types(parameters: Mapping[str, Any]) -> Sequence[ValueType]:
        """Called when a pipeline is composed, with all parameters of the sampler.

        Returns the value types that its condition may have; without it, any.
        """
