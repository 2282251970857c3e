"""The laws of backbones."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ccl_plugins.testing.assertions import require, require_gradients, require_independent_rows
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
    found = f"for {tuple(x.shape)} it gave {shape}, with num_features {width}"
    require(shape == (len(x), width) and bool(features.isfinite().all()), found)


def check_evaluation_looks_at_each_image_alone(subject: Subject) -> None:
    """In evaluation mode, features must depend neither on chance nor on the rest of the batch."""
    require_independent_rows(subject.build().eval(), network_inputs(subject.target, 4))


def check_every_weight_has_a_gradient(subject: Subject) -> None:
    """Every weight must have a gradient or be frozen: DistributedDataParallel stops at unused weights."""
    backbone = subject.build().train()
    backbone(network_inputs(subject.target, 4)).square().sum().backward()
    require_gradients(backbone)
