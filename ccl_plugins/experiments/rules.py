"""Rules: the requirements of a pipeline's parts on each other; a ValueError says what would be right."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch

from ccl_plugins.experiments.components import Components
from ccl_plugins.experiments.configuration import statistics_of
from ccl_plugins.metadata.fitted import pipeline_name, source_of
from ccl_plugins.objectives.base import ContrastiveObjective, refuse_parts
from ccl_plugins.protocols import VALUE_TYPES, Transform, trait
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.transforms.modalities import IMAGE, by_modality, of_image, texts_of

Check = TypeVar("Check", bound=Callable[..., None])

_RULES: dict[Callable[..., None], tuple[str, ...]] = {}
"""Each rule with the names of the parts that it reads, in the order of the checks."""

CHOICES = ("backbone", "method", "sampler")
"""The parts that are choices, because their rules are checked before they are built."""


def rule(check: Check) -> Check:
    """Make a function a rule: it refuses a pipeline by a ValueError, or warns.

    Its parameters name the parts that it reads: those in `CHOICES`, or members of a `Composition`.
    A rule that names ``networks`` is checked after these are built, and gets their `Parts`.
    """
    _RULES[check] = (*inspect.signature(check).parameters,)
    return check


def rules(composition: Components, networks: Parts | None = None) -> Iterator[Callable[[], None]]:
    """The rules of a composition or, if given, of its networks, as independent calls."""

    def part(name: str) -> Any:
        if name == "networks":
            return networks
        return composition.choices[name] if name in CHOICES else getattr(composition, name)

    for check, names in _RULES.items():
        if ("networks" in names) == (networks is not None):
            yield partial(check, **{name: part(name) for name in names})


@rule
def towers_of_modalities(transform: Transform, method: Any, backbone: Any, dataset: Any) -> None:
    """Check that there is a tower for each modality of the transform, and a column for each source."""
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


@rule
def statistics_of_weights(transform: Any, backbone: Any) -> None:
    """Warn if a transform normalizes images unlike the training of a backbone's weights."""
    image: Any = of_image(transform)
    known = statistics_of(backbone)
    if known is None or not all(hasattr(image, name) for name in ("mean", "std")):
        return
    given = [torch.as_tensor(each).flatten().tolist() for each in (image.mean, image.std)]
    if all(map(_close, given, known)):
        return
    (mean, std), (its_mean, its_std) = ([_listed(x) for x in pair] for pair in (given, known))
    warnings.warn(
        f"the weights of the backbone were trained on images with mean {its_mean} and std {its_std}, and"
        f" the views have mean {mean} and std {std}: leave both out of the transform, or give it mean ="
        f" {its_mean}, std = {its_std}",
        stacklevel=5,
    )


def _close(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether numbers are equal to the precision that papers print."""
    return len(a) == len(b) and all(abs(x - y) <= 2e-3 for x, y in zip(a, b, strict=True))


def _listed(numbers: Sequence[float]) -> str:
    return f"[{', '.join(f'{each:.4g}' for each in numbers)}]"


@rule
def texts_for_evaluators(
    built_evaluators: Iterable[Any], method: Any, transform: Transform
) -> None:
    """Check that there are a text tower and texts for evaluators that compare images with texts."""
    for evaluator in built_evaluators:
        if not trait(evaluator, "reads_towers"):
            continue
        reads = f"the evaluator {type(evaluator).__name__} compares images with texts, and"
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


@rule
def refresh_of_conditions(given_conditions: Mapping[str, Any]) -> None:
    """Check that each condition has the method that its ``refresh`` calls for."""
    methods = {"never": "fit", "epoch": "fit", "batch": "__call__"}
    for name, condition in given_conditions.items():
        refresh, kind = condition.refresh, type(condition).__name__
        if refresh not in methods:
            raise ValueError(
                f"the condition {name!r}, {kind}, has refresh {refresh!r};"
                f" it must be {', '.join(map(repr, methods))}"
            )
        if not callable(getattr(condition, methods[refresh], None)):
            raise ValueError(
                f"the condition {name!r}, {kind}, has refresh {refresh!r}, for which it needs a method"
                f" {methods[refresh]}"
            )


@rule
def keys_for_conditions(given_conditions: Mapping[str, Any], method: Any) -> None:
    """Check that the chosen method has the momentum encoder that conditions read."""
    for name, condition in given_conditions.items():
        if trait(condition, "reads_embeddings") == "key" and not _has(method, "project_key"):
            raise ValueError(
                f"the condition {name!r}, {_kind(condition)}, reads keys of a momentum encoder, and"
                f" {method.spec.name} has none: use method moco_v2 or moco_v3, or clusters(of='embedding')"
            )


@rule
def columns_of_monitors(
    built_monitors: Iterable[Any] | None, dataset: Any, built_conditions: Mapping[str, Any]
) -> None:
    """Check that a run can compute what evaluators read while it trains."""
    check_columns(built_monitors or (), dataset, built_conditions)
    for evaluator in built_monitors or ():
        if trait(evaluator, "reads_towers"):
            raise ValueError(
                f"monitor.evaluate: the evaluator {type(evaluator).__name__} compares images with texts,"
                " which is possible only after training: move it to evaluate"
            )


def check_columns(
    evaluators: Iterable[Any], dataset: Any, conditions: Mapping[str, Any] | None = None
) -> None:
    """Check that the data set has the columns that built evaluators read, with the right value types.

    With ``conditions``, values of these may be read by their names too.
    """
    declared = [
        (type(each).__name__, _declared(each, "columns", columns))
        for each in evaluators
        if (columns := trait(each, "columns"))
    ]
    schema = dict(dataset.schema()) if declared else {}
    schema |= {name: each.value_type for name, each in (conditions or {}).items()}
    for name, columns in declared:
        for column, accepted in columns.items():
            if column not in schema:
                raise ValueError(
                    f"the evaluator {name} reads the column {column!r}, and the data set has"
                    f" {', '.join(schema)}"
                )
            if schema[column] not in accepted:
                raise ValueError(
                    f"the evaluator {name} needs a {' or '.join(accepted)} column, and {column!r} is"
                    f" {schema[column]}"
                )


def _declared(reader: Any, member: str, reads: Any) -> Mapping[str, Any]:
    """A declaration of conditions or columns that are read, after a check of its type."""
    well_formed = isinstance(reads, Mapping) and all(
        isinstance(types, tuple | list | set | frozenset)
        and types
        and all(value_type in VALUE_TYPES for value_type in types)
        for types in reads.values()
    )
    if not well_formed:
        raise ValueError(
            f"{type(reader).__name__}.{member} must have value types ({', '.join(VALUE_TYPES)}) by name, as"
            f" {{'color': ('continuous',)}}, not {reads!r}"
        )
    return reads  # type: ignore[no-any-return]


@rule
def views_of_the_objective(objective: Any, transform: Any) -> None:
    """Check that an objective gets as many views as it compares."""
    if transform.count < objective.min_views:
        raise ValueError(
            f"{type(objective).__name__} needs at least {objective.min_views} views, and this transform"
            f" gives {transform.count}: use transform multi with count={objective.min_views}"
        )


@rule
def patches_to_mask(objective: Any, method: Any, backbone: Any, transform: Any) -> None:
    """Check that a method that masks patches has patches to mask and an objective that reads them."""
    name = method.spec.name
    views = trait(method.spec.load(), "masked_views")(method.params)
    if not views:
        if trait(objective, "reads_patches"):
            raise ValueError(
                f"{type(objective).__name__} reads masked patches, and the method {name} masks none: use"
                " method ibot"
            )
        return
    if views > transform.count:
        raise ValueError(
            f"the method {name} masks patches of the first {views} views, and this transform gives"
            f" {transform.count}: give it key_views = {transform.count}"
        )
    sizes = [*trait(transform, "sizes")][:views]
    if len({*sizes}) > 1:
        raise ValueError(
            f"the method {name} masks patches of the first {views} views, which must be of one size, and"
            f" they are of {', '.join(map(str, sizes))} pixels: give it key_views ="
            f" {sizes.count(sizes[0])}"
        )
    cls = backbone.spec.load()
    if isinstance(cls, type):
        check = trait(cls, "check_masked")
        if check is None:
            raise ValueError(
                f"the method {name} masks patches, and the backbone {backbone.spec.name} has none: "
                "take a vision transformer, such as timm's 'vit_small_patch16_224', or the method "
                "dino"
            )
        check(backbone.params)
    if not trait(objective, "reads_patches"):
        warnings.warn(
            f"nothing in this pipeline reads the patches that {name} masks: add the objective ibot in a"
            " mixture, or use method dino",
            stacklevel=5,
        )


@rule
def conditions_of_the_objective(objective: Any, built_conditions: Mapping[str, Any]) -> None:
    """Check that the objective gets the conditions that it reads."""
    _check_read(objective, built_conditions)


@rule
def conditions_of_the_method(reading_method: Any, built_conditions: Mapping[str, Any]) -> None:
    """Check that a method that reads conditions gets them."""
    if reading_method is not None:
        _check_read(reading_method, built_conditions)


def _check_read(reader: Any, conditions: Mapping[str, Any]) -> None:
    name = type(reader).__name__
    declared = _declared(reader, "conditions", reader.conditions)
    for wanted, value_types in declared.items():
        if wanted not in conditions:
            raise ValueError(_missing(reader, wanted, value_types, conditions))
        condition = conditions[wanted]
        trait(reader, "check_read")(wanted, condition)
        value_type, kind = condition.value_type, _kind(condition)
        if value_type not in value_types:
            raise ValueError(
                f"{name} needs a {' or '.join(value_types)} condition, and {wanted!r}, {kind}, is"
                f" {value_type}{_way_out(value_type, value_types)}"
            )
        if trait(condition, "missing") == "ignore":
            _check_ignores(reader, wanted)
        if trait(condition, "hierarchy") and not trait(reader, "hierarchies"):
            raise ValueError(
                f"{name} reads one class id per sample, and {wanted!r}, {kind}, is a hierarchy of several:"
                " give it one level (wordnet(level=...)) or one k (clusters(k=...)), or make a condition"
                " of each"
            )


def _check_ignores(reader: Any, wanted: str) -> None:
    for module in reader.modules():
        reads = hasattr(module, "terms") and wanted in module.conditions
        if reads and not isinstance(module, ContrastiveObjective):
            raise ValueError(
                f"the condition {wanted!r} has missing='ignore', but {type(module).__name__} is "
                "not a subclass of ContrastiveObjective, which leaves such samples out: derive it "
                "from there, or give"
                " the condition missing='own' or 'drop'"
            )


@rule
def queue_that_is_read(objective: Any, method: Any) -> None:
    """Warn if an objective does not compare with the queue of the chosen method."""
    if _has(method, "read_conditions") and not trait(objective, "reads_queue"):
        name = type(objective).__name__
        warnings.warn(
            f"{name} does not compare with a queue, so that of {method.spec.name} has no effect: "
            "use a method without a queue, such as simclr or moco_v3",
            stacklevel=5,
        )


def _has(method: Any, member: str) -> bool:
    """Whether a chosen method has a momentum encoder (``project_key``) or a queue (``read_conditions``).

    Its parameters, such as the size of the queue, may leave these out.
    """
    cls = method.spec.load()
    return bool(trait(cls, member) and trait(cls, "has_queue")(method.params))


@rule
def condition_of_the_sampler(
    sampler: Any, sampler_on: str | None, built_conditions: Mapping[str, Any]
) -> None:
    """Check that a sampler that reads a condition gets one that batches can be drawn by.

    Its static method ``value_types(parameters)`` gives the value types that it accepts.
    """
    on, name = sampler_on, sampler.spec.name
    if on is None:
        return
    if on not in built_conditions:
        present = ", ".join(map(repr, built_conditions))
        raise ValueError(
            f"the sampler {name} reads the condition {on!r}, and the pipeline has "
            + (
                f"{present}: give the sampler on={_nearest(on, list(built_conditions))!r}"
                if present
                else "none"
            )
        )
    condition = built_conditions[on]
    if condition.refresh == "batch":
        raise ValueError(
            f"the sampler {name} reads the condition {on!r}, {_kind(condition)}, which is computed"
            " from embedded batches: batches are drawn by conditions with refresh 'never' or 'epoch'"
        )
    if trait(condition, "missing") == "ignore":
        raise ValueError(
            f"the sampler {name} reads the condition {on!r}, whose missing='ignore' keeps samples without a"
            " value in training: draw batches by a condition with missing='own' or 'drop'"
        )
    value_types = trait(sampler.spec.load(), "value_types")
    accepted = value_types(sampler.params) if value_types else VALUE_TYPES
    if condition.value_type not in accepted:
        raise ValueError(
            f"the sampler {sampler!r} needs a {' or '.join(accepted)} condition, and {on!r},"
            f" {_kind(condition)}, is {condition.value_type}"
            f"{_way_out(condition.value_type, accepted)}"
        )


def read_by_sampler(sampler: Any, conditions: Mapping[str, Any]) -> str | None:
    """The name of the condition that a chosen sampler reads; None: it reads none.

    If the sampler's class takes ``condition``, its parameter ``on`` names the condition; without
    ``on``, it is the only condition, or the one called ``"condition"``.
    """
    if "condition" not in sampler.supplied:
        return None
    only = next(iter(conditions)) if len(conditions) == 1 else "condition"
    return sampler.params.get("on") or only


@rule
def conditions_that_nothing_reads(
    objective: Any,
    reading_method: Any,
    sampler_on: str | None,
    given_conditions: Mapping[str, Any],
    built_conditions: Mapping[str, Any],
) -> None:
    """Warn of conditions that nothing in the pipeline reads."""
    read = {*objective.conditions, *getattr(reading_method, "conditions", ()), sampler_on}
    reached = {pipeline_name(name, each) for name, each in built_conditions.items() if name in read}
    if unread := [name for name in given_conditions if name not in reached]:
        warnings.warn(
            f"nothing in this pipeline reads the condition {', '.join(unread)}", stacklevel=5
        )


@rule
def batches_of_the_method(
    networks: Parts, method: Any, settings: FitSettings, built_conditions: Mapping[str, Any]
) -> None:
    """Check that the method can take batches of this size and compare by these conditions."""
    trait(networks.method, "check_batch")(settings.batch_size)
    if trait(networks.method, "conditions"):
        _check_read(networks.method, built_conditions)
    for name, condition in built_conditions.items():
        if _has(method, "read_conditions") and trait(condition, "within_batch"):
            raise ValueError(
                f"the condition {name!r}, {_kind(condition)}, compares only samples of one batch, "
                f"so {type(networks.method).__name__} cannot compare a queue of earlier"
                " batches by it: use a method without a queue, such as simclr or moco_v3"
            )


@rule
def anchors_in_parts(networks: Parts, settings: FitSettings) -> None:
    """Check that the objective can take some anchors at a time, if ``anchors_at_once`` is set."""
    refuse_parts(networks.objective, settings.anchors_at_once)


def _kind(condition: Any) -> str:
    return type(source_of(condition)).__name__


def _nearest(wanted: str, present: Sequence[str]) -> str:
    """The name that was probably meant: a variable of that name, a similar name, or the first name."""
    variables = [name for name in present if name.endswith(f"/{wanted}")]
    return (variables or difflib.get_close_matches(wanted, present, 1) or present)[0]


def _missing(reader: Any, wanted: str, value_types: Any, present: Mapping[str, Any]) -> str:
    message = (
        f"{type(reader).__name__} reads the condition {wanted!r} ({' or '.join(value_types)}), and the"
        f" pipeline has {', '.join(map(repr, present)) or 'none'}"
    )
    suitable = [name for name, each in present.items() if each.value_type in value_types]
    if suitable and getattr(reader, "on", None) == wanted:
        return f"{message}: give it on={_nearest(wanted, suitable)!r}"
    if present or wanted != "condition":
        wanted_all = ", ".join(f"{name!r}: ..." for name in reader.conditions)
        return f"{message}: give the pipeline conditions={{{wanted_all}}}"
    return f"{message}: give the pipeline condition=..."


def _way_out(value_type: str, value_types: Any) -> str:
    if value_type != "categorical" and "categorical" in value_types:
        return ": make class ids of it with clusters(of=..., k=...)"
    return ""
