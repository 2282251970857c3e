"""Counts the operations of each objective, forward and backward; writes ``operations.md``.

At small batches a GPU waits for launches: there the number of operations is the time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from gpu_parts import begun, suite_on
from lightly.loss import NTXentLoss
from pages import parser, publish
from torch.utils._python_dispatch import TorchDispatchMode

from ccl_plugins.testing.objective_batches import call

DIM = 128


class Operations(TorchDispatchMode):
    """Counts what computes values, and what reads one on the host; views compute nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.computed = self.read = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count an operation."""
        given = [of.alias_info for of in func._schema.returns]
        is_view = any(alias is not None and not alias.is_write for alias in given)
        is_read = func is torch.ops.aten._local_scalar_dense.default
        self.read += is_read
        self.computed += not (is_view or is_read)
        return func(*args, **(kwargs or {}))


def counted(loss: Any, *given: Any) -> tuple[int, int, int]:
    """The operations of a loss forward, and forward and backward, and the values read on the host."""
    with Operations() as operations:
        value = loss(*given)
        forward = operations.computed
        if value.requires_grad:
            value.backward()
    return forward, operations.computed, operations.read


def main() -> None:
    """Count, and write the page."""
    options = parser(__doc__, "one objective").parse_args()
    suite, rows = suite_on("cpu"), []
    views = [torch.randn(suite.samples, DIM, requires_grad=True) for _ in range(2)]
    rows.append(("lightly's `NTXentLoss`", *counted(NTXentLoss(0.1), *views)))
    for subject in suite.components("objective"):
        objective, batch = begun(subject, suite, "cpu")
        batch = replace(batch, views=batch.views.requires_grad_())
        call(objective, batch)
        rows.append((f"`{subject.spec.name}`", *counted(call, objective, batch)))
        if options.quick:
            break
    lines = [f"| {name} | {a} | {b} | {c} |" for name, a, b, c in rows]
    report = f"""# Operations of a loss

Operations that compute values, of a call on the raw embeddings of two views, as in a loop of one's own:
checks and normalization are among them. Each objective has the parameters of its example. Within `fit`,
after the first steps, nothing is read on the host. `python docs/benchmarks/gpu.py share` measures times.

| loss | forward | with backward | values read on the host |
|---|---|---|---|
{chr(10).join(lines)}

torch {torch.__version__}; written by `python docs/benchmarks/operations.py`.
"""
    publish(report, "operations.md", options)


if __name__ == "__main__":
    main()
