"""Captions or tags of the images as conditioning variable."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from ccl_plugins.metadata import choose, read_rows, sample_names
from ccl_plugins.protocols import Embedder, Refresh, Table, ValueType
from torch import Tensor

from ccl_text_condition.hashing import Hashing

if TYPE_CHECKING:
    from ccl_plugins.protocols import FittedCondition


class Text:
    """A vector of each image's caption or tags, by any encoder of sentences.

    Texts come from a column of the data set, of its texts or its metadata, or from a file.  Equal texts are encoded once.
    The usual kernel to compare the vectors is ``cosine``.

    Shape:
        N samples -> (N, c)

    Args:
        column: The column of texts: captions, or tags separated by blanks or commas.
        file: A table with that column, ``.csv`` or ``.parquet``; None: the data set.
        key: For a file, the column that names the samples, as the metadata column of the same name does;
            None: row i belongs to training sample i.
        encoder: A function from a list of n texts to (n, c) numbers, such as the ``encode`` of a sentence
            transformer; None: hashed words, which need no model.  A configuration cannot name a function:
            give the pipeline the object, ``condition=Text("caption", encoder=model.encode)``.
        features: Length of a vector of hashed words.
        components: How many of the vectors' main directions to keep, below ``features``; None: all.
        missing: What to do with samples without a text: ``"error"``, or ``"drop"`` (left out of training).

    Raises:
        TypeError: For an encoder that cannot be called.
        ValueError: For a number out of range, and ``key`` without a file; on use, for a missing column or
            one without texts, a file of another data set, and vectors of another shape.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"column": "word", "features": 16}
    refresh: Refresh = "never"
    value_type: ValueType = "continuous"

    def __init__(
        self,
        column: str,
        file: str | Path | None = None,
        key: str | None = None,
        encoder: Callable[[list[str]], Any] | None = None,
        features: int = 512,
        components: int | None = None,
        missing: Literal["error", "drop"] = "error",
    ) -> None:
        if encoder is not None and not callable(encoder):
            raise TypeError(
                f"encoder must be a function of a list of texts, not {encoder!r}: give the pipeline"
                " Text(column, encoder=model.encode), an object"
            )
        if key is not None and file is None:
            raise ValueError(f"key={key!r} names a column of a file: give file=, too")
        if missing not in ("error", "drop"):
            raise ValueError(f"missing must be 'error' or 'drop', not {missing!r}")
        self.column = column
        self.file = None if file is None else Path(file)
        self.key = key
        self.encoder = encoder or Hashing(features, components)
        self.missing = missing

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Tensor:
        """The vectors of the training split, NaN for samples without a text."""
        if self.file is None:
            texts = sample_names(split, self.column)
        else:
            rows = read_rows(self.file, self.key, split, words=[self.column])
            texts = choose(rows, [self.column], str(self.file))[self.column]
        self._refuse_numbers(texts)
        different = sorted({text for text in texts if not _is_missing(text)})
        if not different:
            raise ValueError(f"column {self.column!r} holds no text")
        vectors = torch.as_tensor(self.encoder(different)).detach().float().cpu()
        if vectors.ndim != 2 or len(vectors) != len(different):
            raise ValueError(
                f"the encoder must give (n, c) numbers for n texts, but gave {tuple(vectors.shape)}"
                f" for {len(different)}"
            )
        places = {text: place for place, text in enumerate(different)}
        rows = torch.tensor([places.get(text, -1) for text in texts])
        return vectors[rows].masked_fill((rows < 0)[:, None], torch.nan)

    def _refuse_numbers(self, texts: list[Any]) -> None:
        for row, text in enumerate(texts):
            if not _is_missing(text) and not isinstance(text, str):
                raise ValueError(
                    f"column {self.column!r} holds {text!r} in row {row}, which is not a text"
                )


def _is_missing(text: Any) -> bool:
    if isinstance(text, str):
        return not text.strip()
    return text is None or (isinstance(text, float) and math.isnan(text))


if TYPE_CHECKING:
    _: FittedCondition = Text("caption")  # a type checker names missing members here
