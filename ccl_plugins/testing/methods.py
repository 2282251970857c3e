"""The laws of methods."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias
from unittest import SkipTest

import torch
from lightly.utils import dist
from torch import Tensor, nn
from torch.nn.functional import normalize

from ccl_plugins.kinds import registry
from ccl_plugins.numerics.gram import Statistic
from ccl_plugins.pairs import Pairs, Queue
from ccl_plugins.protocols import trait
from ccl_plugins.testing.assertions import (
    all_equal,
    require,
    require_equal,
    require_gradients,
    require_identical,
    require_independent_rows,
    require_no_seeding,
    require_same_on_two_ranks,
    require_unchanged,
)
from ccl_plugins.testing.inputs import (
    SHAPE,
    normal,
    seeded,
    supplied_for,
)
from ccl_plugins.testing.method_batches import (
    DRAWN,
    OF_TYPE,
    UNEVEN,
    VIEWS,
    N,
    begin_epoch,
    conditions_of,
    copied,
    embed,
    enqueue,
    loss_of,
    masks_of,
    of_images,
    pairs_of,
    pairs_of_embedded,
    samples_of,
    train_step,
    views_of,
    with_partners,
)
from ccl_plugins.testing.subject import Subject


@torch.no_grad()
def change(parameters: Iterable[Tensor]) -> None:
    """Add small random numbers to weights, so that networks differ from their copies."""
    for number, parameter in enumerate(parameters):
        parameter += normal(*parameter.shape, seed=number, dtype=parameter.dtype) / 4


def trained(method: Any) -> list[Tensor]:
    """The weights that are trained."""
    return [p for p in method.parameters() if p.requires_grad]


def observe(subject: Subject, method: Any) -> Any:
    """Features and projections in evaluation mode."""
    method = method.eval()
    with torch.no_grad():
        views = views_of(method)
        return method.encode(views[0]), method.project(views[0]), method.embed(views).projections


def check_keeps_its_backbone(subject: Subject) -> None:
    """The attribute ``backbone`` must be the supplied network, unchanged, and ``encode`` must call it.

    Probes and exports use it alone after training, and pretrained weights must survive.  A method that
    keeps its teacher, a momentum encoder, may let ``encode`` call the teacher's copy of the network, or let
    ``backbone`` be this copy.
    """
    with seeded():
        backbone = supplied_for(subject.choice)["backbone"]
    with require_unchanged(backbone.state_dict, "the weights of the network that is supplied"):
        method = subject.build(backbone=backbone)
    teachers = [each for each in encoders_of(method) if not trained(each)]
    kept = {
        id(p) for p in (method if method.backbone in teachers else method.backbone).parameters()
    }
    lost = [name for name, p in backbone.named_parameters() if id(p) not in kept]
    report = f"the attribute `backbone` lacks the weights {', '.join(lost)} of the supplied network"
    require(not lost, report)
    method.eval()
    change(method.parameters())
    with torch.no_grad():
        x = of_images(method, views_of(method))[0]
        features = method.encode(x)
        if not any(close(features, teacher(x)) for teacher in teachers):
            require_equal(features, method.backbone(x), "encode(x), compared with backbone(x)")


def encoders_of(method: Any) -> list[nn.Module]:
    """The attribute ``backbone``, and the networks that begin as copies of it."""
    backbone = method.backbone
    weights = list(backbone.state_dict().values())
    return [
        each
        for each in dict.fromkeys([backbone, *method.modules()])
        if type(each) is type(backbone) and all_equal(list(each.state_dict().values()), weights)
    ]


def students_of(method: Any) -> list[nn.Module]:
    """The attribute ``backbone`` if it is trained; if it is a teacher, the student."""
    return [each for each in encoders_of(method) if trained(each)]


def close(x: Tensor, y: Tensor) -> bool:
    """Whether numbers are equal but for rounding, which depends on the batch of a row."""
    return torch.allclose(x, y, rtol=1e-4, atol=1e-5)


def check_features_are_of_the_backbone(subject: Subject) -> None:
    """The features of ``embed`` must come from a network that is trained, and differ between views.

    The network is ``backbone``, or the student if ``backbone`` is a teacher.  The features carry a
    gradient, for objectives with layers of their own.
    """
    method, made = subject.build().eval(), list[Tensor]()
    students = students_of(method)
    require(bool(students), "the attribute `backbone` has no weights that are trained")
    for student in students:
        student.forward = _keeping(student.forward, made)  # sees direct calls of `forward`, too
    features = embed(method, views_of(method)).features
    rows, given = features.detach().flatten(0, -2), torch.cat(made)
    lost = ((rows[:, None] - given).abs().amax(2).amin(1) > 1e-4).sum()
    require(not lost, f"{int(lost)} of {len(rows)} rows of features are not what the network gave")
    require(
        features.requires_grad, "features carry no gradient, which objectives that read them need"
    )
    same = [i for i in range(1, len(features)) if torch.allclose(features[i], features[0])]
    require(not same, f"the features in row 0 are those in row {', '.join(map(str, same))} too")


def _keeping(forward: Callable[..., Any], made: list[Tensor]) -> Callable[..., Any]:
    """A forward pass that keeps copies of the features that it gives."""

    def kept(*args: Any, **kwargs: Any) -> Any:
        given = forward(*args, **kwargs)
        features = given[0] if isinstance(given, tuple) else given  # a tuple has those of patches
        made.append(features.detach().clone())
        return given

    return kept


def check_embeds_views(subject: Subject) -> None:
    """``embed(views)`` must give features (u, n, f), projections (u, n, d), and keys (v, n, d) or None.

    u and v are numbers of views, and f and d the widths of ``encode`` and ``project``.
    """
    method = subject.build()
    views = views_of(method)
    embedded = method.embed(views)
    f, d = method.encode(views[0]).shape[1], method.project(views[0]).shape[1]
    widths = {"features": f, "projections": d, "keys": d}
    parts = vars(embedded).items()
    shapes = {name: tuple(part.shape) for name, part in parts if isinstance(part, Tensor)}
    right = all(
        len(shape) == 3 and 1 <= shape[0] <= len(views) and shape[1:] == (N, widths[name])
        for name, shape in shapes.items()
    )
    report = f"for {len(views)} views of {N} images, with f = {f} and d = {d}, it has {shapes}"
    require(right and {*shapes} >= {"features", "projections"}, report)


def check_embedding_and_pairing_change_nothing(subject: Subject) -> None:
    """``embed`` and ``pairs`` must change nothing but batch norm's statistics, and give the same again.

    Both are also called for conditions and measurements; ``enqueue`` and ``after_step`` come once in a
    step.  Pairs must be of the given embeddings, whatever was embedded since.
    """
    method = subject.build().train()
    batch_norms = [m for m in method.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    own = {id(buffer) for each in batch_norms for buffer in each.buffers()}

    def weights() -> list[Tensor]:
        kept = [x for x in method.buffers() if id(x) not in own]
        return [x.detach() for x in (*method.parameters(), *kept)]

    def embeddings() -> list[Tensor]:
        with seeded(), torch.no_grad():
            embedded = method.embed(views_of(method))
        return [x for x in (embedded.projections, embedded.keys) if x is not None]

    pairs_of(method, views_of(method))  # a queue has its buffers from the first pairs on
    expected = embeddings()
    with require_unchanged(weights):
        pairs_of(method, views_of(method))
    require_equal(embeddings(), expected, "the same views, embedded again")
    method.eval()
    with torch.no_grad():
        embedded = embed(method, views_of(method)).normalized()
        first = pairs_of_embedded(method, embedded)
        embed(method, views_of(method, 1))
        again = pairs_of_embedded(method, embedded)
    for name in ("anchors", "keys"):
        where = f"pairs(embedded, samples).{name}, once other views were embedded"
        require_equal(getattr(again, name), getattr(first, name), where)


def check_projects_as_it_embeds(subject: Subject) -> None:
    """``project(x)`` must give the directions of the projections, or of the keys, that ``embed`` gives.

    A method with a predictor may give what comes before the predictor, as its keys are.
    """
    method = subject.build().eval()
    views = views_of(method)
    with torch.no_grad():
        embedded = method.embed(views).normalized()
        directions = normalize(method.project(views[0]), dim=1)
    # A momentum encoder begins as a copy of the one that is trained.
    parts = [embedded.projections, *([] if embedded.keys is None else [embedded.keys])]
    same = any(close(part[0], directions) for part in parts)
    require(same, "project(x) has other directions than embed((x, y))")
    sources = [trained(method), list(copies_of_trained(method).values())]
    moved = [_changes(lambda: method.project(views[0]), some) for some in sources]
    report = "project(x) mixes weights that are trained with frozen copies of trained ones"
    require(moved != [True, True], report)
    if embed_modality := trait(method, "embed_modality"):
        for number, (name, view) in enumerate(zip(method.modalities, views, strict=True)):
            with torch.no_grad():
                given = embed_modality(name, view)
            unit = close(given.norm(dim=1), torch.ones(len(given)))
            require(
                not unit, f"embed_modality({name!r}, x) is normalized: raw objectives need lengths"
            )
            directions = normalize(given, dim=1)
            where = f"embed_modality({name!r}, x), compared with row {number} of embed(views)"
            require_equal(directions, embedded.projections[number], where, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def _changes(compute: Callable[[], Tensor], weights: list[Tensor]) -> bool:
    """Whether a result depends on weights, which are restored."""
    before, held = compute(), [p.clone() for p in weights]
    change(weights)
    after = compute()
    for parameter, value in zip(weights, held, strict=True):
        parameter.copy_(value)
    return not close(after, before)


def check_a_momentum_encoder_moves_once_in_a_step(subject: Subject) -> None:
    """``after_step`` must move each frozen copy to its trained weight by ``1 - momentum`` of the way.

    Without the trait ``momentum``, it must move each copy by at most three quarters of the way: a method
    whose copies move further must declare its momentum.  A teacher that never moves must be in evaluation
    mode, whatever the method's mode.  In the first step, a copy must move, and may move all of its way.
    """
    if not has_momentum_encoder(subject):
        raise SkipTest(NO_MOMENTUM)
    method = subject.build()
    declared, copies = trait(method, "momentum"), copies_of_trained(method)
    narrow = {name: p.dtype for name, p in copies.items() if p.dtype.itemsize < 4}
    require(not narrow, f"frozen copies lose small changes: {narrow}")
    params = subject.choice.params.items()
    higher = [(n, (1 + x) / 2) for n, x in params if type(x) is float and x == declared]
    for each in (subject, *(with_parameter(subject, *parameter) for parameter in higher)):
        method = each.build().train()
        momentum, moves = trait(method, "momentum"), moved(method, LATE, 10**6)
        # Some frozen weights, such as fixed position embeddings, are copies of no trained weight.
        moves = {n: x for n, x in moves.items() if n in copies or (x and momentum is not None)}
        least, most = 0.0, 0.75
        if momentum is None:
            paths = {name.rpartition(".")[0] for name in copies}
            if not any((*moves.values(), *(method.get_submodule(p).training for p in paths))):
                raise SkipTest("its teacher stays as it is, and in evaluation mode")
        else:
            require(0 <= momentum < 1, f"its momentum is {momentum}, and must be from 0 to below 1")
            least, most = 0.75 * (1 - momentum), 1.25 * (1 - momentum)
        right = bool(moves) and all(x > 0 and least <= x <= most for x in moves.values())
        report = f"with the momentum {momentum} frozen weights moved by {moves} of their way"
        require(right, report)
    for step, total in ((0, 10**6), (5, 10), (9, 10)):
        moves = moved(subject.build().train(), step, total)
        moves = {name: move for name, move in moves.items() if name in copies}
        right = all((move > 0 or step > 0) and 0 <= move <= 1 for move in moves.values())
        report = f"after_step({step}, {total}) moved frozen copies by {moves} of their way"
        require(right, report)


LATE = 10**5 + 1
"""A step at which a momentum that rises in the first steps has its value, and has not yet risen to 1."""


def with_parameter(subject: Subject, name: str, value: Any) -> Subject:
    """A component with another value of one parameter."""
    params = {**subject.choice.params, name: value}
    return subject.chosen_as(registry().choose(subject.kind, subject.spec.id, **params))


NO_MOMENTUM = "it has no trait `momentum`, and no keys of a frozen copy of trained weights"


def has_momentum_encoder(subject: Subject) -> bool:
    """Whether a method declares a momentum, or makes keys by frozen copies of weights that are trained."""
    method = subject.build().eval()
    copies = list(copies_of_trained(method).values())

    def keys() -> Tensor:
        return torch.cat([torch.zeros(1), *(each.flatten() for each in keys_of(method).values())])

    return trait(method, "momentum") is not None or _changes(keys, copies)


@torch.no_grad()
def keys_of(method: Any) -> dict[str, Tensor]:
    """The keys of views, if there are any, and those that a method gives for conditions, on the sphere."""
    views = views_of(method)
    with seeded():
        keys, made = method.embed(views).normalized().keys, dict[str, Tensor]()
        if keys is not None:
            made["embed(views).keys"] = keys
        if project_key := trait(method, "project_key"):
            made["project_key(x)"] = normalize(project_key(of_images(method, views)[0]), dim=1)
    return made


def copies_of_trained(method: Any) -> dict[str, Tensor]:
    """By name, frozen weights that begin equal to a trained weight, unless all their numbers are equal."""
    drawn = {name: p for name, p in method.named_parameters() if p.numel() > 1 and p.std() > 0}
    learned = [p for p in drawn.values() if p.requires_grad]
    frozen = {name: p for name, p in drawn.items() if not p.requires_grad}
    return {n: p for n, p in frozen.items() if any(torch.equal(p, q.to(p)) for q in learned)}


@torch.no_grad()
def moved(method: Any, step: int, total: int) -> dict[str, float]:
    """By name, how far each frozen weight moves in a step before which all trained weights grow by 1."""
    frozen = {
        name: (p, p.detach().clone())
        for name, p in method.named_parameters()
        if not p.requires_grad and p.is_floating_point()
    }
    for parameter in trained(method):
        parameter += 1.0
    method.after_step(step, total)
    moves = {name: p - before for name, (p, before) in frozen.items()}
    return {name: float(move.flatten()[move.abs().argmax()]) for name, move in moves.items()}


@torch.no_grad()
def check_keys_are_of_the_momentum_encoder(subject: Subject) -> None:
    """Keys, and what ``project_key`` gives, must depend on no weight that is trained.

    This is for methods with the trait ``momentum``, or with keys of a frozen copy of trained weights.
    """
    if not has_momentum_encoder(subject):
        raise SkipTest(NO_MOMENTUM)
    method = subject.build().eval()
    before = keys_of(method)
    change(trained(method))
    for name, after in keys_of(method).items():
        require_equal(after, before[name], f"{name}, once the weights that are trained are others")


def check_evaluation_looks_at_each_image_alone(subject: Subject) -> None:
    """In evaluation mode, ``encode`` and ``project`` must not depend on the rest of the batch.

    Nor must ``project_key``, if the method has it.
    """
    method = subject.build().eval()
    for function in _of_images_alone(method):
        require_independent_rows(function, views_of(method)[0])


def _of_images_alone(method: Any) -> list[Callable[[Tensor], Tensor]]:
    """The functions of images that each process calls by itself."""
    keys = [key] if (key := trait(method, "project_key")) else []
    return [method.encode, method.project, *keys]


def check_own_keys_are_at_own_positions(subject: Subject) -> None:
    """The own key, index and condition of anchor sample i must be at position ``offset + i``.

    At least one anchor view must have keys of another view.
    """
    method = subject.build().eval()
    drawn, order = torch.tensor(DRAWN), torch.tensor([1, 0, 2, 4, 3, 7, 5, 6])
    with torch.no_grad():
        pairs = pairs_of(method, views_of(method))
        moved = pairs_of(method, [view[order] for view in views_of(method)])
    require(pairs.anchors.shape[1] == N, f"{N} images gave {pairs.anchors.shape[1]} anchors")
    samples = pairs.samples
    if samples.index is None or pairs.keys.shape[1] < N:
        raise AssertionError("keys or indices are missing")
    require_equal(samples.index[pairs.rows], drawn, "index")
    for name, rows in conditions_of(drawn, reader=method).items():
        require_equal(samples.condition[name][pairs.rows], rows, f"the condition {name!r}")
    require_equal(moved.anchors, pairs.anchors[:, order], "anchors of images in another order")
    own_keys = pairs.keys[:, pairs.rows]
    require_equal(moved.keys[:, moved.rows], own_keys[:, order], "keys of images in another order")
    report = f"the anchor views are {pairs.anchor_views}, the key views {pairs.key_views}"
    require(any(pairs.cross()), report)


def check_pairs_carry_what_is_known_of_samples(subject: Subject) -> None:
    """Pairs must carry all that is known of samples: features, extras, partners, and what may be missing.

    Build new samples by ``dataclasses.replace(samples, ...)``, or hand on the given ones.
    """
    method = subject.build().eval()
    with torch.no_grad():
        embedded = embed(method, views_of(method)).normalized()
        samples = samples_of(method, embedded)
        extras = {"centroids": normal(3, 5)}
        given = replace(with_partners(method, samples), extras=extras, ignored=("height",))
        held = method.pairs(embedded, given)
    for name in ("features", "extras", "ignored", "patches", "partner", "partner_condition"):
        value, expected = getattr(held.samples, name), getattr(given, name)
        if expected is not None:
            require(value is not None, f"pairs(...).samples.{name} is None")
        if name == "ignored":
            require("height" in value, f"pairs(...).samples.ignored is {value}, without 'height'")
        elif name != "patches":
            require_equal(value, expected, f"pairs(...).samples.{name}")


def check_every_view_reaches_the_pairs(subject: Subject) -> None:
    """Every view that ``embed`` takes must be an anchor, or a key of another view's anchor.

    The law gives two views, and then three; a method that takes only two must refuse more by a ValueError.
    """
    for count, compared in views_compared(subject):
        reached = set[int]().union(*(anchor | key for anchor, key in compared.values()))
        lost = sorted({*range(len(views_of(subject.build(), count=count)))} - reached)
        report = f"other images in {lost} change no anchor and no key in cross()"
        require(not lost, f"with {count} views, {report}")


def check_keys_are_of_other_views(subject: Subject) -> None:
    """A key that is compared with an anchor must not be of the anchor's own view.

    ``anchor_views`` and ``key_views`` say which views are compared; what they name must be true.
    """
    for count, compared in views_compared(subject):
        own = [
            f"key {j} and anchor {i} are both made of view {', '.join(map(str, sorted(key)))}"
            for (i, j), (anchor, key) in compared.items()
            if key and key <= anchor
        ]
        require(not own, f"with {count} views, in cross(), {'; '.join(own)}")


Sources: TypeAlias = set[int]
"""The numbers of the views that embeddings are made of."""


def views_compared(
    subject: Subject,
) -> Iterator[tuple[int, dict[tuple[int, int], tuple[Sources, Sources]]]]:
    """For two and for three views, which views are compared; without a number that the method refuses."""
    for count in (VIEWS, VIEWS + 1):
        try:
            yield count, compared_views(subject.build().eval(), count)
        except ValueError:
            if count == VIEWS:
                raise


@torch.no_grad()
def compared_views(method: Any, count: int) -> dict[tuple[int, int], tuple[Sources, Sources]]:
    """By position in ``cross()``, the views of which anchor and key are made: those that change them.

    The method is in evaluation mode, where no batch statistics mix views.
    """

    def pairs_of_views(views: list[Tensor]) -> Pairs:
        with seeded():
            embedded = method.embed([view.clone() for view in views])
            return pairs_of_embedded(method, embedded.normalized())

    views = views_of(method, count=count)
    pairs = pairs_of_views(views)
    of_anchors: list[Sources] = [set() for _ in pairs.anchors]
    of_keys: list[Sources] = [set() for _ in pairs.keys]
    # Several other images: keys may be the nearest of a queue, and two images may have the same.
    for number, seed in itertools.product(range(len(views)), (1, 2, 3)):
        changed = [*views]
        changed[number] = views_of(method, seed, count)[number]
        after = pairs_of_views(changed)
        for sources, x, y in (
            *zip(of_anchors, after.anchors, pairs.anchors, strict=True),
            *zip(of_keys, after.keys, pairs.keys, strict=True),
        ):
            if not close(x, y):
                sources.add(number)
    return {(i, j): (of_anchors[i], of_keys[j]) for i, j in pairs.cross()}


def check_calls_leave_the_mode_as_it_was(subject: Subject) -> None:
    """Each call must leave the mode (train, eval) of every module as it was.

    ``encode`` and ``project`` are called in the middle of training too, for conditions and monitors.
    """
    for training, gradient in itertools.product((True, False), repeat=2):
        method = subject.build().train(training)
        for name, call in _calls(method).items():
            before = {path: module.training for path, module in method.named_modules()}
            with torch.set_grad_enabled(gradient):
                call()
            changed = [
                f"{path or 'the method'} is in {'train' if module.training else 'eval'} mode"
                for path, module in method.named_modules()
                if module.training != before.get(path, module.training)
            ]
            report = (
                f"after {name} in {'train' if training else 'eval'} mode {', '.join(changed[:3])}"
            )
            require(not changed, report)


def _calls(method: Any, views: list[Tensor] | None = None) -> dict[str, Callable[[], Any]]:
    """The calls that a run makes of a method, in the order of a step, by their text."""
    views, made = views or views_of(method), dict[str, Pairs]()
    calls: dict[str, Callable[[], Any]] = {
        "encode(x)": lambda: method.encode(views[0]),
        "project(x)": lambda: method.project(views[0]),
        "embed(views)": lambda: method.embed(views),
        "embed(views) and pairs(...)": lambda: made.update(of=pairs_of(method, views)),
        "enqueue(pairs)": lambda: method.enqueue(made["of"]),
        "after_step(0, 10)": lambda: method.after_step(0, 10),
        "read_conditions(...)": lambda: begin_epoch(method, 1),
    }
    if project_key := trait(method, "project_key"):
        calls["project_key(x)"] = lambda: project_key(views[0])
    if embed_modality := trait(method, "embed_modality"):
        for name, view in zip(method.modalities, views, strict=True):
            calls[f"embed_modality({name!r}, x)"] = functools.partial(embed_modality, name, view)
    return calls


def check_calls_leave_what_is_not_theirs(subject: Subject) -> None:
    """No call must change what it is given, seed a global generator, or switch torch's settings."""
    torch.set_grad_enabled(True)  # an earlier law may have let a method switch it off
    method = subject.build().train()
    views = views_of(method)
    for name, call in _calls(method, views).items():
        was = torch.is_grad_enabled(), torch.get_default_dtype()
        try:
            with require_unchanged(lambda: views, f"views after {name}"):
                require_no_seeding(call)
            now = torch.is_grad_enabled(), torch.get_default_dtype()
        finally:
            torch.set_grad_enabled(was[0])
            torch.set_default_dtype(was[1])
        report = f"after {name} torch computes gradients: {now[0]}, by default in {now[1]}"
        require(now == was, report)
    embedded = embed(method, views).normalized()
    samples = samples_of(method, embedded)

    def tensors() -> dict[str, Any]:
        given = {**vars(embedded), "index": samples.index, **samples.condition}
        return {name: x.detach() for name, x in given.items() if isinstance(x, Tensor)}

    with require_unchanged(tensors, "after pairs(embedded, samples)"):
        pairs = method.pairs(embedded, samples)
    with require_unchanged(tensors, "after enqueue(pairs)"):
        enqueue(method, pairs)


def check_gradient_reaches_every_weight(subject: Subject) -> None:
    """Every weight of backbone and heads must have a gradient, or be frozen as in a momentum encoder.

    The gradient of each anchor view must reach ``backbone``, unless modalities have networks of their own.
    """
    method = subject.build().train()
    pairs = pairs_of(method, views_of(method))
    loss_of(pairs).backward()
    require_gradients(method)
    weights = [p for student in students_of(method) for p in trained(student)]
    reached = any(bool(p.grad.any()) for p in weights if p.grad is not None)
    require(reached, "the gradient of all weights of the attribute `backbone` is 0")
    if trait(method, "embed_modality"):
        return
    anchors = pairs_of(method, views_of(method)).anchors
    for i, view in enumerate(anchors):
        value = (view * normal(*view.shape)).sum()
        found = torch.autograd.grad(value, weights, retain_graph=True, allow_unused=True)
        report = f"no gradient of anchor view {i} reaches the attribute `backbone`"
        require(any(g is not None and bool(g.any()) for g in found), report)


def check_keys_carry_no_gradient(subject: Subject) -> None:
    """Keys must carry no gradient: ``Embedded.keys``, those of pairs and queue, and of ``project_key``.

    The keys of pairs that are ``shared`` are the anchors of all processes, with their gradient.
    """
    for training in (True, False):
        method = subject.build().train(training)
        views = views_of(method)
        embedded, pairs = embed(method, views), pairs_of(method, views)
        keys = {"embed(views).keys": embedded.keys}
        if embedded.patches is not None:
            keys["embed(views, masks).patches.teacher"] = embedded.patches.teacher
        if pairs.queue is not None:
            keys["pairs(...).queue.keys"] = pairs.queue.keys
        if project_key := trait(method, "project_key"):
            keys["project_key(x)"] = project_key(views[0])
        if pairs.shared:
            require_equal(pairs.keys[:, pairs.rows], pairs.anchors, "keys of pairs that are shared")
            require(pairs.keys.requires_grad, "pairs(...) are shared, and keys have no gradient")
        else:
            keys["pairs(...).keys"] = pairs.keys
        learned = [name for name, key in keys.items() if key is not None and key.requires_grad]
        report = f"in {'train' if training else 'eval'} mode {', '.join(learned)} carry a gradient"
        require(not learned, report)


def has_queue(subject: Subject, method: Any) -> bool:
    """Whether a method declares a queue for these parameters."""
    parameters = subject.choice.params
    return bool(trait(method, "read_conditions")) and bool(trait(method, "has_queue")(parameters))


@torch.no_grad()
def check_what_is_enqueued_are_keys(subject: Subject) -> None:
    """``enqueue(pairs)`` must put keys of the pairs into the queue, each once, for the next pairs.

    A method may read the queue itself, such as for the nearest keys: then the next pairs must change.
    """
    method, wrong = subject.build().eval(), list[str]()
    if not has_queue(subject, method):
        queue = pairs_of(method, views_of(method)).queue
        require(
            queue is None, "its pairs have a queue, which `read_conditions` or `has_queue` denies"
        )
        raise SkipTest("it has no queue, by its traits `read_conditions` and `has_queue`")
    for parameter in (name for name in subject.choice.params if "queue" in name):
        with contextlib.suppress(Exception):  # many parameters refuse 0
            without = with_parameter(subject, parameter, 0)
            other = without.build().eval()
            if pairs_of(other, views_of(other)).queue is None and has_queue(without, other):
                wrong.append(parameter)
    require(not wrong, f"with {wrong}=0 its pairs have no queue, which `has_queue` does not say")
    change(trained(method))  # so that keys are no queries
    views, keys_of = views_of(method), list[Tensor]()
    first = pairs_of(method, views)
    begun = None if first.queue is None else copied(first.queue)
    if begun is not None:
        empty = begun.valid & ~begun.of_view(0).any(1)
        require(not empty.any(), f"{int(empty.sum())} entries that are valid from the start are 0")
    for number in range(1, 11):  # enough to fill an example's queue, which ends within a batch
        batch = pairs_of(method, [v[:UNEVEN] for v in views_of(method, number)], number * N)
        keys_of.append(batch.keys)
        enqueue(method, batch)
    after = pairs_of(method, views)
    if begun is None or after.queue is None:
        same = torch.equal(after.keys, first.keys) and torch.equal(after.anchors, first.anchors)
        require(not same, "the pairs have no queue, and after 10 batches the same keys as before")
        return
    holds_two = len(after.queue.valid) >= 2 * keys_of[0].shape[0] * UNEVEN
    for i in range(len(after.anchors)):
        keys, of_begin = after.queue.of_view(i)[after.queue.valid], begun.of_view(i)[begun.valid]
        found = [_alike(keys, each.flatten(0, 1)) for each in keys_of]
        other = keys[~torch.cat([*found, _alike(keys, of_begin)], 1).any(1)]
        require(
            len(other) == 0, f"{len(other)} of {len(keys)} entries are no keys, such as {other[:1]}"
        )
        for times in found[-2:] if holds_two else found[-1:]:
            lost = ~times.any(0).view(-1, UNEVEN).any(0)
            report = f"after enqueue(pairs) {int(lost.sum())} of {UNEVEN} samples have no key in it"
            require(not lost.any(), report)
            most = int(times.sum(0).max())
            require(most == 1, f"a key of the pairs is {most} times in the queue")


def _alike(x: Tensor, y: Tensor) -> Tensor:
    """(n, m) True where rows are equal but for the rounding of half precision."""
    return torch.cdist(x.float(), y.to(x).float()) < 0.02


def check_takes_the_batches_that_it_checks(subject: Subject) -> None:
    """A batch of a size that ``check_batch`` lets pass must go through embed, pairs and enqueue."""
    for copies in (3, 9, 33):
        method = subject.build().train()
        try:
            trait(method, "check_batch")(copies * N)
        except ValueError:
            continue
        try:
            with torch.no_grad():
                views = [torch.cat([view] * copies) for view in views_of(method)]
                enqueue(method, pairs_of(method, views))
        except Exception as error:
            report = f"check_batch({copies * N}) let the batch pass, which raised {error}"
            raise AssertionError(report) from error


@torch.no_grad()
def check_reads_the_conditions_that_it_declares(subject: Subject) -> None:
    """Its pairs must depend on the values of each condition that it declares, and on no other condition."""
    method = subject.build().eval()
    declared = trait(method, "conditions")
    embedded = method.embed(views_of(method)).normalized()
    samples = samples_of(method, embedded)

    def pairs_with(condition: Mapping[str, Tensor]) -> Pairs:
        with seeded():  # of a copy: another law examines whether `pairs` changes the method
            alike = copy.deepcopy(method)
            pairs: Pairs = alike.pairs(embedded, replace(samples, condition=condition))
        return pairs

    alone = {name: samples.condition[name] for name in declared}
    others = samples.condition.keys() - alone.keys()
    same = _as_compared(pairs_with(alone), pairs_with(samples.condition), others)
    require(same, "the pairs change with conditions that its `conditions` does not name")
    for parameter, name in subject.choice.params.items():
        if isinstance(name, str) and name in declared:
            other = with_parameter(subject, parameter, "another").build()
            named = {*trait(other, "conditions")}
            report = f"with {parameter}='another' it declares the conditions {sorted(named)}"
            require("another" in named, report)
    example = hasattr(method, "EXAMPLE_CONDITION")  # then it may take no other values
    for name, types in declared.items():
        for each in types[:1] if example else types:
            values = alone[name] if example else samples.condition[OF_TYPE[each]]
            changed = [values.roll(1, 0), values.flip(0), values[list(DRAWN)]]
            if values.is_floating_point() and not example:
                # Values near each other and far from each other, for a method with a threshold.
                changed += [values * scale for scale in (1e-3, 1e3)]
            first, *made = (pairs_with({**samples.condition, name: z}) for z in (values, *changed))
            shapes = {tuple(x.shape) for x in (first.positive, first.negative) if x is not None}
            queued = 0 if first.queue is None else len(first.queue.valid)
            wanted = first.anchors.shape[1], first.keys.shape[1] + queued
            report = f"masks of {each} values are {shapes}, and not (n, m + q) = {wanted}"
            require(shapes <= {wanted}, report)
            report = f"the pairs are the same whatever the {each} values of the condition {name!r}"
            require(not all(_as_compared(pairs, first, {name}) for pairs in made), report)


def _as_compared(x: Pairs, y: Pairs, but: Collection[str]) -> bool:
    """Whether two pairs are equal in all that is compared, except for some conditions."""

    def held(pairs: Pairs) -> dict[str, Any]:
        fields = ("anchors", "keys", "draws", "positive", "negative", "batch_candidates")
        of_queue = {f"queue.{each}": getattr(pairs.queue, each, None) for each in ("keys", "valid")}
        others = {k: z for k, z in pairs.samples.condition.items() if k not in but}
        of_samples = {"missing": pairs.samples.missing, **others}
        return {each: getattr(pairs, each) for each in fields} | of_queue | of_samples

    both = [(x, held(y)[each]) for each, x in held(x).items()]
    return all(a is b if a is None or b is None else torch.equal(a, b) for a, b in both)


def check_masks_the_views_that_it_says(subject: Subject) -> None:
    """``masked_views`` must be the number of views of ``masking``, which must draw from global generators.

    A mask is ``(rows, columns)``, bool.
    """
    method = subject.build().train()
    masking = trait(method, "masking")
    number = trait(method, "masked_views")(subject.choice.params)
    if not number and masking is None:
        raise SkipTest("it masks no patches")
    of_masking = 0 if masking is None else masking.views
    require(
        number == of_masking, f"masked_views(parameters) is {number}, masking.views {of_masking}"
    )
    patch_height, patch_width, _ = method.backbone.patch_shape
    wanted = (SHAPE[1] // patch_height, SHAPE[2] // patch_width), torch.bool
    drawn = []
    for _ in range(2):
        with seeded():
            drawn.append([masking(*SHAPE[1:]) for _ in range(of_masking)])
    shapes = {(tuple(mask.shape), mask.dtype) for mask in drawn[0]}
    require(shapes == {wanted}, f"masking{SHAPE[1:]} gives {shapes}, and must give {wanted}")
    require_identical(drawn[1], drawn[0], "masks under the same seed")


@torch.no_grad()
def check_scores_masked_patches(subject: Subject) -> None:
    """Scores of masked patches must be of a student that has not seen them and a teacher that has.

    They come in the order of the samples, and of the views of each.
    """
    method = subject.build().eval()
    views = views_of(method)
    if (masks := masks_of(method, views)) is None:
        raise SkipTest("it masks no patches")
    patches = method.embed(views, masks).patches
    require(patches is not None, "embed(views, masks) gave no patches")
    masked, counts = masks.masked, masks.masked.sum((2, 3))
    require_equal(patches.counts, counts, "the numbers of masked patches")
    lengths = len(patches.student), len(patches.teacher), int(counts.sum())
    report = f"{lengths[2]} masked patches have {lengths[0]} scores of a student, {lengths[1]} of a teacher"
    require(len({*lengths}) == 1, report)
    # Other pixels in all masked patches of one view of one sample.
    sample, view = divmod(int(counts.argmax()), counts.shape[1])
    height, width = (side // of for side, of in zip(SHAPE[1:], masked.shape[2:], strict=True))
    hidden = masked[sample, view].repeat_interleave(height, 0).repeat_interleave(width, 1)
    views[view] = views[view].clone()
    views[view][sample] += hidden * normal(*SHAPE, seed=7)
    others = method.embed(views, masks).patches
    require_equal(others.student, patches.student, "the student's scores, with other hidden pixels")
    place = torch.arange(counts.numel()).repeat_interleave(counts.flatten())
    changed = (others.teacher - patches.teacher).abs().amax(1) > 0
    wanted = place == sample * counts.shape[1] + view
    report = f"{int(changed.sum())} of the teacher's {int(wanted.sum())} scores of a view follow its pixels"
    require(torch.equal(changed, wanted), report)


def check_a_queue_keeps_the_conditions_of_its_keys(subject: Subject) -> None:
    """Each key in a queue must come with its sample's conditions, of every value type and shape.

    A partner's key comes with the partner's index and conditions.  When an epoch begins,
    ``read_conditions`` must read again the conditions that have a table.
    """
    method, batches = subject.build().eval(), list[Pairs]()
    with torch.no_grad():
        for number in range(2):
            embedded = embed(method, views_of(method, number)).normalized()
            samples = samples_of(method, embedded, number * N)
            pairs = method.pairs(embedded, with_partners(method, samples) if number else samples)
            try:
                enqueue(method, pairs)
            except ValueError:  # a method may refuse partners
                if number == 0:
                    raise
            else:
                batches.append(pairs)
        for epoch in range(2):
            if (queue := pairs_of(method, views_of(method, 2), 2 * N, epoch).queue) is None:
                return
            for pairs in batches:
                _require_conditions(queue, pairs, epoch)
            for index in begin_epoch(method, epoch + 1):
                right = index.ndim == 1 and index.dtype == torch.long and bool((index >= 0).all())
                report = f"it looks up {index.tolist()}, and dataset indices (k,) are from 0 on"
                require(right, report)


def _require_conditions(queue: Queue, pairs: Pairs, epoch: int) -> None:
    """Compare the rows of those keys in a queue that a batch had with the rows of their samples."""
    samples = pairs.samples
    lacking = samples.condition.keys() - queue.condition.keys()
    require(not lacking, f"the queue has no rows of the conditions {sorted(lacking)}")
    index = samples.index if samples.partner is None else samples.partner
    if index is None:
        raise AssertionError("the pairs have no indices of their samples")
    rows = {**conditions_of(index, epoch), "embedding": samples.condition["embedding"]}
    for place in queue.valid.nonzero().flatten():
        same = (pairs.keys - queue.of_view(0)[place]).abs().amax(-1) < 1e-5
        for view, sample in same.nonzero()[:1].tolist():
            if samples.partner is not None and pairs.key_views[view] == 0:
                continue  # the key of the first view is not the partner's
            if queue.index is not None:
                place_has, has = int(queue.index[place]), int(index[sample])
                require(place_has == has, f"a key of the index {has} has the index {place_has}")
            for name, expected in rows.items():
                held = queue.condition[name][place]
                wanted = expected[:, sample] if expected.ndim == 3 else expected[sample][None]
                require(
                    any(w.shape == held.shape and torch.allclose(w, held) for w in wanted),
                    f"a key of sample {sample} has {held.tolist()} of the condition {name!r} in epoch"
                    f" {epoch}, and the sample has {wanted.tolist()}",
                )


@torch.no_grad()
def check_a_queue_keeps_its_statistics(subject: Subject) -> None:
    """Gram matrices that ``keep_statistics`` is asked for must be those of the conditions in the queue."""
    method = subject.build().eval()
    queue = pairs_of(method, views_of(method)).queue
    if queue is None or not hasattr(method, "keep_statistics"):
        raise SkipTest("its pairs have no queue, or it has no `keep_statistics`")
    method.keep_statistics({"of color": Statistic("color", Tensor.double)})
    for number in range(10):  # more than the queue of an example holds
        enqueue(method, pairs_of(method, views_of(method, number), number * N))
    begin_epoch(method, 1)
    queue = pairs_of(method, views_of(method), epoch=1).queue
    if queue is None or len(queue.valid) < N or "color" not in queue.condition:
        raise SkipTest("its queue is too small, or without conditions")
    require("of color" in queue.grams, "queue.grams has no Gram matrix of the name that was given")
    colors = queue.condition["color"][queue.valid].double()
    require_equal(
        queue.grams["of color"], colors.T @ colors, "the Gram matrix", rtol=1e-4, atol=1e-5
    )


def check_only_buffers_are_enqueued(subject: Subject) -> None:
    """``enqueue(pairs)`` must change nothing but persistent buffers, which a checkpoint holds."""
    method = subject.build()
    pairs = pairs_of(method, views_of(method))

    def other_than_saved_buffers() -> list[Tensor]:
        saved = method.state_dict()
        buffers = [buffer for name, buffer in method.named_buffers() if name not in saved]
        return [*(p.detach() for p in method.parameters()), *(x.detach() for x in buffers)]

    with require_unchanged(other_than_saved_buffers):
        enqueue(method, pairs)


def check_a_resumed_run_goes_on_as_it_would_have(subject: Subject) -> None:
    """After ``load_state_dict`` in the middle of an epoch, steps must equal those of an unbroken run.

    The state dict must hold the queue, its conditions and the momentum encoder; ``read_conditions`` is
    called again before the next step.
    """
    method, other = subject.build().train(), subject.build().train()
    for number in range(3):
        if number in (0, 2):  # two steps are an epoch
            begin_epoch(method, number // 2)
        train_step(method, number, number // 2)
    other.load_state_dict(method.state_dict())
    begin_epoch(other, 1)
    for number in (3, 4):
        (expected, due), (loss, pairs) = (train_step(m, number, 1) for m in (method, other))
        require_equal(loss, expected, f"the loss of step {number}")
        held, wanted = (
            p.queue and {**p.queue.condition, "its keys": p.queue.keys} for p in (pairs, due)
        )
        require_equal(held, wanted, f"the queue in step {number}")


def check_goes_through_an_epoch(subject: Subject) -> None:
    """Ten steps of training must work, with finite losses and weights.

    A step calls embed, pairs, enqueue and ``after_step(step, total)``; the last call is
    ``after_step(9, 10)``, or ``after_step(0, 1)`` in a run of one step.
    """
    with torch.no_grad():
        subject.build().train().after_step(0, 1)
    method = subject.build().train()
    losses = torch.stack([train_step(method, number)[0] for number in range(10)])
    require(bool(losses.isfinite().all()), f"the losses are {losses.tolist()}")
    numbers = [*method.parameters(), *method.buffers()]
    require(all(bool(x.isfinite().all()) for x in numbers), "some weights are not finite")
    grown = [name for name, p in method.named_parameters() if not p.is_leaf]
    report = f"{', '.join(grown)} holds the graphs of all earlier steps: move it without gradient"
    require(not grown, report)


def check_embeds_in_half_precision(subject: Subject) -> None:
    """Under autocast to bfloat16 a step must work as well, and pairs be in float32."""
    method = subject.build().train()
    with torch.autocast("cpu", torch.bfloat16):
        embedded = embed(method, views_of(method))
    pairs = pairs_of_embedded(method, embedded.normalized())
    types = {"anchors": pairs.anchors.dtype, "keys": pairs.keys.dtype}
    narrow = {name: dtype for name, dtype in types.items() if dtype.itemsize < 4}
    require(not narrow, f"pairs(...) has {narrow}: a small temperature needs float32")
    loss_of(pairs).backward()
    enqueue(method, pairs)
    method.after_step(0, 10)


def check_two_processes_equal_one(subject: Subject) -> None:
    """Two processes with half of each batch must train as one process does, in losses and weights.

    Gather keys, conditions and indices over all processes, as with ``gather_distributed=True``, but not
    what ``encode``, ``project`` and ``project_key`` give.  This runs in evaluation mode, so that batch
    statistics are not compared.
    """
    require_same_on_two_ranks(
        train_together, subject.chosen_as(subject.choice).build, rtol=1e-4, atol=1e-5
    )


def train_together(build: Callable[[], Any]) -> dict[str, Any]:
    """Losses and weights of three steps, and the samples of the last, on each process that takes part."""
    method, losses = build().eval(), []
    for number in range(3):
        loss, pairs = train_step(method, number, ranks=dist.world_size())
        losses.append(loss)
    x = of_images(method, views_of(method))[0]
    with torch.no_grad():
        made = [function(x) for function in _of_images_alone(method)]
    weights = {name: p.detach().clone() for name, p in method.named_parameters()}
    samples = {"index": pairs.samples.index, **pairs.samples.condition}
    return {"losses": torch.stack(losses), "weights": weights, "samples": samples, "rows": made}
