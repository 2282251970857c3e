"""A transform of several modalities: its short form, and what it requires of the other parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ccl_plugins.experiments.requirements import check_image_size
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
    found = by_modality(transform)
    towers = method.params.get("towers") if "modalities" in method.supplied else None
    if towers is not None:
        _check_towers(found, towers, method.spec.name)
    elif len(found) > 1 and not _has_towers(method):
        raise ValueError(
            f"the views are of several modalities ({', '.join(found)}), and the method {method.spec.name}"
            f' has one network: give method = {{use = "dual", towers = {{{[*found][1]} = ...}}}}'
        )
    for name, each in found.items():
        tower = backbone if name == IMAGE else (towers or {}).get(name)
        if tower is not None:
            check_image_size(tower, each)
            _check_tokens(tower, each)
        _check_source(name, each, dataset)


def check_reads_texts(evaluators: Iterable[Any], transform: Transform) -> None:
    """Check that built evaluators that compare images with texts get a transform of texts.

    Raises:
        ValueError: Naming the evaluator.
    """
    for each in evaluators:
        if trait(each, "reads_towers") and texts_of(transform) is None:
            raise ValueError(
                f"the evaluator {type(each).__name__} compares images with texts, and the views are of"
                f' {", ".join(by_modality(transform))}: give transform = {{image = ..., text = "tokens"}}'
            )


def _has_towers(method: Any) -> bool:
    """Whether a choice without a parameter ``towers`` takes several modalities all the same."""
    return "modalities" in method.supplied or trait(method.spec.load(), "embed_modality")


def _check_towers(found: Mapping[str, Any], towers: Mapping[str, Any], method: str) -> None:
    lacking = [name for name in found if name not in (IMAGE, *towers)]
    unseen = [name for name in towers if name not in found]
    if lacking:
        raise ValueError(
            f"the views are of {', '.join(found)}, and the method {method} has no tower for {lacking[0]!r}:"
            f" give it towers = {{{lacking[0]} = ...}}"
        )
    if unseen:
        raise ValueError(
            f"the method {method} has a tower for {unseen[0]!r}, and the views are of {', '.join(found)}:"
            f" give transform = {{image = ..., {unseen[0]} = ...}}"
        )


def _check_tokens(tower: Any, transform: Any) -> None:
    cls = tower.spec.load()
    given = getattr(transform, "length", None), getattr(transform, "vocabulary", None)
    if isinstance(cls, type) and all(isinstance(each, int) for each in given):
        trait(cls, "check_tokens")(tower.params, *given)


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
