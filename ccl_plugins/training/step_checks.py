"""The checks of steps: numbers are finite, some anchor counts, and a gradient reaches the networks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.methods.feature_queue import holds_conditions
from ccl_plugins.objectives.base import own_terms
from ccl_plugins.training import ranks
from ccl_plugins.training.findings import Finding, Findings


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

    Not checked are the state of optimizers, where an infinite second moment only stops a weight,
    and the conditions in a queue, where NaN is a missing value. It waits for the device once.
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


def nothing_counts(loss: Tensor, objective: Any, pairs: Any, step: int, findings: Findings) -> bool:
    """Warn if no anchor of a batch counts: all weights are 0, or there is nothing to compare with.

    All processes call this at the same time; it waits for the device.

    Returns:
        Whether this is so.
    """
    if not ranks.all_of(bool(loss == 0)):
        return False
    with torch.no_grad():  # on all processes, since an objective may gather
        _, weights = own_terms(objective, pairs)
    queued = None if pairs.queue is None else int(pairs.queue.valid.sum())
    if queued == 0:  # a queue that will be filled
        return False
    samples = pairs.keys.shape[1] + (queued or 0)
    if samples > 1 and not ranks.all_of(not bool(weights.any())):
        return False
    names = {name for name, _ in findings.said}
    if names & {"a-condition-is-constant", "a-condition-is-unique-per-sample"}:
        return True  # these findings say why
    finding = Finding(
        "no-anchor-of-the-batch-counts",
        step,
        f"no anchor of the batch counts in the loss of {type(objective).__name__}, so nothing is"
        f" learned: {_why_nothing_counts(objective, pairs, samples)}",
    )
    findings.say(finding)
    return True


def _why_nothing_counts(objective: Any, pairs: Any, samples: int) -> str:
    if samples == 1:
        return "batch_size = 1 leaves no other sample to compare with; take a larger batch_size"
    if pairs.negative is not None and not pairs.negative.any():
        return "the method compares anchors with their own keys alone; take an objective without negatives"
    read = [name for name in objective.conditions if name in pairs.samples.condition]
    if not read:
        return f"the batch has {samples} samples; take a larger batch_size"
    counts = []
    for name in read:
        values = pairs.samples.condition[name]
        rows = values[0] if values.ndim == 3 else values
        count = len(torch.unique(rows, dim=0))
        counts.append(f"{count} value{'' if count == 1 else 's'} of condition {name!r}")
    return (
        f"its {len(rows)} samples have {' and '.join(counts)}; take another condition, a larger batch_size"
        " or another sampler"
    )


def nothing_reaches(
    networks: Iterable[nn.Module], objective: Any, step: int, findings: Findings
) -> None:
    """Warn if all gradients of the networks are exactly 0 after a loss that is not 0.

    It waits for the device.
    """
    gradients = [p.grad for network in networks for p in network.parameters() if p.grad is not None]
    if gradients and not any(bool(gradient.any()) for gradient in gradients):
        line = (
            f"the loss of {type(objective).__name__} is not 0 and all gradients of the networks are, so"
            " nothing is learned: raise objective.temperature if it is below 0.01; else the loss does not"
            f" depend on the embeddings, or this torch, {torch.__version__}, differentiates it wrongly"
        )
        findings.say(
            Finding(
                "no-gradient-reaches-the-networks",
                step,
                line,
            )
        )
