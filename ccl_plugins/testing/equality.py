"""Compares a ported objective with its authors' code, in value and gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        result = results[name]
        if result is None or expected is None:
            equal, difference = result is expected, "is"
        else:
            distance = (result.double() - expected.double()).abs()
            allowed = tolerance * expected.double().abs().clamp_min(1)
            equal = result.shape == expected.shape and bool((distance <= allowed).all())
            difference = f"differs by {float(distance.max()):.3g}, more than {tolerance:g}:"
        if not equal:
            given = inputs if isinstance(inputs, Mapping) else dict(enumerate(inputs))
            raise AssertionError(
                f"{name} {difference}\n  {_short(result)}\nand should be\n  {_short(expected)}\n"
                + "\n".join(["for the inputs", *(f"  {k}: {_short(x)}" for k, x in given.items())])
            )


def _value_and_gradients(
    loss: Callable[..., Tensor], inputs: Mapping[str, Any] | Sequence[Any]
) -> dict[str, Tensor | None]:
    named = dict(inputs) if isinstance(inputs, Mapping) else {"views": inputs}
    positional = {f"input {i}": _leaf(x) for i, x in enumerate(named.pop("views", ()))}
    named = {name: x if name == "condition" else _leaf(x) for name, x in named.items()}
    value = loss(*positional.values(), **named)
    leaves = {
        k: x for k, x in {**positional, **named}.items() if getattr(x, "requires_grad", False)
    }
    if value.requires_grad:
        value.backward(inputs=list(leaves.values()))
    gradients = {f"the gradient by {name}": x.grad for name, x in leaves.items()}
    return {"the value": value.detach(), **gradients}


def _leaf(x: Any) -> Any:
    floating = hasattr(x, "is_floating_point") and x.is_floating_point()
    return x.detach().clone().requires_grad_() if floating else x


def _short(x: Any) -> str:
    """A tensor's shape, type and first numbers; the text of anything else."""
    if hasattr(x, "dtype"):
        first = [round(number, 6) for number in x.detach().flatten()[:8].tolist()]
        return f"{tuple(x.shape)} {x.dtype} {first}"
    return "; ".join(map(_short, x)) if isinstance(x, tuple | list) else repr(x)
