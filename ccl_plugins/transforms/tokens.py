"""Views of a text: its tokens, as numbers."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.arguments import DEEPEST, WIDEST, below_one, whole
from ccl_plugins.files.reading import reading

LOOKED_AT = 10_000
"""The most texts of a column whose length is checked before training."""


class TokenTransform:
    """Views of a sample's text as token ids, for a text tower.

    By default tokens are the bytes of the text (UTF-8), a vocabulary of 256 that needs no training
    and no file. Texts are padded with 0, so a token's id is the tokenizer's id plus 1.

    Args:
        column: The column of texts.
        length: Tokens of a view, 1 to 2^20; longer texts are cut at the end.
        path: A file ``tokenizer.json`` of Hugging Face's ``tokenizers``; None: bytes.
        drop: Probability that a word is left out, at least 0 and below 1; one word stays.
        count: Number of views, 1 to 1024.

    Attributes:
        source: The column.
        vocabulary: Token ids are below this number.

    Raises:
        ImportError: Without the package ``tokenizers``.
        FileNotFoundError: If there is no such file.
        ValueError: If a parameter is out of its range, or if the file is not a tokenizer.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"length": 12, "drop": 0.3}
    EXAMPLE_VALUES: ClassVar[Sequence[Any]] = ("a seven on green", "", "one, deux, très long")

    """It reads texts."""

    def __init__(
        self,
        column: str = "caption",
        length: int = 64,
        *,
        path: Path | None = None,
        drop: float = 0.0,
        count: int = 1,
    ) -> None:
        self.source = column
        self.length = whole("length", length, 1, WIDEST)
        self.drop = below_one("drop", drop)
        self.count = whole("count", count, 1, DEEPEST)
        self.transforms = [self._transform] * self.count
        self._tokenizer = _bytes() if path is None else _read(path)
        self.vocabulary: int = self._tokenizer.get_vocab_size() + 1

    def __call__(self, image: str) -> list[Tensor]:
        """The views of a text, each (length,) long."""
        return [transform(image) for transform in self.transforms]

    def plain(self, image: str | Sequence[str]) -> Tensor:
        """The token ids of a text (length,) long, or of several (n, length), with all their words."""
        if isinstance(image, str):
            return self._padded(image)
        return torch.stack([self._padded(text) for text in image])

    def check_values(self, values: Sequence[str]) -> None:
        """Warn of texts that are cut.

        Warns:
            UserWarning: With the length that no text exceeds.
        """
        step = max(1, -(-len(values) // LOOKED_AT))
        lengths = [len(self._ids(text)) for text in values[::step]]
        cut = sum(length > self.length for length in lengths)
        if cut:
            warnings.warn(
                f"tokens cuts {cut} of {len(lengths)} texts of {self.source!r} at length={self.length}; the"
                f" longest has {max(lengths)} tokens: give it length={max(lengths)}",
                stacklevel=2,
            )

    def fingerprint(self) -> str:
        """The SHA-256 of the tokenizer."""
        return hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()

    def _transform(self, text: str) -> Tensor:
        words = _text(text).split()
        if self.drop and words:
            kept = torch.rand(len(words)) >= self.drop
            kept[torch.randint(len(words), ())] = True
            text = " ".join(word for word, stays in zip(words, kept.tolist(), strict=True) if stays)
        return self._padded(text)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(_text(text)).ids
        return ids

    def _padded(self, text: str) -> Tensor:
        ids = torch.tensor(self._ids(text)[: self.length], dtype=torch.long) + 1
        return torch.nn.functional.pad(ids, (0, self.length - len(ids)))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text must be a string, not a {type(value).__name__}: {value!r:.80}")
    return value


def _bytes() -> Any:
    """A tokenizer of bytes."""
    models, pre_tokenizers = _library().models, _library().pre_tokenizers
    # The library writes a byte as a character of its own; sorted, for the same ids everywhere.
    vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = _library().Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return tokenizer


def _read(path: Path) -> Any:
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"there is no tokenizer {str(path)!r}")
    with reading(path, "tokenizer"):
        text = path.read_text("utf-8")
    library = _library()
    try:
        tokenizer = library.Tokenizer.from_str(text)
        tokenizer.encode("\N{SNOWMAN}")  # a word that it may not know
    # The library raises Exception itself, and a panic of Rust is no Exception.
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(
            f"{str(path)!r} is not a file of the library tokenizers: {error}"
        ) from error
    # Padding and length are ours.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _library() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            'views of tokens need the package tokenizers: pip install "ccl-plugins[text]"'
        ) from error
    return tokenizers
