"""Compares a ported objective with its authors' code, in value and gradient."""

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
    """Raise an AssertionError unless two losses are equal in value and gradient.

    Gradients are taken by every floating-point input except ``condition``.  Pass inputs in float64,
    where rounding is far below any tolerance.

    Args:
        objective: A loss of tensors.
        released: The expected loss, called with the same arguments.
        inputs: The arguments: a sequence of positional ones; or a mapping whose entry ``views`` is a
            sequence of positional ones and whose other entries are passed by name, as
            ``{"views": (x, y), "condition": z}``.
        tolerance: Largest difference, relative to the larger of 1 and the expected number.

    Raises:
        AssertionError: If they differ; the message shows both results and the inputs.

    Example:
        ``equals(NTXent(0.5), reference, (x, y), tolerance=1e-9)``
    """
    results, references = (_value_and_gradients(loss, inputs) for loss in (objective, released))
    for name, expected in references.items():
        found = results[name]
        if found is None and expected is None:
            continue
        if found is None or expected is None:
            raise AssertionError(
                f"{name} is {_short(found)} and should be {_short(expected)}\n{_case(inputs)}"
            )
        distance = (found.double() - expected.double()).abs()
        excess = distance - tolerance * expected.double().abs().clamp_min(1)
        if found.shape != expected.shape or not bool((excess <= 0).all()):
            raise AssertionError(
                f"{name} differs by {float(distance.max()):.3g}, more than {tolerance:g}:\n"
                f"  {_short(found)}\nshould be\n  {_short(expected)}\n{_case(inputs)}"
            )


def _value_and_gradients(
    loss: Callable[..., Tensor], inputs: Mapping[str, Any] | Sequence[Any]
) -> dict[str, Tensor | None]:
    named = dict(inputs) if isinstance(inputs, Mapping) else {"views": inputs}
    positional = [_leaf(x) for x in named.pop("views", ())]
    named = {name: x if name == "condition" else _leaf(x) for name, x in named.items()}
    value = loss(*positional, **named)
    arguments = {**{f"input {i}": x for i, x in enumerate(positional)}, **named}
    leaves = {k: x for k, x in arguments.items() if isinstance(x, Tensor) and x.requires_grad}
    gradients: Sequence[Tensor | None] = [None] * len(leaves)
    if value.requires_grad:
        gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    by_input = {f"the gradient by {k}": g for k, g in zip(leaves, gradients, strict=True)}
    return {"the value": value.detach(), **by_input}


def _leaf(x: Any) -> Any:
    floating = isinstance(x, Tensor) and x.is_floating_point()
    return x.detach().clone().requires_grad_() if floating else x


def _case(inputs: Mapping[str, Any] | Sequence[Any]) -> str:
    named = inputs if isinstance(inputs, Mapping) else dict(enumerate(inputs))
    return "\n".join(["for the inputs", *(f"  {name}: {_short(x)}" for name, x in named.items())])


def _short(x: Any) -> str:
    """A tensor's shape, type and first numbers; the text of anything else."""
    if isinstance(x, Tensor):
        rounded = torch.round(x.detach(), decimals=6) if x.is_floating_point() else x
        return f"{tuple(x.shape)} {x.dtype} {rounded.flatten()[:8].tolist()}"
    if isinstance(x, tuple | list):
        return "; ".join(map(_short, x))
    return repr(x)
