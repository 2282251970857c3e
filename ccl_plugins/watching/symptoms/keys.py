"""Keys of a momentum encoder, or in a queue, that do not match the encoder."""

from __future__ import annotations

from collections.abc import Iterator

from ccl_plugins.training.findings import Finding
from ccl_plugins.watching.symptoms.symptom import SHORT, Observation, Symptom


class OldKeys(Symptom):
    """The queue is stale, the momentum encoder does not follow, or keys no longer match."""

    def look(self, seen: Observation) -> Iterator[Finding]:
        """Compare the length of the queue and the momentum with the run, and old keys with new ones."""
        queue, step, total, momentum = seen.pairs.queue, seen.step, seen.total, seen.momentum
        size = 0 if queue is None else queue.keys.shape[-2]
        span = size / (seen.settings.batch_size * seen.settings.accumulate)
        if total >= SHORT and span > total / 2:
            yield Finding(
                "the-queue-is-stale",
                step,
                f"the queue is stale: it holds the keys of {span:.0f} steps, and the run has {total}, so"
                " most keys are of an encoder that has learned little; lower method.queue_size"
                f" (now {size})",
                explains=False,
            )
        if momentum is not None:
            yield from _of_momentum(momentum, span, step, total)
        if step >= SHORT and not seen.few and seen.embeddings.apart > (1.0 if seen.late else 5.0):
            yield Finding(
                "the-keys-no-longer-match",
                step,
                "the keys no longer match: those in the queue lie"
                f" {seen.embeddings.apart**0.5:.1f} times as far from those of now as these from each"
                " other; raise method.momentum, to 0.99, or lower method.queue_size",
            )


def _of_momentum(momentum: float, span: float, step: int, total: int) -> Iterator[Finding]:
    if momentum < 0.5 and span >= 4:
        yield Finding(
            "the-keys-no-longer-match",
            step,
            f"the keys no longer match: with a momentum of {momentum:g} the key encoder changes in every"
            f" step, and the queue holds keys of {span:.0f} steps; raise method.momentum, to 0.99",
        )
    followed = (1 - momentum) * total
    if total >= SHORT and followed < (0.1 if total >= 100 else 0.05):
        yield Finding(
            "the-keys-do-not-follow",
            step,
            f"the keys do not follow: with a momentum of {momentum:g} the key encoder takes"
            f" {1 / (1 - momentum):.0f} steps to follow, and the run has {total}; lower method.momentum",
            explains=False,
        )
