"""The laws of backbones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.testing.assertions import require, require_equal, require_no_error
from ccl_plugins.testing.inputs import SHAPE, normal
from ccl_plugins.testing.subject import Subject


def image_batch(subject: Subject, n: int = 4) -> Tensor:
    """(n, *EXAMPLE_SHAPE) normal numbers."""
    return normal(n, *getattr(subject.target, "EXAMPLE_SHAPE", SHAPE))


def observe(subject: Subject, backbone: Any) -> Any:
    """Features in evaluation mode."""
    with torch.no_grad():
        return backbone.eval()(image_batch(subject))


def check_is_a_module(subject: Subject) -> None:
    """It is an ``nn.Module``, so that its weights are trained and saved."""
    built = subject.build()
    law = "a backbone must be an nn.Module"
    require(law, isinstance(built, nn.Module), f"it is a {type(built).__name__}")


def check_features_are_as_long_as_it_says(subject: Subject) -> None:
    """Features are finite and have ``num_features`` columns; heads are built for these."""
    backbone, x = subject.build(), image_batch(subject)
    law = (
        "backbone(x) must be (n, num_features) finite numbers; where x is not (n, 3, 32, 32), give the"
        " shape of one input in a class attribute EXAMPLE_SHAPE"
    )
    with require_no_error(law):
        features = backbone(x)
    shape, width = tuple(features.shape), backbone.num_features
    found = f"for {tuple(x.shape)} it gave {shape}, with num_features {width}"
    require(law, shape == (len(x), width) and bool(features.isfinite().all()), found)


def check_evaluation_looks_at_each_image_alone(subject: Subject) -> None:
    """In evaluation mode, features depend neither on chance nor on the rest of the batch."""
    backbone, x = subject.build().eval(), image_batch(subject)
    with torch.no_grad():
        together, again = backbone(x), backbone(x)
        alone = torch.cat([backbone(row[None]) for row in x])
    require_equal("in evaluation mode equal images must have equal features", again, together)
    law = "in evaluation mode an image's features must not depend on the rest of its batch"
    require_equal(law, alone, together, rtol=1e-4, atol=1e-5)


def check_every_weight_has_a_gradient(subject: Subject) -> None:
    """Every weight has a gradient; DistributedDataParallel stops at unused weights."""
    backbone = subject.build().train()
    backbone(image_batch(subject)).square().sum().backward()
    unused = [n for n, p in backbone.named_parameters() if p.requires_grad and p.grad is None]
    require(
        "every weight must have a gradient, or be frozen by requires_grad_(False)",
        not unused,
        f"there is none for {', '.join(unused)}",
    )
