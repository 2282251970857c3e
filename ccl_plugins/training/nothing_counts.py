"""The checks that a step can learn: some anchor counts in the loss, and a gradient reaches the networks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.objectives.base import own_terms
from ccl_plugins.training import ranks
from ccl_plugins.training.findings import Finding, Findings


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
    known = {name for name, _ in findings.known}
    if known & {"a-condition-is-constant", "a-condition-is-unique-per-sample"}:
        return True  # this is why
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
