"""A transform of several modalities: its short form, and what it requires of the other parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ccl_plugins.protocols import Transform, trait
from ccl_plugins.transforms.modalities import IMAGE, by_modality, texts_of


def long_form(transform: Any) -> Any:
    """A transform as a table with ``use``: ``{image = ..., text = ...}`` is short for ``modalities``."""
    short = isinstance(transform, Mapping) and "use" not in transform and transform
    return {"use": "modalities", "of": dict(transform)} if short else transform


def check_modalities(transform: Transform, method: Any, backbone: Any, dataset: Any) -> None:
    """Check that there is a tower for each modality of the transform, and a column for each source.

    Args:
        transform: The built transform.
        method: The choice.
        backbone: The choice.
        dataset: The built data set.

    Raises:
        ValueError: Saying which part to change.
    """
    if (source := trait(transform, "source")) is not None:
        raise ValueError(
            f"the transform {type(transform).__name__} reads the column {source!r} and not the"
            f' image: give transform = {{image = "simclr", text = ...}}, a table of modalities'
        )
    transforms = by_modality(transform)
    towers = method.params.get("towers") if "modalities" in method.supplied else None
    if towers is not None:
        _check_towers(transforms, towers, method.spec.name)
    # A method without a parameter ``towers`` may take several modalities all the same.
    elif len(transforms) > 1 and not (
        "modalities" in method.supplied or trait(method.spec.load(), "embed_modality")
    ):
        raise ValueError(
            f"the views are of several modalities ({', '.join(transforms)}), and the method"
            f" {method.spec.name} has one network: give method ="
            f' {{use = "dual", towers = {{{[*transforms][1]} = ...}}}}'
        )
    for name, each in transforms.items():
        tower = backbone if name == IMAGE else (towers or {}).get(name)
        if tower is not None:
            _check_tower(tower, each)
        _check_source(name, each, dataset)


def check_towers(evaluators: Iterable[Any], method: Any, transform: Transform) -> None:
    """Check that built evaluators that compare images with texts get a text tower and texts.

    Args:
        evaluators: The evaluators.
        method: The choice.
        transform: The built transform.

    Raises:
        ValueError: Naming the evaluator.
    """
    for each in evaluators:
        reads = f"the evaluator {type(each).__name__} compares images with texts, and"
        if not trait(each, "reads_towers"):
            continue
        if not trait(method.spec.load(), "embed_modality"):
            raise ValueError(
                f'{reads} the method {method.spec.name} has no text tower: give method = {{use = "dual",'
                ' towers = {text = "text_transformer"}}'
            )
        if texts_of(transform) is None:
            raise ValueError(
                f"{reads} the views are of {', '.join(by_modality(transform))}: give"
                ' transform = {image = ..., text = "tokens"}'
            )


def _check_towers(transforms: Mapping[str, Any], towers: Mapping[str, Any], method: str) -> None:
    lacking = [name for name in transforms if name not in (IMAGE, *towers)]
    unseen = [name for name in towers if name not in transforms]
    if lacking:
        raise ValueError(
            f"the views are of {', '.join(transforms)}, and the method {method} has no tower for"
            f" {lacking[0]!r}: give it towers = {{{lacking[0]} = ...}}"
        )
    if unseen:
        raise ValueError(
            f"the method {method} has a tower for {unseen[0]!r}, and the views are of"
            f" {', '.join(transforms)}: give transform = {{image = ..., {unseen[0]} = ...}}"
        )


def _check_tower(tower: Any, transform: Any) -> None:
    """Check that a chosen network takes the channels, sizes and tokens that a transform makes."""
    cls = tower.spec.load()
    if not isinstance(cls, type):
        return
    if (mean := getattr(transform, "mean", None)) is not None:
        trait(cls, "check_channels")(tower.params, len(mean))
    for size in dict.fromkeys(trait(transform, "sizes") or [getattr(transform, "size", None)]):
        if isinstance(size, int):
            trait(cls, "check_image_size")(tower.params, size)
    tokens = getattr(transform, "length", None), getattr(transform, "vocabulary", None)
    if all(isinstance(each, int) for each in tokens):
        trait(cls, "check_tokens")(tower.params, *tokens)


def _check_source(name: str, transform: Any, dataset: Any) -> None:
    """Check that the data set has the column that a transform reads, with a value type that it accepts."""
    source, accepted = trait(transform, "source"), trait(transform, "value_types")
    if source is None:
        return
    texts_of = trait(dataset, "texts")
    texts = texts_of() if texts_of else ()
    schema = dataset.schema()
    reads = f"the transform of {name!r}, {type(transform).__name__}, reads"
    if not accepted:
        # A data set of one's own need not say which texts it has.
        if source in schema or (texts_of and source not in texts):
            known = ", ".join(map(repr, texts)) or "none"
            raise ValueError(
                f"{reads} texts in the column {source!r}, and the texts of the data set are {known}"
            )
    elif source not in schema:
        raise ValueError(
            f"{reads} the column {source!r}, and the data set has {', '.join(map(repr, schema))}"
        )
    elif schema[source] not in accepted:
        raise ValueError(
            f"{reads} a {' or '.join(accepted)} column, and {source!r} is {schema[source]}"
        )
