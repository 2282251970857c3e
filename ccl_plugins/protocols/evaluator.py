"""The contract of evaluators, and the frozen features that they measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

from torch import Tensor, nn

from ccl_plugins.protocols.condition import ValueType
from ccl_plugins.protocols.traits import traits_of
from ccl_registry.errors import Mistake

Role = Literal["label", "condition", "other"]
"""The role of a column in a run: its label, read by one of its conditions, or neither."""

Direction = Literal["higher", "lower"]
"""Whether higher or lower values mean that features hold more of a column or, without a column, are
better."""


@dataclass(frozen=True)
class Measurement:
    """A number that an evaluator measured, with everything that a reader must know about it.

    Args:
        name: Such as ``"linear/top1"``; a run has one measurement of each name.
        value: The number.
        sentence: The meaning of the number for a reader who sees it for the first time, such as
            "the share of test samples whose label a linear probe names right".
        samples: The number of samples that it was measured on.
        interval: The lower and the upper end of its 95 % interval over these samples; None: it has none.
        column: The column that is read from the features; None: it is about no column.
        role: The column's role in the run; the run fills this in.
        direction: Whether higher or lower values mean that the features hold more of the column or,
            without a column, are better; None: neither.
        chance: The value for features without information; None: there is none.
        within: Whether the predictor was fitted to others of the measured samples, so that values
            that training lacks are measured too; the run fills this in, from the evaluator's trait.
    """

    name: str
    value: float
    sentence: str = ""
    samples: int | None = None
    interval: tuple[float, float] | None = None
    column: str | None = None
    role: Role | None = None
    direction: Direction | None = None
    chance: float | None = None
    within: bool = False


@dataclass(frozen=True)
class Images:
    """The images that frozen features were computed from, for evaluators that train the network.

    Args:
        rows: (N,) the rows of the split that the features belong to.
        read: From a list of rows of the split, (k,) each, to their un-augmented images, (k, channels,
            height, width) each, one after another.
        copy_backbone: Returns a copy of the network, on its device; changes of the copy do not
            change the run.
    """

    rows: Tensor
    read: Callable[[list[Tensor]], Iterator[Tensor]]
    copy_backbone: Callable[[], nn.Module]

    def batches(self, pieces: Sequence[Tensor]) -> Iterator[Tensor]:
        """The images of parts of the rows, given by places (k,) among the rows."""
        return self.read([self.rows[piece] for piece in pieces])


@dataclass(frozen=True)
class Towers:
    """The projections of one split by a method with an image tower and a text tower.

    Args:
        images: (N, d) float32 projections of the split's images without augmentation, of unit length, on
            the CPU.
        texts: From k strings to their (k, d) float32 projections, of unit length, on the CPU.
        captions: The split's texts by column, a string for each image.
    """

    images: Tensor
    texts: Callable[[Sequence[str]], Tensor]
    captions: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def take(self, rows: Tensor) -> Towers:
        """The samples of these rows (k,)."""
        places = rows.tolist()
        captions = {name: [texts[i] for i in places] for name, texts in self.captions.items()}
        return replace(self, images=self.images[rows], captions=captions)


@dataclass(frozen=True)
class Frozen:
    """Frozen features of one split.

    Args:
        features: (N, f) float32, on the CPU.
        metadata: The split's columns, (N,) or (N, c) each.
        images: The images of the features; None if only the features are known.
        towers: The projections of images and texts; None unless the method has a text tower.
        vocabulary: For columns of words, the word of each class id.
        projections: (u, N, d) float32 projections of u augmented views, of unit length, on the CPU; None
            unless an evaluator declares that it reads them.
        groups: (N,) ids of samples that belong together, such as those of one patient; None if no
            samples do.
        original: (N, f) float32 features of the network before training, on the CPU; None unless an
            evaluator declares that it reads them and the run has them.
        freeze: Computes the frozen features of another split, by the same network and preparation;
            None if only the features are known.
    """

    features: Tensor
    metadata: Mapping[str, Tensor]
    images: Images | None = None
    towers: Towers | None = None
    vocabulary: Mapping[str, Sequence[str]] = field(default_factory=dict)
    projections: Tensor | None = None
    groups: Tensor | None = None
    original: Tensor | None = None
    freeze: Callable[[Any], Frozen] | None = None

    def take(self, rows: Tensor) -> Frozen:
        """The samples of these rows (k,)."""
        return replace(
            self,
            features=self.features[rows],
            metadata={name: column[rows] for name, column in self.metadata.items()},
            images=self.images and replace(self.images, rows=self.images.rows[rows]),
            towers=self.towers and self.towers.take(rows),
            projections=None if self.projections is None else self.projections[:, rows],
            groups=None if self.groups is None else self.groups[rows],
            original=None if self.original is None else self.original[rows],
        )


class UndefinedMetric(Mistake):
    """The samples do not define a number, such as the recall of a class without a sample.

    An evaluator raises it, and a run then warns and leaves the evaluator's measurements out.
    """


class Evaluator(Protocol):
    """Measurements of frozen features."""

    def __call__(self, train: Frozen, test: Frozen) -> Sequence[Measurement]:
        """The measurements; of those of a column, the main one comes first.

        Raises:
            UndefinedMetric: If the samples do not define a number.
        """


@traits_of("evaluator")
class EvaluatorTraits:
    """The optional members of an evaluator."""

    columns: ClassVar[Mapping[str, Sequence[ValueType]]] = {}
    """Read before training. The names of the
    metadata columns that the evaluator reads, with the value types it accepts for each, such as
    `{"color": ("continuous",)}`; a data set without one of them is refused."""
    split: Literal["test", "train"] = "test"
    """Read where an evaluator is called. `"train"` if it
    measures the training split: intervals are then over the groups of its samples, and no class of it is
    new."""
    within: bool = False
    """Read where an evaluator is called. True if the predictor is fitted to others of the measured
    samples, and not to the training split: then values that training lacks are measured too. Its
    measurements are the main ones of columns other than the label, and monitors measure them on the
    last samples."""
    reads_towers: bool = False
    """Read when a pipeline is composed. True if the evaluator reads
    `Frozen.towers`; a pipeline whose method has no text tower is then refused."""
    reads_projections: bool | None = None
    """Read when features are computed. True if the evaluator reads `Frozen.projections`; without the member
    it does not."""
    reads_original: bool = False
    """Read before training. True if the evaluator reads `Frozen.original`;
    the run then keeps the features of its test split before training."""
