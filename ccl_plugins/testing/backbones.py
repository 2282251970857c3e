"""The laws of backbones."""

from __future__ import annotations

from typing import Any
from unittest import SkipTest

import torch
from torch import nn

from ccl_plugins.protocols import trait
from ccl_plugins.testing.assertions import (
    require,
    require_equal,
    require_gradients,
    require_independent_rows,
)
from ccl_plugins.testing.inputs import network_inputs
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
    """Features must be (n, num_features) finite numbers; heads are built for these.

    If images are not (n, 3, 32, 32), give the shape of one in a class attribute ``EXAMPLE_SHAPE``; if it
    takes token ids, the number of them in ``EXAMPLE_VOCABULARY``.
    """
    backbone, x = subject.build(), network_inputs(subject.target, 4)
    features = backbone(x)
    shape, width = tuple(features.shape), backbone.num_features
    report = f"for {tuple(x.shape)} it gave {shape}, with num_features {width}"
    require(shape == (len(x), width) and bool(features.isfinite().all()), report)


def check_evaluation_looks_at_each_image_alone(subject: Subject) -> None:
    """In evaluation mode, features must depend neither on chance nor on the rest of the batch."""
    require_independent_rows(subject.build().eval(), network_inputs(subject.target, 4))


def check_every_weight_has_a_gradient(subject: Subject) -> None:
    """Every weight must have a gradient or be frozen: DistributedDataParallel stops at unused weights."""
    backbone = subject.build().train()
    backbone(network_inputs(subject.target, 4)).square().sum().backward()
    require_gradients(backbone)


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
