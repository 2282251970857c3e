"""The checks that losses and weights are finite."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.methods.feature_queue import holds_conditions
from ccl_plugins.objectives.base import own_terms
from ccl_plugins.training import ranks


class NotFinite(ArithmeticError):
    """Training reached a number that is NaN or infinite."""


class NonFiniteLoss(NotFinite):
    """The loss became NaN or infinite."""


class NonFiniteWeights(NotFinite):
    """The weights became NaN or infinite."""


def refuse_non_finite(loss: Tensor, objective: Any, pairs: Any, index: Tensor, step: int) -> None:
    """Refuse a loss of ``pairs`` that is not finite, before its gradient is computed.

    Raises:
        NonFiniteLoss: On all processes, with the step and the samples whose terms are not finite.
    """
    finite = bool(loss.isfinite())
    if ranks.all_of(finite):
        return
    with torch.no_grad():  # on all processes, since an objective may gather
        values, weights = own_terms(objective, pairs)
    if finite:
        raise NonFiniteLoss(where(step, index, finite_here=True))
    bad = ~(values.isfinite() & weights.isfinite())
    at_fault = bad.reshape(-1, bad.shape[-1]).any(0)
    if len(at_fault) == len(index) and bool(at_fault.any()):
        which = f"the terms of samples {_some(index[at_fault])} are not finite"
    else:
        which = f"samples {_some(index)} are in its batch"
    raise NonFiniteLoss(f"the loss is {float(loss.detach()):g} at step {step}; {which}")


def non_finite_weights(networks: Mapping[str, nn.Module]) -> dict[str, bool]:
    """Names of the parameters and buffers with NaN or infinity; True for a parameter.

    The state of optimizers is not looked at: an infinite second moment only stops a weight; nor are the
    conditions in a queue, where NaN is a missing value.  It waits for the device once.
    """
    values = {
        f"{name}.{key}": value
        for name, network in networks.items()
        for key, value in network.state_dict(keep_vars=True).items()
        if isinstance(value, Tensor) and value.is_floating_point() and not holds_conditions(key)
    }
    if not values:
        return {}
    device = next(iter(values.values())).device
    finite = torch.stack([value.detach().isfinite().all().to(device) for value in values.values()])
    return {
        name: isinstance(value, nn.Parameter)
        for (name, value), is_finite in zip(values.items(), finite.tolist(), strict=True)
        if not is_finite
    }


def refuse_non_finite_weights(
    networks: Mapping[str, nn.Module], step: int, except_: Collection[str] = ()
) -> None:
    """Refuse weights that are not finite, before they are written.

    Args:
        networks: The networks by their names in checkpoints.
        step: Optimizer steps taken.
        except_: Names that are allowed.

    Raises:
        NonFiniteWeights: On all processes, if a weight of one is not finite.
    """
    bad = [name for name in non_finite_weights(networks) if name not in except_]
    if ranks.all_of(not bad):
        return
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    which = f"{bad[0]}{more}" if bad else "those of another process"
    raise NonFiniteWeights(
        f"the weights are not finite after step {step}, with a finite loss ({which}), and are not"
        " written; a lower learning rate (optimizer.lr) or clip=1.0 may help"
    )


def where(step: int, index: Tensor, finite_here: bool) -> str:
    """The message of a loss that is not finite, with samples (n,) of its batch on this process."""
    if finite_here:
        return f"the loss is not finite at step {step}, on another process"
    return (
        f"the loss is not finite at step {step}; samples {_some(index)} are in its batch."
        " detect_anomaly=True stops at the first such step and names the samples at fault"
    )


def _some(index: Tensor) -> str:
    rows = index.tolist()
    return f"{rows[:8]}"[:-1] + (f", ...] ({len(rows)} in all)" if len(rows) > 8 else "]")
