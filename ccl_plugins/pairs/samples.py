"""The facts about the samples of a batch, without their embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace

import torch
from torch import Tensor

from ccl_plugins.numerics.condition_values import fill_missing, missing_samples
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.precision import at_least_float32
from ccl_plugins.pairs.patches import PatchScores


@dataclass(frozen=True, eq=False)
class Samples:
    """Conditions, dataset indices and features of the samples of a batch.

    A training step creates this object for the n samples of its process; `Pairs` have one for all m
    samples that are keys.

    Args:
        condition: By name (m,), (m, c) or, where it differs per view, (u, m, c).
        index: (m,) dataset index of each sample.
        features: (u, n, f) backbone features of this process's samples, with gradient, for objectives that
            read them; with several modalities, only of the image views.
        extras: Further tensors by name (such as the centroids of clusters), without one row per
            sample.
        patches: The scores of this process's masked patches, for objectives that read them.
        partner: (m,) dataset index of the image in the views after the first, if it is another image.
        partner_condition: By name (m,) or (m, c), that image's values of the conditions with a table.
        ignored: Names of conditions whose missing values (NaN, -1 among class ids) leave a sample out of
            the objectives that read them.
        missing: (m,) True at samples that are left out: they are neither anchors nor keys; None: none.
    """

    condition: Mapping[str, Tensor] = field(default_factory=dict)
    index: Tensor | None = None
    features: Tensor | None = None
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    _: KW_ONLY
    patches: PatchScores | None = None
    partner: Tensor | None = None
    partner_condition: Mapping[str, Tensor] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    missing: Tensor | None = None

    def condition_of(self, name: str, i: int = 0) -> Tensor:
        """(m,) or (m, c) values of a condition in anchor view ``i``."""
        values = self.condition[name]
        return values[i] if values.ndim == 3 else values

    def lacking(self, names: Iterable[str]) -> list[str]:
        """Those of these conditions whose missing values leave samples out."""
        return [name for name in names if name in self.ignored and name in self.condition]

    def without_missing(self, names: Iterable[str]) -> Samples:
        """These samples, with those ``missing`` that lack a value of one of these conditions.

        Their values of these conditions are replaced by those of other samples.
        """
        lost = [missing_samples(self.condition[name]) for name in names]
        missing = torch.stack(lost if self.missing is None else [*lost, self.missing]).any(0)
        filled = {name: fill_missing(self.condition[name], missing) for name in names}
        return replace(self, condition={**self.condition, **filled}, missing=missing)

    def gathered(self) -> Samples:
        """These samples and those of the other processes, which have the same number.

        Features and patches do not change.
        """

        def rows(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: gather(z, 1 if z.ndim == 3 else 0) for name, z in given.items()}

        return replace(
            self,
            condition=rows(self.condition),
            index=None if self.index is None else gather(self.index),
            partner=None if self.partner is None else gather(self.partner),
            partner_condition=rows(self.partner_condition),
        )

    def at_least_float32(self) -> Samples:
        """These samples with condition values that are not narrower than float32."""
        wide = {name: at_least_float32(z) for name, z in self.condition.items()}
        return replace(self, condition=wide)
