"""Views of several modalities in a pipeline: their short form, and what they require of the other parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ccl_plugins.pipeline.requirements import check_image_size
from ccl_plugins.protocols import (
    SupportsReadsTowers,
    SupportsSource,
    SupportsTexts,
    SupportsTokens,
    SupportsTowers,
    Views,
)
from ccl_plugins.views.modalities import IMAGE, by_modality, texts_of


def long_form(views: Any) -> Any:
    """Views as a table with ``use``: ``{image = ..., text = ...}`` is short for views ``modalities``."""
    short = isinstance(views, Mapping) and "use" not in views and views
    return {"use": "modalities", "of": dict(views)} if short else views


def check_modalities(views: Views, method: Any, backbone: Any, dataset: Any) -> None:
    """Check that there is a tower for each modality of the views, and a column for each source.

    Args:
        views: The built views.
        method: The choice.
        backbone: The choice.
        dataset: The built data set.

    Raises:
        ValueError: Saying which part to change.
    """
    if isinstance(views, SupportsSource):
        raise ValueError(
            f"the views {type(views).__name__} read the column {views.source!r} and not the image: give"
            f' views = {{image = "simclr", text = ...}}, a table of modalities'
        )
    found = by_modality(views)
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


def check_reads_texts(evaluators: Iterable[Any], views: Views) -> None:
    """Check that built evaluators that compare images with texts get views of texts.

    Raises:
        ValueError: Naming the evaluator.
    """
    for each in evaluators:
        if isinstance(each, SupportsReadsTowers) and each.reads_towers and texts_of(views) is None:
            raise ValueError(
                f"the evaluator {type(each).__name__} compares images with texts, and the views are of"
                f' {", ".join(by_modality(views))}: give views = {{image = ..., text = "tokens"}}'
            )


def _has_towers(method: Any) -> bool:
    """Whether a choice without a parameter ``towers`` takes several modalities all the same."""
    return "modalities" in method.supplied or isinstance(method.spec.load(), SupportsTowers)


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
            f" give views = {{image = ..., {unseen[0]} = ...}}"
        )


def _check_tokens(tower: Any, views: Any) -> None:
    cls = tower.spec.load()
    given = getattr(views, "length", None), getattr(views, "vocabulary", None)
    takes = isinstance(cls, type) and isinstance(cls, SupportsTokens)
    if takes and all(isinstance(each, int) for each in given):
        cls.check_tokens(tower.params, *given)


def _check_source(name: str, views: Any, dataset: Any) -> None:
    """Check that the data set has the column that views read, with a value type that they accept."""
    if not isinstance(views, SupportsSource):
        return
    source, accepted = views.source, views.value_types
    texts = dataset.texts() if isinstance(dataset, SupportsTexts) else ()
    schema = dataset.schema()
    reads = f"the views of {name!r}, {type(views).__name__}, read"
    if not accepted:
        # A data set of one's own need not say which texts it has.
        if source in schema or (isinstance(dataset, SupportsTexts) and source not in texts):
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
