"""What each kind of component must satisfy: signatures, shapes and laws.

A component is an ordinary class, and need not inherit from anything here.  A constructor parameter
hinted with one of these protocols takes a component of that kind.

Letters: ``n`` anchors, ``m`` keys, ``d`` embedding, ``f`` features, ``c`` condition, ``u`` and ``v`` views
of anchors and keys, ``q`` queue, ``N`` samples of a data set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

from torch import Tensor, nn

from ccl_plugins.numerics.gram import Statistic
from ccl_plugins.numerics.kernel_functions import SupportsFeatures as SupportsFeatures
from ccl_plugins.numerics.kernel_functions import SupportsOneHot as SupportsOneHot
from ccl_plugins.numerics.kernel_functions import SupportsRadial as SupportsRadial
from ccl_plugins.numerics.kernel_functions import SupportsRank as SupportsRank
from ccl_plugins.numerics.precision import at_least_float32

if TYPE_CHECKING:
    from ccl_plugins.pairs.pairs import Pairs
    from ccl_plugins.pairs.samples import Samples


@dataclass(frozen=True)
class Embedded:
    """A batch as a method sees it.

    Args:
        features: (u, n, f) backbone features of u views; of several modalities those of the image views.
        projections: (u, n, d) the embeddings that become the objective's anchors.
        keys: (v, n, d) momentum keys, or None where the projections are the keys.
    """

    features: Tensor
    projections: Tensor
    keys: Tensor | None = None

    def normalized(self) -> Embedded:
        """Projections and keys on the unit sphere, in at least float32."""
        return replace(
            self,
            projections=_unit(self.projections),
            keys=None if self.keys is None else _unit(self.keys),
        )


def _unit(x: Tensor) -> Tensor:
    return nn.functional.normalize(at_least_float32(x), dim=-1)


@dataclass(frozen=True)
class Table:
    """A condition's values for a whole data set.

    Args:
        values: (N,) or (N, c), row i belonging to sample i.
        extras: further tensors of any shape (centroids, say), given to objectives by name.
    """

    values: Tensor
    extras: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Images:
    """The images that frozen features were computed from, for evaluators that train the network.

    Args:
        rows: (N,) the rows of the split that the features belong to.
        read: From a list of rows of the split, (k,) each, to their un-augmented images, (k, channels,
            height, width) each, one after another.
        copy_backbone: Makes a copy of the network, on its device; what is done to the copy changes no run.
    """

    rows: Tensor
    read: Callable[[list[Tensor]], Iterator[Tensor]]
    copy_backbone: Callable[[], nn.Module]

    def batches(self, pieces: Sequence[Tensor]) -> Iterator[Tensor]:
        """The images of pieces of the rows, given by their places (k,) among them."""
        return self.read([self.rows[piece] for piece in pieces])


@dataclass(frozen=True)
class Towers:
    """What a method with an image tower and a text tower makes of one split, in the space they share.

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
        images: What the features were computed from; None where only the features are known.
        towers: The projections of images and texts; None unless the method has a text tower.
        vocabulary: For columns of words, the word of each class id.
    """

    features: Tensor
    metadata: Mapping[str, Tensor]
    images: Images | None = None
    towers: Towers | None = None
    vocabulary: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def take(self, rows: Tensor) -> Frozen:
        """The samples of these rows (k,)."""
        return replace(
            self,
            features=self.features[rows],
            metadata={name: column[rows] for name, column in self.metadata.items()},
            images=self.images and replace(self.images, rows=self.images.rows[rows]),
            towers=self.towers and self.towers.take(rows),
        )


class Estimate(float):
    """A metric with the interval that its value may be trusted to; everywhere else a float.

    Args:
        value: The metric.
        low: The lower end of its 95 % interval over test samples, at most the value in most cases.
        high: The upper end.
    """

    low: float
    high: float

    def __new__(cls, value: float, low: float, high: float) -> Estimate:  # noqa: D102
        found = super().__new__(cls, value)
        found.low, found.high = float(low), float(high)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Estimate, (float(self), self.low, self.high)


class UndefinedMetric(ValueError):
    """A metric that the samples do not define, such as the recall of a class without a sample.

    An evaluator raises it, and a run then warns and leaves the evaluator's metrics out.
    """


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run, as an objective's ``setup`` gets them.

    Args:
        samples: N, samples in the training split; dataset indices are from 0 to N - 1.
        embedding: d, the width of projections and keys.
        features: f, the width of backbone features.
        steps: Optimizer steps of the whole run.
    """

    samples: int
    embedding: int
    features: int
    steps: int


ValueType = Literal["categorical", "multi_label", "continuous"]
"""What the values of a condition are: class ids (long), 0/1 columns (float), or real vectors (float)."""

VALUE_TYPES: tuple[ValueType, ...] = get_args(ValueType)
"""All value types."""

Refresh = Literal["never", "epoch", "batch"]
"""When a condition is computed: once, before every epoch, or in every step from the embedded batch."""


ReadsEmbeddings = bool | Literal["key"]
"""Whether a condition's ``fit`` calls ``embed()``, and if so, whether that gives projections (True) or the
momentum encoder's keys."""

Missing = Literal["error", "own", "ignore", "drop"]
"""What happens to samples without a value of a condition: an error names them; each becomes a class of
its own, positive with its own views only; objectives that read the condition leave them out, as anchors
and as keys, and others keep them; or they are left out of training."""


class Objective(Protocol):
    """A loss on pairs; in practice a subclass of `ccl_plugins.objectives.ContrastiveObjective`.

    It may also satisfy `SupportsSetup`, `SupportsProgress`, `SupportsAfterStep`, `SupportsScalars`,
    `SupportsStatistics`, `SupportsHierarchies`, `SupportsReadsQueue`,
    `SupportsReadsFeatures`, `SupportsCheckRead`, `SupportsCompiles` and `StopsGradient`.
    """

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """The conditions that it reads, and the value types it accepts for each."""

    @property
    def within_view(self) -> bool:
        """Whether keys of an anchor's own view are compared with it."""

    @property
    def min_views(self) -> int:
        """The fewest views it can compare."""

    @property
    def embedding(self) -> Literal["sphere", "raw"]:
        """Whether embeddings come L2-normalized."""

    @property
    def distributed(self) -> Literal["mean", "replicated"]:
        """Whether each process has its own anchors' terms, or all have all."""

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Values and weights, (rows, n) each, whose weighted mean is the loss."""

    def loss(self, pairs: Pairs) -> Tensor:
        """The scalar to minimize."""


class Kernel(Protocol):
    """A similarity on the conditioning variable.

    It may also satisfy `SupportsFeatures`, `SupportsRank`, `SupportsRadial` and `SupportsOneHot`, which
    make CCL-K's operator cheaper and change no value.  With `SupportsConditions` it reads several
    conditions: it takes mappings of their names to values in place of values.
    """

    @property
    def positive_definite(self) -> bool:
        """Whether no eigenvalue of k(z, z) is below 0."""

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, c), (m, c) -> (n, m); (n,), (m,) for class ids and scalars."""


class Condition(Protocol):
    """A conditioning variable.

    With ``refresh`` ``"never"`` or ``"epoch"`` it is a `FittedCondition`, with ``"batch"`` a
    `BatchCondition`; one that gives several variables is a `SeveralVariables`.  All are pure functions, and
    constructors read no files.  It may also satisfy `SupportsReadsEmbeddings`, `SupportsMissing`,
    `SupportsHierarchy` and `SupportsWithinBatch`.
    """

    @property
    def refresh(self) -> Refresh:
        """When it is computed."""

    @property
    def value_type(self) -> ValueType:
        """What the values are."""


class FittedCondition(Condition, Protocol):
    """A condition that is a table with one row per sample."""

    def fit(
        self, split: Any, embed: Callable[[], Tensor], previous: Table | None
    ) -> Tensor | Table:
        """One row per sample of ``split`` (the training split).

        Args:
            split: A torch Dataset with ``metadata``.
            embed: Gives the (N, d) unit-norm projections of the un-augmented training set, for a
                condition with ``reads_embeddings = True``; for one with ``"key"``, the momentum
                encoder's keys.
            previous: The table of the epoch before, for a warm start; None at first.
        """


class SeveralVariables(Protocol):
    """A condition that gives several variables in one pass, each read as ``"<condition>/<variable>"``.

    ``missing``, ``hierarchy`` and ``within_batch`` are one value for all, or a mapping of names to values.
    With ``refresh = "batch"``, ``__call__(embedded)`` returns the mapping.
    """

    @property
    def refresh(self) -> Refresh:
        """When they are computed."""

    @property
    def value_type(self) -> Mapping[str, ValueType]:
        """What the values of each variable are, by its name."""

    def fit(
        self, split: Any, embed: Callable[[], Tensor], previous: Mapping[str, Table] | None
    ) -> Mapping[str, Tensor | Table]:
        """As `FittedCondition.fit`, by the names in ``value_type``."""


class BatchCondition(Condition, Protocol):
    """A condition computed from the embedded batch."""

    def __call__(self, embedded: Embedded) -> Tensor:
        """(n,), (n, c) or, where it differs per view, (u, n, c); without gradient."""


class Sampler(Protocol):
    """The order of samples: a pure function of its settings, the seed and the epoch.

    The pipeline supplies ``size``, ``batch_size``, ``seed`` and ``condition`` (a row per sample) by keyword
    to a constructor that takes them.  A parameter ``on`` names the condition; the static method
    ``value_types(parameters)``, if it exists, gives the value types that are accepted.
    """

    def __len__(self) -> int:
        """Batches per epoch, whatever values a condition has."""

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        """Global batches of sample indices, (B,) or, for partners, (B, 2), from batch ``start`` on."""


class Views(Protocol):
    """The augmentations.

    They may also satisfy `SupportsTransforms`, `SupportsSource`, `SupportsCheckValues`,
    `SupportsFingerprint` and `SupportsModalities`.
    """

    @property
    def count(self) -> int:
        """The number of views."""

    def __call__(self, image: Any) -> list[Tensor]:
        """``count`` views of one image, each (channels, height, width)."""

    def plain(self, image: Any) -> Tensor:
        """The image, or a batch, without augmentation, as features are computed from it."""


class Method(Protocol):
    """A lightly-style model: a backbone, its heads, and how their outputs become pairs.

    It may also satisfy `SupportsConditions`, `SupportsBatchCheck`, `SupportsKeys` and, with a network for
    each modality, `SupportsTowers`; and, as a method with a queue does, `SupportsReadConditions` and
    `SupportsKeepStatistics`.
    """

    @property
    def backbone(self) -> nn.Module:
        """The network from images to features, a `Backbone`."""

    def encode(self, x: Tensor) -> Tensor:
        """Backbone features (n, f) of images (n, channels, height, width)."""

    def project(self, x: Tensor) -> Tensor:
        """Projections (n, d) of images, as ``embed()`` of a condition needs them."""

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """Features, projections and keys of a batch of views, each (n, channels, height, width).

        Views of other modalities are as their networks take them.
        """

    def pairs(self, embedded: Embedded, samples: Samples) -> Pairs:
        """The pairs an objective sees, with what is known of the samples, gathered over processes."""

    def enqueue(self, pairs: Pairs) -> None:
        """Put the batch's keys into the queue, if there is one; called once, after all losses."""

    def after_step(self, step: int, total: int) -> None:
        """Called after each optimizer step (momentum updates)."""


class Backbone(Protocol):
    """An ``nn.Module`` from images to features.

    It may also satisfy `SupportsNoWeightDecay` and `SupportsLayerNumbers`, and its class
    `SupportsImageSize` and `SupportsTokens`.
    """

    @property
    def num_features(self) -> int:
        """The length f of a feature vector."""

    def __call__(self, x: Tensor) -> Tensor:
        """(n, channels, height, width) -> (n, num_features)."""


class Dataset(Protocol):
    """A data set by name; calling it gives a split.  It may also satisfy `SupportsTexts`."""

    def __call__(self, split: str) -> Any:
        """A torch Dataset of ``(image, target)`` with ``metadata``: a row per sample, always ``label``.

        Splits are ``"train"`` and ``"test"``.  Columns of words come as class ids, the same in both; their
        ``vocabulary`` has the words, by column.  Texts, such as captions, stand beside the metadata: the
        split's ``texts`` has a string per sample, by column.

        Raises:
            ValueError: For another split.
        """

    def schema(self) -> Mapping[str, ValueType]:
        """The metadata columns and their value types, without reading an image."""


class Evaluator(Protocol):
    """A measurement on frozen features.

    It may also satisfy `SupportsColumns` and `SupportsReadsTowers`.
    """

    def __call__(self, train: Frozen, test: Frozen) -> dict[str, float]:
        """Metrics by name, as ``"linear/top1"``; an `Estimate` has an interval too.

        Raises:
            UndefinedMetric: If the samples do not define a metric.
        """


class ComposedPipeline(Protocol):
    """A composed pipeline, as hooks get it."""

    @property
    def choices(self) -> Mapping[str, Any]:
        """The choice of each kind that a pipeline has once, as ``"objective"``."""

    @property
    def conditions(self) -> Mapping[str, Any]:
        """The choices of its conditions, by name."""

    @property
    def settings(self) -> Any:
        """Its `ccl_plugins.training.FitSettings`."""

    def to_dict(self) -> dict[str, Any]:
        """The record."""


# Optional members of components.  Whoever uses one tests ``isinstance(component, Supports...)``.


@runtime_checkable
class SupportsSetup(Protocol):
    """An objective with parameters or state whose sizes depend on the run."""

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Create them; called once in every run, a resumed one too, before the optimizer exists.

        Args:
            tables: The table of each fitted condition by name, less the samples left out of training;
                empty if there is none.
            sizes: The sizes of the run.
        """


@runtime_checkable
class SupportsProgress(Protocol):
    """An objective with numbers that change over training."""

    def progress(self, step: int, total: int) -> None:
        """Set them for optimizer step ``step`` (from 0) of ``total``; called before each step."""


@runtime_checkable
class SupportsAfterStep(Protocol):
    """An objective with state that each optimizer step changes."""

    def after_step(self) -> None:
        """Change it; called after each optimizer step."""


@runtime_checkable
class SupportsScalars(Protocol):
    """An objective with scheduled or learned numbers to log."""

    def scalars(self) -> Mapping[str, Tensor]:
        """Their present values by name, without gradient."""


@runtime_checkable
class SupportsStatistics(Protocol):
    """An objective that is faster when a queue keeps Gram statistics for it."""

    def statistics(self) -> Mapping[str, Statistic]:
        """The statistics by the name under which they reach ``Queue.grams``."""


@runtime_checkable
class SupportsHierarchies(Protocol):
    """An objective that says whether it reads several class ids per sample."""

    @property
    def hierarchies(self) -> bool:
        """Whether it does."""


@runtime_checkable
class SupportsReadsQueue(Protocol):
    """An objective that says whether it compares anchors with a queue."""

    @property
    def reads_queue(self) -> bool:
        """Whether it does; a method with a queue beside one that does not is a warning."""


@runtime_checkable
class SupportsReadsFeatures(Protocol):
    """An objective that says whether it needs backbone features."""

    @property
    def reads_features(self) -> bool:
        """Whether it does; a call on raw embeddings then needs ``features=``."""


@runtime_checkable
class SupportsCheckRead(Protocol):
    """An objective that is particular about the conditions that it reads."""

    def check_read(self, name: str, condition: Condition) -> None:
        """Refuse a condition of a pipeline, before the general check; called when it is composed.

        Args:
            name: One of the objective's ``conditions``.
            condition: The pipeline's condition of that name.

        Raises:
            ValueError: Saying which one would be right.
        """


@runtime_checkable
class SupportsCompiles(Protocol):
    """An objective that says whether its loss can be compiled."""

    @property
    def compiles(self) -> bool:
        """Whether it can; a run with ``compile`` then compiles the networks alone."""


@runtime_checkable
class StopsGradient(Protocol):
    """An objective whose gradient is, on purpose, not the derivative of its value."""

    @property
    def stops_gradient(self) -> bool:
        """Whether this is so."""


@runtime_checkable
class SupportsReadsEmbeddings(Protocol):
    """A condition that says whether its ``fit`` calls ``embed()``."""

    @property
    def reads_embeddings(self) -> ReadsEmbeddings:
        """Whether it does; all processes then compute the embeddings before the first one fits.

        True for projections; ``"key"`` for the momentum encoder's keys, of a method that is `SupportsKeys`.
        """


@runtime_checkable
class SupportsMissing(Protocol):
    """A condition that says what to do with samples without a value."""

    @property
    def missing(self) -> Missing:
        """The policy; a condition without this member has ``"error"``."""


@runtime_checkable
class SupportsHierarchy(Protocol):
    """A condition that says whether it has several class ids per sample."""

    @property
    def hierarchy(self) -> bool:
        """Whether its values are (N, L) class ids of L levels."""


@runtime_checkable
class SupportsWithinBatch(Protocol):
    """A condition that says whether its values compare samples of one batch alone."""

    @property
    def within_batch(self) -> bool:
        """Whether values of different batches cannot be compared, as in a queue."""


@runtime_checkable
class SupportsTransforms(Protocol):
    """Views that can be made one by one; training then seeds each by itself."""

    @property
    def transforms(self) -> Sequence[Callable[[Any], Tensor]]:
        """For each view the function that makes it from an image."""


@runtime_checkable
class SupportsSource(Protocol):
    """Views of something else than the image: of a sample's text, or of its values in a column."""

    @property
    def source(self) -> str:
        """The column of the split's ``texts``, or else of its ``metadata``, that is given to them."""

    @property
    def value_types(self) -> Sequence[ValueType]:
        """The value types of the column that are accepted; empty: texts."""


@runtime_checkable
class SupportsCheckValues(Protocol):
    """Views with a source that look at the whole column before training."""

    def check_values(self, values: Any) -> None:
        """Refuse values that the views cannot take, and warn of those that lose something.

        Args:
            values: The column of the training split: N strings, or (N,) or (N, c) numbers.

        Raises:
            ValueError: Saying which value is wrong.
        """


@runtime_checkable
class SupportsFingerprint(Protocol):
    """Views that read a file of their own, as one with a tokenizer."""

    def fingerprint(self) -> str:
        """What differs if the file has other contents; a resume with another one is refused."""


@runtime_checkable
class SupportsModalities(Protocol):
    """Views of several modalities of a sample: of its image, its texts, its values in columns.

    They, and their ``transforms``, take a mapping: the image, text or values by modality.
    """

    @property
    def of(self) -> Mapping[str, Views]:
        """The views of each modality by its name; the first is ``"image"``."""

    @property
    def modalities(self) -> Sequence[str]:
        """For each view the name of its modality."""


@runtime_checkable
class SupportsTowers(Protocol):
    """A method with a tower for each modality, whose projections share a space."""

    @property
    def modalities(self) -> Sequence[str]:
        """For each view that ``embed`` takes the name of its modality."""

    @property
    def towers(self) -> Any:
        """The networks of the modalities beside the image, by name."""

    @property
    def heads(self) -> Any:
        """From features to projections, by the modality's name; ``"image"`` for the backbone's."""

    def embed_modality(self, name: str, x: Tensor) -> Tensor:
        """Projections (n, d) of samples (n, ...) of a modality, not normalized."""


@runtime_checkable
class SupportsConditions(Protocol):
    """A method or a kernel that reads conditions by name, as a method that chooses keys by them does."""

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """The conditions that it reads, and the value types it accepts for each.

        A class attribute, or a property where it depends on parameters.
        """


@runtime_checkable
class SupportsBatchCheck(Protocol):
    """A method that does not take every batch size."""

    def check_batch(self, size: int) -> None:
        """Refuse a global batch of ``size`` samples; called before a run begins.

        Raises:
            ValueError: Saying which sizes would do.
        """


@runtime_checkable
class SupportsKeys(Protocol):
    """A method with a momentum encoder."""

    def project_key(self, x: Tensor) -> Tensor:
        """Keys (n, d) of images, without gradient, by this process alone; row i is of image i."""


class LookUp(Protocol):
    """A function from dataset indices to the rows of conditions."""

    def __call__(self, index: Tensor) -> Mapping[str, Tensor]:
        """The rows (k,) or (k, c) of every fitted condition by name, on the device of ``index``.

        Conditions that are computed in every step have no table, and are not among them.

        Args:
            index: (k,) long, from 0 to N - 1, in any order and with repeats.
        """


@runtime_checkable
class SupportsReadConditions(Protocol):
    """A method that keeps condition values of earlier batches, as a queue does."""

    def read_conditions(self, look_up: LookUp) -> None:
        """Read them again from the tables.

        Called before the first batch of every epoch, when tables were refreshed; and before the first
        batch of a run that is resumed in the middle of an epoch, after ``load_state_dict``.  Values
        that are in the state dict are then as the tables have them.

        Args:
            look_up: From dataset indices to the rows of the tables.
        """


@runtime_checkable
class SupportsKeepStatistics(Protocol):
    """A method whose queue keeps Gram statistics."""

    def keep_statistics(self, statistics: Mapping[str, Statistic]) -> None:
        """Keep those; called once, after the objective's ``setup``."""


@runtime_checkable
class SupportsNoWeightDecay(Protocol):
    """A backbone that names parameters without weight decay."""

    def no_weight_decay(self) -> set[str]:
        """Their names."""


@runtime_checkable
class SupportsLayerNumbers(Protocol):
    """A backbone whose learning rate may decay from layer to layer."""

    def layer_numbers(self) -> dict[str, int]:
        """The layer of each parameter by name, 0 nearest to the image."""


@runtime_checkable
class SupportsImageSize(Protocol):
    """A backbone's class that takes images of one size."""

    @staticmethod
    def check_image_size(parameters: Mapping[str, Any], size: int) -> None:
        """Refuse images of another size before the backbone is built; no network is made.

        Args:
            parameters: Of its constructor, all of them.
            size: Height and width of the images that the views make, in pixels.

        Raises:
            ValueError: Saying which size is right.
        """


@runtime_checkable
class SupportsTokens(Protocol):
    """A backbone's class that takes token ids."""

    @staticmethod
    def check_tokens(parameters: Mapping[str, Any], length: int, vocabulary: int) -> None:
        """Refuse tokens that it would not take before the backbone is built; no network is made.

        Args:
            parameters: Of its constructor, all of them.
            length: Tokens of a view.
            vocabulary: Token ids are below this number.

        Raises:
            ValueError: Saying which parameter is right.
        """


@runtime_checkable
class SupportsColumns(Protocol):
    """An evaluator that reads metadata columns; a data set without one of them is refused."""

    @property
    def columns(self) -> Mapping[str, Sequence[ValueType]]:
        """The columns that it reads, and the value types it accepts for each."""


@runtime_checkable
class SupportsReadsTowers(Protocol):
    """An evaluator that says whether it reads ``Frozen.towers``."""

    @property
    def reads_towers(self) -> bool:
        """Whether it does; a pipeline whose method has no text tower is then refused."""


@runtime_checkable
class SupportsTexts(Protocol):
    """A data set whose splits have ``texts``."""

    def texts(self) -> Sequence[str]:
        """The columns of texts, the same in both splits, without reading an image; () for none."""
