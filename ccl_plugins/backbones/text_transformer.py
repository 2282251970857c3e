"""A small transformer for texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import DEEPEST, WIDEST, below_one, matrix, one_of, whole


class TextTransformer(nn.Module):
    """A transformer encoder from token ids to features, for the text tower of the method ``dual``.

    Every token attends to every other token of its text, but not to padding. Layers normalize
    first, and the features are normalized.

    Shape:
        (n, L) long, 0 for padding, L at most ``length`` -> (n, width)

    Args:
        vocabulary: Token ids are below this number, 2 to 2^20; 257 for the bytes of the views ``tokens``.
        length: The most tokens of a text, 1 to 2^20.
        width: Length of a token's vector and of the features, a multiple of ``heads``.
        depth: Layers, 1 to 1024.
        heads: Attention heads of a layer, 1 to 1024.
        pooling: ``"mean"`` of the tokens' vectors, or ``"class"``, the vector of a learned token before
            them.
        dropout: Probability in each layer, from 0 to below 1.

    Attributes:
        num_features: The width.

    Raises:
        ValueError: If a parameter is out of its range; on use, for another shape or type.

    Source:
        Vaswani et al., Attention Is All You Need (2017), with the layers of Radford et al.,
        Learning Transferable Visual Models From Natural Language Supervision (2021), whose text
        tower is causal and takes the vector of the last token.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "vocabulary": 11,
        "length": 6,
        "width": 8,
        "depth": 1,
        "heads": 2,
    }
    EXAMPLE_SHAPE: ClassVar[tuple[int, ...]] = (6,)
    EXAMPLE_VOCABULARY: ClassVar[int] = 11

    def __init__(
        self,
        vocabulary: int = 257,
        length: int = 64,
        width: int = 128,
        depth: int = 2,
        heads: int = 4,
        pooling: Literal["mean", "class"] = "mean",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.vocabulary = whole("vocabulary", vocabulary, 2, WIDEST)
        self.length = whole("length", length, 1, WIDEST)
        self.num_features = whole("width", width, 1, WIDEST)
        whole("depth", depth, 1, DEEPEST)
        if width % whole("heads", heads, 1, DEEPEST):
            raise ValueError(f"width must be a multiple of heads={heads}, not {width!r}")
        for rows in (("vocabulary", vocabulary), ("length", length), ("4 width", 4 * width)):
            matrix(rows, ("width", width))
        below_one("dropout", dropout)
        self.class_token = (
            nn.Parameter(0.02 * torch.randn(width))
            if one_of("pooling", pooling, ("mean", "class")) == "class"
            else None
        )
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=0)
        self.positions = nn.Parameter(0.01 * torch.randn(length, width))
        nn.init.normal_(self.tokens.weight, std=0.02)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, "gelu", batch_first=True, norm_first=True
        )
        # Nested tensors would cut the padding off, and with it the shape.
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        for parameter in self.layers.parameters():
            if parameter.ndim > 1:  # the encoder copies one layer with its weights
                nn.init.xavier_uniform_(parameter)
        self.norm = nn.LayerNorm(width)

    @staticmethod
    def check_tokens(parameters: Mapping[str, Any], length: int, vocabulary: int) -> None:
        """Refuse texts of too many tokens or of a larger vocabulary, before the network is built."""
        for name, given in (("length", length), ("vocabulary", vocabulary)):
            if given > parameters[name]:
                what = {"length": "texts of up to {} tokens", "vocabulary": "token ids below {}"}[
                    name
                ]
                raise ValueError(
                    f"text_transformer takes {what.format(parameters[name])}, but its views make "
                    f"{what.format(given)}: give it {name} = {given}"
                )

    def no_weight_decay(self) -> set[str]:
        """Names of the vectors of tokens, of positions and of the class token."""
        learned = {name for name, _ in self.named_parameters()}
        return learned & {"tokens.weight", "positions", "class_token"}

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, width) of token ids (n, L)."""
        if x.ndim != 2 or x.is_floating_point() or x.shape[1] > self.length:
            raise ValueError(
                f"TextTransformer(length={self.length}) takes token ids (n, {self.length}) or fewer, whole"
                f" numbers, not {x.dtype} {tuple(x.shape)}"
            )
        given = x != 0
        vectors = self.tokens(x) + self.positions[: x.shape[1]]
        if self.class_token is not None:
            vectors = torch.cat([self.class_token.expand(len(x), 1, -1), vectors], 1)
            given = nn.functional.pad(given, (1, 0), value=True)
        else:
            # A text without tokens is a single padding: attention to nothing is not a number.
            empty = ~given.any(1, keepdim=True)
            given = torch.cat([given[:, :1] | empty, given[:, 1:]], 1)
        vectors = self.norm(self.layers(vectors, src_key_padding_mask=~given))
        if self.class_token is not None:
            return vectors[:, 0]
        weights = given.to(vectors.dtype)[:, :, None]
        return (vectors * weights).sum(1) / weights.sum(1)
