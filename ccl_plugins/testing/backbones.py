"""The laws of backbones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.testing.laws import agree, hold, may_not
from ccl_plugins.testing.material import SHAPE, random
from ccl_plugins.testing.subject import Subject


def given(subject: Subject, n: int = 4) -> Tensor:
    """(n, *EXAMPLE_SHAPE) numbers."""
    return random(n, *getattr(subject.target, "EXAMPLE_SHAPE", SHAPE))


def observe(subject: Subject, backbone: Any) -> Any:
    """Features in evaluation."""
    with torch.no_grad():
        return backbone.eval()(given(subject))


def check_is_a_module(subject: Subject) -> None:
    """Its weights are learned and saved as a module's are."""
    built = subject.build()
    law = "a backbone must be an nn.Module"
    hold(law, isinstance(built, nn.Module), f"it is a {type(built).__name__}")


def check_features_are_as_long_as_it_says(subject: Subject) -> None:
    """``num_features``, by which heads are made."""
    backbone, x = subject.build(), given(subject)
    law = (
        "backbone(x) must be (n, num_features) finite numbers; where x is not (n, 3, 32, 32), say the"
        " shape of one input in a class attribute EXAMPLE_SHAPE"
    )
    with may_not(law):
        features = backbone(x)
    wanted = (len(x), backbone.num_features)
    told = f"of {tuple(x.shape)} it gave {tuple(features.shape)}, num_features {wanted[1]}"
    hold(law, tuple(features.shape) == wanted and bool(features.isfinite().all()), told)


def check_evaluation_looks_at_each_image_alone(subject: Subject) -> None:
    """Frozen features do not depend on chance or on the batch."""
    backbone, x = subject.build().eval(), given(subject)
    with torch.no_grad():
        together, again = backbone(x), backbone(x)
        alone = torch.cat([backbone(row[None]) for row in x])
    agree("in evaluation the same images must have the same features", again, together)
    law = "in evaluation an image's features must not depend on the others of its batch"
    agree(law, alone, together, rtol=1e-4, atol=1e-5)


def check_every_weight_has_a_gradient(subject: Subject) -> None:
    """A weight that is not used stops training on several processes."""
    backbone = subject.build().train()
    backbone(given(subject)).square().sum().backward()
    unused = [n for n, p in backbone.named_parameters() if p.requires_grad and p.grad is None]
    hold(
        "every weight must have a gradient, or be frozen by requires_grad_(False)",
        not unused,
        f"there is none for {', '.join(unused)}",
    )


CHECKS: list[Callable[[Subject], None]] = [
    check_is_a_module,
    check_features_are_as_long_as_it_says,
    check_evaluation_looks_at_each_image_alone,
    check_every_weight_has_a_gradient,
]
