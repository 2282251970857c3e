"""A text encoder that needs no download: hashed counts of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Hashing:
    """Unit vectors of the words in each text; texts that share words are similar.

    Args:
        features: Length of a vector, 1 or more; words that share an entry are not distinguished.
        components: Number of principal directions, below ``features``, to project on; None: no projection.

    Raises:
        ValueError: For a number out of range.
    """

    features: int = 512
    components: int | None = None

    def __post_init__(self) -> None:
        if self.features < 1:
            raise ValueError(f"features must be 1 or more, not {self.features!r}")
        if self.components is not None and not 1 <= self.components < self.features:
            raise ValueError(
                f"components must be at least 1 and below features={self.features}, or None, not"
                f" {self.components!r}"
            )

    def __call__(self, texts: Sequence[str]) -> Any:
        """(n, features) or (n, components) numbers."""
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import HashingVectorizer

        # Words of one letter, such as digits, count too.
        counts = HashingVectorizer(n_features=self.features, token_pattern=r"(?u)\b\w+\b")
        vectors = counts.transform(texts)
        if self.components is None:
            return vectors.toarray()
        return TruncatedSVD(self.components, random_state=0).fit_transform(vectors)
