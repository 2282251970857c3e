"""The laws of backbones."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor, nn

import ccl_registry as engine
from ccl_plugins.kinds import registry
from ccl_plugins.protocols import trait
from ccl_plugins.testing.assertions import (
    leaves_of,
    on_meta,
    require,
    require_equal,
    require_gradients,
    require_independent_rows,
    require_no_seeding,
    require_unchanged,
)
from ccl_plugins.testing.inputs import network_inputs, seeded, supplied_for
from ccl_plugins.testing.subject import Subject
from ccl_registry.errors import one_line


def observe(subject: Subject, backbone: Any) -> Any:
    """Features in evaluation mode."""
    with torch.no_grad():
        return backbone.eval()(network_inputs(subject.target, 4))


def check_is_a_module(subject: Subject) -> None:
    """A backbone must be an ``nn.Module``, so that its weights are trained and saved."""
    built = subject.build()
    require(isinstance(built, nn.Module), f"it is a {type(built).__name__}")


def check_features_are_as_long_as_it_says(subject: Subject) -> None:
    """In training and in evaluation, features must be (n, num_features) finite float32 numbers.

    Heads are built for these before the first call.  Images of one color have such features, too, and a
    backbone with other parameters has as many as it says.

    If images are not (n, 3, 32, 32), give the shape of one in a class attribute ``EXAMPLE_SHAPE``; if it
    takes token ids, the number of them in ``EXAMPLE_VOCABULARY``.
    """
    backbone, x = subject.build(), network_inputs(subject.target, 4)
    width = backbone.num_features
    for mode, begin in (("training", backbone.train), ("evaluation", backbone.eval)):
        begin()
        features = backbone(x)
        report = (
            f"in {mode} it gave {tuple(features.shape)} for {tuple(x.shape)}, with num_features {width}"
            f" when it was built, and {backbone.num_features} now"
        )
        require(features.dtype == torch.float32, f"in {mode} it gave {features.dtype}")
        right = features.shape == (len(x), width) and width == backbone.num_features
        require(right and bool(features.isfinite().all()), report)
    require(isinstance(width, int), f"num_features is {width!r}, of which no layer can be built")
    for setting, changed in subject.with_other_numbers().items():
        other = changed.build().eval()
        try:
            features = _features(other, x)
        except Exception:  # it takes other images with this number
            continue
        width = other.num_features
        report = f"with {setting} it gave {tuple(features.shape)}, and has num_features {width}"
        require(features.shape == (len(x), width), report)
    if x.is_floating_point():
        for color in (0.0, 1.0):
            features = backbone(torch.full_like(x, color))
            report = f"in evaluation, features of images of {color} everywhere are not finite"
            require(bool(features.isfinite().all()), report)


def check_a_call_changes_nothing_else(subject: Subject) -> None:
    """A call must not change its input or a mode, nor seed a global generator; it may draw from one.

    Nor may its constructor seed one: the views of a run would follow from it, and not from the run's seed.
    """
    backbone, x = _module(subject), network_inputs(subject.target, 4)
    require_no_seeding(lambda: subject.choice.build(supplied_for(subject.choice)))
    given = x.clone()
    for training in (True, False):
        backbone.train(training)
        modes = [module.training for module in backbone.modules()]
        require_no_seeding(lambda: backbone(x))
        require(torch.equal(x, given), "it changed its input: other networks get the same")
        after = [module.training for module in backbone.modules()]
        called = "training" if training else "evaluation"
        require(after == modes, f"called in {called}, modules are in another mode: {after}")


def check_moves_to_a_device_whole(subject: Subject) -> None:
    """All tensors of a call must be parameters, buffers, or made on the device of the input.

    Examined on the device `meta`, which holds no numbers; a call that reads numbers is not examined.
    """
    backbone = _module(subject)
    backbone(network_inputs(subject.target, 4))  # layers may be made in the first call
    with on_meta():
        backbone.to("meta")(network_inputs(subject.target, 4).to("meta"))


def check_evaluation_looks_at_each_image_alone(subject: Subject) -> None:
    """In evaluation mode, features must depend on the image, and neither on chance nor on the batch."""
    backbone, x = subject.build().eval(), network_inputs(subject.target, 4)
    require_independent_rows(backbone, x)
    features = backbone(x)
    report = f"{len(x)} images have the same features: {features[0, :3].tolist()}, ..."
    require(bool((features != features[:1]).any()), report)


def check_every_weight_has_a_gradient(subject: Subject) -> None:
    """Every weight must have a gradient or be frozen: DistributedDataParallel stops at unused weights."""
    backbone = subject.build().train()
    if not any(parameter.requires_grad for _, parameter in backbone.named_parameters()):
        raise SkipTest("all of its weights are frozen")
    backbone(network_inputs(subject.target, 4)).square().sum().backward()
    require_gradients(backbone)


def check_what_learns_is_in_its_weights(subject: Subject) -> None:
    """All that a gradient reaches must be among ``parameters()``, and nothing else may learn.

    After some steps of training, two backbones of equal state dicts must give equal features: a checkpoint
    holds no Python attributes, lists of parameters, or buffers that are not persistent.
    """
    backbone, other = _module(subject), subject.build(drawn=1)
    known = {id(parameter) for parameter in backbone.parameters()}
    features = backbone.train()(network_inputs(subject.target, 4))
    lost = [tuple(leaf.shape) for leaf in leaves_of(features) if id(leaf) not in known]
    report = f"a gradient reaches tensors of shape {lost} that are not in parameters()"
    require(not lost, report)
    _features(other.eval(), network_inputs(subject.target, 4))  # lazy layers have weights then
    untrained = "the weights of another backbone, which is not trained"
    with require_unchanged(lambda: dict(other.named_parameters()), untrained):
        _train(subject, backbone, first=0)
    held, x = copy.deepcopy(backbone.state_dict()), network_inputs(subject.target, 4)
    expected = [_features(backbone.train(training), x) for training in (False, True)]
    _train(subject, other, first=STEPS)  # on other inputs, so that what it learned outside differs
    for training, due in zip((False, True), expected, strict=True):
        other.load_state_dict(held)  # a call in training changes batch statistics
        found = _features(other.train(training), x)
        # Equal weights gave equal features to the last bit in all that were tried.
        where = f"in {'training' if training else 'evaluation'}, of a backbone with the state dict"
        require_equal(found, due, where, rtol=1e-5, atol=1e-6)


def check_images_before_do_not_count(subject: Subject) -> None:
    """Features must not depend on the sizes of earlier images: views may have several sizes.

    What is made for the first size, such as positions, is made again for another.
    """
    x = network_inputs(subject.target, 2)
    if x.ndim != 4:
        raise SkipTest("it does not take images")
    used, (height, width) = subject.build().eval(), x.shape[-2:]
    _features(used, x)
    for by in (0.5, 1.5):
        shape = len(x), x.shape[1], round(height * by), round(width * by)
        try:
            expected = _features(subject.build().eval(), torch.ones(shape))
            found = _features(used, torch.ones(shape))
        except Exception:  # it takes no images of this size, or lazy layers take no second size
            continue
        where = f"images of {shape[2]}x{shape[3]} after others of {height}x{width}"
        require_equal(found, expected, where)


CHANNELS, SIZES = (1, 3, 4), (0.5, 0.75, 1, 1.125, 1.5, 2)
"""Channels, and heights relative to the kit's images, with which checks and network are compared."""


def check_takes_what_it_does_not_refuse(subject: Subject) -> None:
    """The network must take what ``check_channels``, ``check_image_size`` and ``check_tokens`` accept.

    They accept what it is checked with, and raise a ValueError for what it does not take.
    """
    target, x = subject.target, network_inputs(subject.target, 2)
    accepts = partial(_accepts, target)
    if not any(hasattr(target, name) for name in CHECKS):
        raise SkipTest(f"it has none of {', '.join(CHECKS)}")
    if x.ndim != 4 and x.is_floating_point():
        raise SkipTest("it takes neither images nor token ids")
    given = subject.choice.params
    if x.ndim == 4:
        _, channels, height, width = x.shape
        own = accepts("check_channels", given, channels)
        require(own, f"check_channels refuses {channels} channels, which it takes")
        own = height != width or accepts("check_image_size", given, height)
        require(own, f"check_image_size refuses {height} pixels, which it takes")
        if hasattr(target, "check_channels"):
            for number in CHANNELS:
                refused = not accepts("check_channels", given, number)
                # A parameter on which this depends must be the one that the network has.
                for choice in _with_number(subject, number) if refused else [subject.choice]:
                    if accepts("check_channels", choice.params, number):
                        images = torch.ones(2, number, height, width)
                        _require_taken(subject.chosen_as(choice).build(), choice, images)
        if hasattr(target, "check_image_size"):
            backbone = subject.build()
            for size in (round(by * height) for by in SIZES):
                if accepts("check_image_size", given, size):
                    _require_taken(backbone, subject.choice, torch.ones(2, channels, size, size))
        return
    length, vocabulary = x.shape[1], target.EXAMPLE_VOCABULARY
    own = accepts("check_tokens", given, length, vocabulary)
    require(own, f"check_tokens refuses {length} tokens of {vocabulary} ids, which it takes")
    for tokens, ids in ((1, vocabulary), (2 * length, vocabulary), (length, 2 * vocabulary)):
        if accepts("check_tokens", given, tokens, ids):
            _require_taken(subject.build(), subject.choice, torch.full((2, tokens), ids - 1))


CHECKS = ("check_channels", "check_image_size", "check_tokens")


def _accepts(target: Any, name: str, *args: Any) -> bool:
    try:
        trait(target, name)(*args)
    except ValueError:
        return False
    return True


def _with_number(subject: Subject, number: int) -> list[engine.Choice]:
    """The choices with this number in place of another whole one."""
    found = list[engine.Choice]()
    for name, value in subject.choice.params.items():
        if type(value) is int and value != number:
            with contextlib.suppress(engine.InvalidParameter):
                params = {**subject.choice.params, name: number}
                found.append(registry().choose(subject.kind, subject.spec.id, **params))
    return found


def _require_taken(backbone: Any, choice: engine.Choice, x: Tensor) -> None:
    try:
        _features(backbone.eval(), x)
    except Exception as error:
        given = (
            f"{tuple(x.shape)}"
            if x.is_floating_point()
            else f"{tuple(x.shape)} ids up to {x.max()}"
        )
        report = f"{given} is accepted with {dict(choice.params)}, and the network raised {one_line(error)}"
        raise AssertionError(report) from error


def check_image_statistics_are_of_pixels_to_one(subject: Subject) -> None:
    """``image_statistics`` must be a mean and a deviation of pixels in [0, 1] for each channel it takes."""
    statistics = trait(subject.target, "image_statistics")(subject.choice.params)
    if statistics is None:
        raise SkipTest("it has no image_statistics with these parameters")
    mean, deviation = (torch.as_tensor(each, dtype=torch.float64) for each in statistics)
    within = bool((mean >= 0).all() and (mean <= 1).all())
    within &= bool((deviation > 0).all() and (deviation <= 1).all())
    report = f"it gives the mean {mean.tolist()} and the deviation {deviation.tolist()}"
    require(within and mean.ndim == 1 and mean.shape == deviation.shape, report)
    taken = _accepts(subject.target, "check_channels", subject.choice.params, len(mean))
    require(taken, f"{report}, and check_channels refuses {len(mean)} channels")


def check_names_its_own_parameters(subject: Subject) -> None:
    """``no_weight_decay()`` and ``layer_numbers()`` must name its parameters, layers from 0 at the image.

    The names are those of ``named_parameters()``; ``layer_numbers()`` has all of them.
    """
    backbone = _module(subject)
    numbers_of, kept_of = (
        getattr(backbone, name, None) for name in ("layer_numbers", "no_weight_decay")
    )
    if numbers_of is kept_of:
        raise SkipTest("it has neither")
    names = {name for name, _ in backbone.named_parameters()}
    lost = sorted({*(kept_of() if kept_of else ())} - names)
    report = f"no_weight_decay() has {lost[:3]}, its parameters are {sorted(names)[:3]}, ..."
    require(not lost, report)
    if numbers_of is None:
        return
    try:
        numbers = dict(numbers_of())
    except ValueError as error:  # it has no layers with these parameters
        raise SkipTest(f"layer_numbers() raised {one_line(error)}") from error
    differ = sorted(names ^ {*numbers})
    require(not differ, f"layer_numbers() and the parameters differ in {differ[:3]}")
    whole = all(isinstance(number, int) for number in numbers.values())
    report = (
        f"layers are whole numbers from 0, not {sorted({*map(repr, numbers.values())})[:3]}, ..."
    )
    require(whole and min(numbers.values(), default=0) == 0, report)
    called = list[int]()
    for prefix, module in backbone.named_modules():
        own = {f"{prefix}.{name}" for name, _ in module.named_parameters(recurse=False)}
        if known := own & names:  # a weight that two modules share has one name
            number = min(numbers[name] for name in known)
            module.register_forward_pre_hook(partial(_note, called, number))
    _features(backbone.eval(), network_inputs(subject.target, 2))
    report = f"in the order in which layers are called, their numbers are {called}"
    require(not called or called[0] <= called[-1], report)


def _note(called: list[int], number: int, *_: Any) -> None:
    called.append(number)


def _module(subject: Subject) -> nn.Module:
    built = subject.build()
    if not isinstance(built, nn.Module):
        raise SkipTest("it is no nn.Module, which has modes, a device and a state dict")
    return built


STEPS = 3


def _train(subject: Subject, backbone: Any, first: int) -> None:
    """Take steps of plain gradient descent, on inputs that are not centered."""
    backbone.train()
    for step in range(first, first + STEPS):
        x = network_inputs(subject.target, 4, seed=step)
        with seeded(step):
            loss = backbone(2 * x + 1 if x.is_floating_point() else x).square().mean()
        parameters = [p for p in backbone.parameters() if p.requires_grad]
        if not parameters:
            continue
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if gradient is not None:
                    parameter -= 0.01 * gradient


@torch.no_grad()
def _features(backbone: Any, x: Tensor) -> Tensor:
    with seeded():
        features: Tensor = backbone(x)
    return features


def check_masked_patches_are_not_seen(subject: Subject) -> None:
    """With ``patch_shape``, the token must replace masked patches, and no others, before positions.

    So their pixels do not count, the token learns, and samples without a mask are as before.  Without a
    mask, features must be those of ``backbone(x)``.
    """
    backbone, x = subject.build().eval(), network_inputs(subject.target, 4)
    if (shape := trait(backbone, "patch_shape")) is None:
        raise SkipTest("it has no patch_shape, as methods that mask patches need it")
    check = trait(subject.target, "check_masked")
    require(check is not None, "it has no check_masked, without which such methods refuse it")
    require(
        _accepts(subject.target, "check_masked", subject.choice.params), "check_masked refuses it"
    )
    height, width, f = shape
    rows, columns = x.shape[-2] // height, x.shape[-1] // width
    token = torch.linspace(-1, 1, f).requires_grad_()
    features, patches = backbone(x, None, token)
    require_equal(features, backbone(x), "features without a mask", rtol=1e-4, atol=1e-5)
    wanted = (len(x), rows, columns, f)
    require(patches.shape == wanted, f"patches are {tuple(patches.shape)}, not {wanted}")
    mask = torch.zeros(wanted[:3], dtype=torch.bool)
    mask[0, 0, -1] = True
    other = x.clone()
    other[0, :, :height, -width:] += 1
    both = backbone(other, mask, token)
    require_equal(both, backbone(x, mask, token), "of other pixels in masked patches")
    for found, without in zip(both, (features, patches), strict=True):
        report = "of samples without a masked patch, beside one with"
        require_equal(found[1:], without[1:], report, rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad(both[0].square().sum() + both[1].square().sum(), token)
    require(bool((gradient != 0).any()), "the token has no gradient")
    _require_patches_in_place(lambda images: backbone(images, None, token)[1], x)
    if rows < 3 or columns < 3:
        return
    # Patches inside an image of one color differ by their positions alone, and masked ones do, too.
    plain = [backbone(torch.ones_like(x), each, token)[1] for each in (None, mask | True)]
    apart, masked = (float(_inside(each).std((0, 1)).max()) for each in plain)
    report = f"patches differ by their positions by {apart:.3g}, and masked ones by {masked:.3g}"
    require(apart < 1e-3 or masked > 1e-3 * apart, report)


def _inside(patches: Tensor) -> Tensor:
    return patches.detach()[0, 1:-1, 1:-1]


def check_patches_are_in_place(subject: Subject) -> None:
    """``patches(x)`` must be (n, rows, columns, f) features, each of the patch at this place."""
    backbone, x = subject.build().eval(), network_inputs(subject.target, 2)
    patches = trait(backbone, "patches")
    if patches is None:
        raise SkipTest("it has no patches(x)")
    try:
        patches(x)
    except ValueError as error:  # it has no patches with these parameters
        raise SkipTest(f"patches(x) raised {one_line(error)}") from error
    _require_patches_in_place(patches, x)


@torch.no_grad()
def _require_patches_in_place(patches: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """Require that other pixels in the upper right corner change the patch there as much as any other."""
    before = patches(x)
    require(before.ndim == 4 and len(before) == len(x), f"patches are {tuple(before.shape)}")
    rows, columns = before.shape[1:3]
    if rows < 2 or columns < 2:
        return
    other = x.clone()
    other[..., : max(1, x.shape[-2] // rows), -max(1, x.shape[-1] // columns) :] += 1
    change = (patches(other) - before).norm(dim=-1).mean(0)
    here, most, place = float(change[0, -1]), float(change.max()), int(change.argmax())
    report = (
        f"of {rows}x{columns} patches, other pixels in the upper right corner change that one by {here:.3g}"
        f" and the one in row {place // columns}, column {place % columns} by {most:.3g}:"
        " patches are (n, rows, columns, f)"
    )
    # That of 14 networks of timm with random weights changed by 0.78 to 1 times as much as any other.
    require(2 * here >= most, report)
