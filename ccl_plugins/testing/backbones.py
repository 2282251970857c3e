"""The laws of backbones."""

from __future__ import annotations

import copy
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor, nn

from ccl_plugins.protocols import trait
from ccl_plugins.testing.assertions import (
    leaves_of,
    on_meta,
    require,
    require_equal,
    require_gradients,
    require_independent_rows,
    require_no_seeding,
)
from ccl_plugins.testing.inputs import network_inputs, seeded
from ccl_plugins.testing.subject import Subject


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

    Heads are built for these before the first call.

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


def check_a_call_changes_nothing_else(subject: Subject) -> None:
    """A call must change neither its input nor a mode, and seed no global generator; it may draw of one."""
    backbone, x = _module(subject), network_inputs(subject.target, 4)
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
    """What it computes with must move to a device: be in parameters, in buffers, or made like its input.

    Examined on the device `meta`, which holds no numbers; a call that reads numbers is not examined.
    """
    backbone = _module(subject)
    backbone(network_inputs(subject.target, 4))  # layers may be made in the first call
    with on_meta():
        backbone.to("meta")(network_inputs(subject.target, 4).to("meta"))


def check_evaluation_looks_at_each_image_alone(subject: Subject) -> None:
    """In evaluation mode, features must depend neither on chance nor on the rest of the batch."""
    require_independent_rows(subject.build().eval(), network_inputs(subject.target, 4))


def check_every_weight_has_a_gradient(subject: Subject) -> None:
    """Every weight must have a gradient or be frozen: DistributedDataParallel stops at unused weights."""
    backbone = subject.build().train()
    if not any(parameter.requires_grad for _, parameter in backbone.named_parameters()):
        raise SkipTest("all of its weights are frozen")
    backbone(network_inputs(subject.target, 4)).square().sum().backward()
    require_gradients(backbone)


def check_what_learns_is_in_its_weights(subject: Subject) -> None:
    """What a gradient reaches must be among ``parameters()``, and nothing else may learn.

    After some steps of training, two backbones of equal state dicts must give equal features: a checkpoint
    holds no Python attributes, lists of parameters, or buffers that are not persistent.
    """
    backbone, other = _module(subject), subject.build(drawn=1)
    known = {id(parameter) for parameter in backbone.parameters()}
    features = backbone.train()(network_inputs(subject.target, 4))
    lost = [tuple(leaf.shape) for leaf in leaves_of(features) if id(leaf) not in known]
    report = f"a gradient reaches tensors of shape {lost}, which no optimizer gets: no parameters()"
    require(not lost, report)
    _train(subject, backbone, first=0)
    held, x = copy.deepcopy(backbone.state_dict()), network_inputs(subject.target, 4)
    expected = [_features(backbone, x, training) for training in (False, True)]
    _train(subject, other, first=STEPS)  # on other inputs, so that what it learned outside differs
    for training, due in zip((False, True), expected, strict=True):
        other.load_state_dict(held)  # a call in training changes batch statistics
        found = _features(other, x, training)
        # Equal weights gave equal features to the last bit in all that were tried.
        where = f"in {'training' if training else 'evaluation'}, of a backbone with the state dict"
        require_equal(found, due, where, rtol=1e-5, atol=1e-6)


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
def _features(backbone: Any, x: Tensor, training: bool) -> Tensor:
    with seeded():
        features: Tensor = backbone.train(training)(x)
    return features


def check_masked_patches_are_not_seen(subject: Subject) -> None:
    """With ``patch_shape``, the pixels of masked patches must not count, and the token must learn.

    Without a mask, features must be those of ``backbone(x)``.
    """
    backbone, x = subject.build().eval(), network_inputs(subject.target, 4)
    if (shape := trait(backbone, "patch_shape")) is None:
        raise SkipTest("it has no patch_shape, as methods that mask patches need it")
    height, width, f = shape
    rows, columns = x.shape[-2] // height, x.shape[-1] // width
    token = torch.linspace(-1, 1, f).requires_grad_()
    features, patches = backbone(x, None, token)
    require_equal(features, backbone(x), "features without a mask", rtol=1e-4, atol=1e-5)
    wanted = (len(x), rows, columns, f)
    require(patches.shape == wanted, f"patches are {tuple(patches.shape)}, not {wanted}")
    mask = torch.zeros(wanted[:3], dtype=torch.bool)
    mask[:, 0, 0] = True
    other = x.clone()
    other[..., :height, :width] += 1
    both = backbone(other, mask, token)
    require_equal(both, backbone(x, mask, token), "of other pixels in masked patches")
    (gradient,) = torch.autograd.grad(both[0].square().sum() + both[1].square().sum(), token)
    require(bool((gradient != 0).any()), "the token has no gradient")
