"""Views of several modalities of a sample: its image, its texts, its values in columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from ccl_plugins.protocols import SupportsModalities, SupportsSource, SupportsTransforms, Views

IMAGE = "image"
"""The name of the modality that every sample has, of which features are computed."""


class Modalities:
    """Views of several modalities of a sample, for a method with a tower for each.

    ``views = {image = "simclr", text = "tokens"}``, a table without ``use``, is short for
    ``{use = "modalities", of = {image = "simclr", text = "tokens"}}``.  Views without a source, as those of
    color channels, are made of the image.

    Args:
        of: The views of each modality by its name, always with ``image``, which comes first.

    Attributes:
        count: The views of all modalities together; those of a modality follow each other.
        modalities: For each view the name of its modality.

    Raises:
        ValueError: Without views of the image, and for views of several modalities in one.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "of": {"image": {"use": "simclr", "size": 32}, "text": {"use": "tokens", "length": 6}}
    }

    def __init__(self, of: Mapping[str, Views]) -> None:
        if IMAGE not in of:
            raise ValueError(
                f'views of several modalities need those of the image, as {{image = "simclr", text ='
                f' "tokens"}}; there are views of {", ".join(of) or "nothing"}'
            )
        for name, views in of.items():
            if isinstance(views, SupportsModalities):
                raise ValueError(f"the views of {name!r} are of several modalities themselves")
        image = of[IMAGE]
        if isinstance(image, SupportsSource):
            raise ValueError(
                f"the views of 'image' read the column {image.source!r}: take views of the image, as"
                " simclr, and give these another name"
            )
        self.of: Mapping[str, Views] = {IMAGE: image, **of}
        self.modalities = tuple(name for name, views in self.of.items() for _ in range(views.count))
        self.count = len(self.modalities)
        if all(isinstance(views, SupportsTransforms) for views in self.of.values()):
            self.transforms = [
                partial(_of_one, name, transform)
                for name, views in self.of.items()
                for transform in views.transforms  # type: ignore[attr-defined]
            ]

    def __call__(self, image: Mapping[str, Any]) -> list[Tensor]:
        """The views of a sample, given by modality: its image, its text, its values."""
        return [view for name, views in self.of.items() for view in views(image[name])]

    def plain(self, image: Any) -> Tensor:
        """The image, or a batch of images, without augmentation."""
        return self.of[IMAGE].plain(image)


def _of_one(name: str, transform: Any, sample: Mapping[str, Any]) -> Tensor:
    view: Tensor = transform(sample[name])
    return view


def by_modality(views: Views) -> Mapping[str, Views]:
    """Views by modality; views of the image alone are of one modality."""
    return views.of if isinstance(views, SupportsModalities) else {IMAGE: views}


def of_image(views: Views) -> Views:
    """The views of the image."""
    return by_modality(views)[IMAGE]


def modality_of_each(views: Views) -> tuple[str, ...]:
    """For each view the name of its modality."""
    return tuple(name for name, each in by_modality(views).items() for _ in range(each.count))


def sources(views: Views) -> dict[str, str | None]:
    """For each modality the column that its views read; None: the image."""
    return {
        name: each.source if isinstance(each, SupportsSource) else None
        for name, each in by_modality(views).items()
    }


def texts_of(views: Views) -> tuple[str, Any] | None:
    """The first modality whose views read texts, and those views; None if there is none."""
    for name, each in by_modality(views).items():
        if isinstance(each, SupportsSource) and not each.value_types:
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
            f"the data set has no column {source!r} for views: it has {has}, and the columns"
            f" {', '.join(map(repr, metadata))}"
        )
    return texts[source] if source in texts else metadata[source]
