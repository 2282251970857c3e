"""Views of several modalities of a sample: its image, its texts, its values in columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from ccl_plugins.protocols import Transform, trait

IMAGE = "image"
"""The modality that every sample has, and from which features are computed."""


class Modalities:
    """Views of several modalities of a sample, for a method with a tower for each.

    ``transform = {image = "simclr", text = "tokens"}``, a table without ``use``, is short for
    ``{use = "modalities", of = {image = "simclr", text = "tokens"}}``. Transforms without a source,
    such as those of color channels, take the image.

    Args:
        of: The transform of each modality by its name, always with ``image``, which comes first.

    Attributes:
        count: The views of all modalities together; those of a modality follow each other.
        modalities: For each view the name of its modality.

    Raises:
        ValueError: Without a transform of the image, and for a nested transform of several
            modalities.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "of": {"image": {"use": "simclr", "size": 32}, "text": {"use": "tokens", "length": 6}}
    }

    def __init__(self, of: Mapping[str, Transform]) -> None:
        if IMAGE not in of:
            raise ValueError(
                f'a transform of several modalities needs one of the image, such as {{image = "simclr",'
                f' text = "tokens"}}; given are those of {", ".join(of) or "nothing"}'
            )
        for name, transform in of.items():
            if trait(transform, "modalities"):
                raise ValueError(f"the transform of {name!r} is of several modalities itself")
            if trait(transform, "batch_transforms"):
                raise ValueError(
                    f"the transform of {name!r} draws whole batches, which is not possible with "
                    "several modalities: leave batched out"
                )
        image = of[IMAGE]
        if (source := trait(image, "source")) is not None:
            raise ValueError(
                f"the transform of 'image' reads the column {source!r}: take one of the image, "
                "such as simclr, and give this one another name"
            )
        self.of: Mapping[str, Transform] = {IMAGE: image, **of}
        self.modalities = tuple(name for name, each in self.of.items() for _ in range(each.count))
        self.count = len(self.modalities)
        if all(trait(each, "transforms") for each in self.of.values()):
            self.transforms = [
                partial(_of_one, name, view)
                for name, each in self.of.items()
                for view in trait(each, "transforms")
            ]

    def __call__(self, image: Mapping[str, Any]) -> list[Tensor]:
        """The views of a sample, given by modality: its image, its text, its values."""
        return [view for name, each in self.of.items() for view in each(image[name])]

    def plain(self, image: Any) -> Tensor:
        """The image, or a batch of images, without augmentation."""
        return self.of[IMAGE].plain(image)


def _of_one(name: str, transform: Any, sample: Mapping[str, Any]) -> Tensor:
    view: Tensor = transform(sample[name])
    return view


def by_modality(transform: Any) -> Mapping[str, Transform]:
    """Transforms by modality; a transform of only the image has one modality."""
    return transform.of if trait(transform, "modalities") else {IMAGE: transform}


def of_image(transform: Transform) -> Transform:
    """The transform of the image."""
    return by_modality(transform)[IMAGE]


def modality_of_each(transform: Transform) -> tuple[str, ...]:
    """For each view the name of its modality."""
    return tuple(name for name, each in by_modality(transform).items() for _ in range(each.count))


def sources(transform: Transform) -> dict[str, str | None]:
    """For each modality the column that its transform reads; None: the image."""
    return {name: trait(each, "source") for name, each in by_modality(transform).items()}


def texts_of(transform: Transform) -> tuple[str, Any] | None:
    """The first modality whose transform reads texts, and that transform; None if there is none."""
    for name, each in by_modality(transform).items():
        if trait(each, "source") and not trait(each, "value_types"):
            return name, each
    return None


def column_of(split: Any, source: str) -> Any:
    """The texts, or the values of a metadata column, that a source names.

    Raises:
        ValueError: If the split has none of this name.
    """
    texts, metadata = getattr(split, "texts", {}), split.metadata
    if source not in texts and source not in metadata:
        has = f"texts {', '.join(map(repr, texts))}" if texts else "no texts"
        raise ValueError(
            f"the data set has no column {source!r} for a transform: it has {has}, and the columns"
            f" {', '.join(map(repr, metadata))}"
        )
    return texts[source] if source in texts else metadata[source]
