"""Cross-entropy on class ids: the baseline of conditional objectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins.arguments import WIDEST, checked, matrix, whole, word
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table


@dataclass(eq=False, repr=False)
class ClusterCrossEntropy(ContrastiveObjective):
    r"""Cross-entropy of a linear classifier of the condition's classes: the baseline without contrast.

    Positives and negatives: none. Each view is classified separately, with equal weight. With
    labels as the condition this is supervised training; with clusters, deep clustering. If pairs
    have partners, only the first view is classified, because the other views show images of other
    values.

    The linear layer is a parameter of this objective. It exists from construction if ``dim`` and
    ``classes`` are given, which a loop of your own needs; otherwise ``setup`` makes it.

    Equation:
        \ell_i = -\log \frac{e^{h_{z_i}(f_i)}}{\sum_c e^{h_c(f_i)}}

    Args:
        dim: Width of the classified vectors; None: the width of the backbone's features, or of the
            projections.
        classes: Number of classes, 2 to 2^20; None: as many as the condition has when training starts.
            Give the number if the condition is fitted again during training or computed in every
            step.
        of: The vectors that are classified: ``"backbone"`` features or the ``"projection"``; a call
            on raw embeddings classifies these.

    Raises:
        TypeError: For a number that is not whole.
        ValueError: For a number out of range, class ids of ``classes`` or more, vectors of another
            width than ``dim``, and use before the layer exists.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), section 4, the
        baseline "clusters + cross-entropy loss".
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"dim": 16, "classes": 10}
    value_types = ("categorical",)
    min_views = 1
    embedding: Literal["sphere", "raw"] = field(default="raw", init=False)
    reads_queue = False
    in_parts = True

    dim: int | None = checked(whole, least=1, most=WIDEST, default=None)
    classes: int | None = checked(whole, least=2, most=WIDEST, default=None)
    _: KW_ONLY
    exclude: None = field(default=None, init=False)
    gather_distributed: bool = field(default=False, init=False)
    of: Literal["backbone", "projection"] = word("backbone", "projection")
    on: str = "condition"

    def __post_init__(self) -> None:
        """Create the linear layer, if its size was given."""
        super().__post_init__()
        self.reads_projections = self.of == "projection"
        self.head: nn.Linear | None = None
        if self.dim is not None and self.classes is not None:
            matrix(("dim", self.dim), ("classes", self.classes))
            self.head = nn.Linear(self.dim, self.classes)

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Create the linear layer, unless ``dim`` and ``classes`` were given.

        Raises:
            ValueError: If the run's vectors have another width than ``dim``, and for class ids of
                ``classes`` or more.
        """
        width = sizes.features if self.of == "backbone" else sizes.embedding
        if self.dim not in (None, width):
            raise ValueError(
                f"ClusterCrossEntropy has dim={self.dim}, and the vectors of of={self.of!r} have {width}"
                " columns: leave dim out"
            )
        table, classes = tables.get(self.on), self.classes
        if self.head is None:
            if classes is None:
                if table is None:
                    raise ValueError(
                        f"ClusterCrossEntropy cannot count the classes of {self.on!r}, which has no table:"
                        " give classes=..."
                    )
                classes = max(int(table.values.max()) + 1, 2)
            self.head = nn.Linear(width, classes)
        if table is not None:
            self._check_ids(table.values)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        # A layer that ``setup`` created has the size that was saved, in a part of another module too.
        weight = state_dict.get(f"{prefix}head.weight")
        if self.head is None and weight is not None:
            self.head = nn.Linear(weight.shape[1], len(weight))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Raise ValueError for class ids out of range."""
        self._check_ids(condition[self.on])

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Minus the log-probability of the class id, per view."""
        x = pairs.samples.features
        if x is None or self.of == "projection":
            x = pairs.anchors
        if pairs.samples.partner is not None:
            x = x[:1]
        layer = self._layer()
        if x.shape[-1] != layer.in_features:
            raise ValueError(
                f"dim is {layer.in_features}, but the vectors have {x.shape[-1]} columns"
            )
        ids = pairs.samples.condition_of(self.on)[pairs.rows].expand(x.shape[:2])
        logits = layer(x)
        values = functional.cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="none")
        values = values.view(x.shape[:2])
        return values, torch.ones_like(values)

    def _layer(self) -> nn.Linear:
        if self.head is None:
            raise ValueError(
                "ClusterCrossEntropy has no linear layer yet: give classes=... and dim=..., or call"
                " setup(tables, sizes)"
            )
        return self.head

    def _check_ids(self, ids: Tensor) -> None:
        classes = self._layer().out_features
        if ids.ndim != 1 or ids.is_floating_point():
            raise ValueError(f"class ids must be integers (n,), not {ids.dtype} {tuple(ids.shape)}")
        if not 0 <= int(ids.min()) <= int(ids.max()) < classes:
            raise ValueError(
                f"class ids must be from 0 to {classes - 1}, not {int(ids.min())} to {int(ids.max())}:"
                f" the objective has {classes} classes"
            )
