"""Views of a column of vectors, such as attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.protocols import ValueType
from ccl_plugins.transforms.noise import NoiseTransform


class ColumnTransform(NoiseTransform):
    """Views of a sample's values in a metadata column, such as attributes or features of its text.

    This is a modality in addition to the image: the values become a vector, for a tower such as
    ``mlp``. By default there is no noise.

    Args:
        name: The metadata column, of numbers or of 0 and 1.
        std: Standard deviation of noise on each number, 0 or more.
        drop: Probability that a number is set to 0, at least 0 and below 1.

    Attributes:
        source: The column.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"name": "attributes", "std": 0.1}
    EXAMPLE_VALUES: ClassVar[Sequence[Any]] = ([1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [1.0, 1.0, 1.0])

    value_types: Sequence[ValueType] = ("multi_label", "continuous")

    def __init__(self, name: str, *, std: float = 0.0, drop: float = 0.0, count: int = 1) -> None:
        super().__init__(std=std, drop=drop, count=count)
        self.source = name
        self.transforms = [self._transform] * self.count

    def plain(self, image: Any) -> Tensor:
        """The values (c,) of one sample, (1,) of a number, or (n, c) of a batch, as float32."""
        values = torch.as_tensor(image).float()
        return values if values.ndim else values[None]

    def check_values(self, values: Any) -> None:
        """Refuse a column with numbers that are missing or infinite.

        Raises:
            ValueError: For such a number; the message names the first sample.
        """
        rows = torch.as_tensor(values).float().reshape(len(values), -1)
        wrong = (~rows.isfinite().all(1)).nonzero().flatten()
        if len(wrong):
            raise ValueError(
                f"the views of column {self.source!r} need a finite value of every sample, but "
                f"sample {int(wrong[0])} has none"
            )

    def _transform(self, value: Any) -> Tensor:
        return self._view(self.plain(value))
