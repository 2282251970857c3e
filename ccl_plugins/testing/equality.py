"""An objective beside the function that an author's code computes it by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def equals(
    objective: Callable[..., Tensor],
    released: Callable[..., Tensor],
    inputs: Mapping[str, Any] | Sequence[Any],
    tolerance: float = 1e-6,
) -> None:
    """Whether two losses are equal in value and gradient; for a loss that is ported.

    Floating-point tensors among the inputs are differentiated, but for ``condition``; give them in
    float64, where rounding is far below any tolerance.

    Args:
        objective: A loss of tensors.
        released: What it must equal; called with the same arguments.
        inputs: The arguments: a sequence of positional ones, or a mapping, in which ``views`` is a
            sequence of positional ones and the rest goes by name, as
            ``{"views": (x, y), "condition": z}``.
        tolerance: Largest difference, relative to the larger of 1 and the expected number.

    Raises:
        AssertionError: If they differ; the message shows the case.

    Example:
        ``equals(NTXent(0.5), reference, (x, y), tolerance=1e-9)``
    """
    found, expected = (_differentiated(loss, inputs) for loss in (objective, released))
    for name, value in expected.items():
        there = found[name]
        if value is None or there is None:
            if value is not there:
                raise AssertionError(
                    f"{name} is {'none' if there is None else 'there'} and should be"
                    f" {'none' if value is None else 'there'}\n{_case(inputs)}"
                )
            continue
        distance = (there.double() - value.double()).abs()
        excess = distance - tolerance * value.double().abs().clamp_min(1)
        if there.shape != value.shape or not bool((excess <= 0).all()):
            raise AssertionError(
                f"{name} differs by {float(distance.max()):.3g}, more than {tolerance:g}:\n"
                f"  {_short(there)}\nshould be\n  {_short(value)}\n{_case(inputs)}"
            )


def _differentiated(
    loss: Callable[..., Tensor], inputs: Mapping[str, Any] | Sequence[Any]
) -> dict[str, Tensor | None]:
    """The value, and the gradient by each input."""
    named = dict(inputs) if isinstance(inputs, Mapping) else {"views": inputs}
    positional = [_leaf(each) for each in named.pop("views", ())]
    named = {k: v if k == "condition" else _leaf(v) for k, v in named.items()}
    value = loss(*positional, **named)
    every = {**{f"input {i}": x for i, x in enumerate(positional)}, **named}
    leaves = {k: x for k, x in every.items() if isinstance(x, Tensor) and x.requires_grad}
    gradients: Sequence[Tensor | None] = [None] * len(leaves)
    if value.requires_grad:
        gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    told = zip(leaves, gradients, strict=True)
    return {"the value": value.detach(), **{f"the gradient by {k}": g for k, g in told}}


def _leaf(x: Any) -> Any:
    floating = isinstance(x, Tensor) and x.is_floating_point()
    return x.detach().clone().requires_grad_() if floating else x


def _case(inputs: Mapping[str, Any] | Sequence[Any]) -> str:
    named = inputs if isinstance(inputs, Mapping) else dict(enumerate(inputs))
    lines = [f"  {name}: {_short(x)}" for name, x in named.items()]
    return "\n".join(["for the inputs", *lines])


def _short(x: Any) -> str:
    if isinstance(x, Tensor):
        shown = torch.round(x.detach(), decimals=6) if x.is_floating_point() else x
        return f"{tuple(x.shape)} {x.dtype} {shown.flatten()[:8].tolist()}"
    if isinstance(x, tuple | list):
        return "; ".join(map(_short, x))
    return repr(x)
