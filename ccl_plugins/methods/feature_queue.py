"""The queue of earlier keys, each with its sample's index and conditions, in a method or with a loss."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import WIDEST, matrix, one_of, whole
from ccl_plugins.numerics.distributed import gather, require_equal_batches
from ccl_plugins.numerics.gram import RunningGram, Statistic
from ccl_plugins.objectives.inputs import Questions, ask_of_values, by_name, long_ids, of_type
from ccl_plugins.pairs.pairs import Pairs, with_keys
from ccl_plugins.pairs.queue import Queue
from ccl_plugins.pairs.samples import Samples
from ccl_plugins.protocols import LookUp, trait

_CONDITION = "condition:"


class FeatureQueue(nn.Module):
    """First in, first out: keys, the dataset index of each, and the rows of its conditions.

    In a loop of your own, ``pairs(queries, keys, labels)`` compares a batch with the queue, and
    ``enqueue`` takes it in after the backward pass.  A method inherits from `WithQueue`, and calls
    ``add_to`` in its ``pairs``.  All of it is in the state dict.

    The queue starts empty: places that were never written are not valid.  Writing has no branches on
    values, so that it compiles, and overwrites the oldest keys one by one, whatever the size of a batch.

    Args:
        size: Keys that it holds, 1 or more; with dimension 128, at most 33 million.
        dim: d, their dimension, 1 to 2^20.
    """

    keys: Tensor
    """(q, d), unit-norm if the method's keys are."""
    index: Tensor
    """(q,) dataset indices; -1 for keys without one."""
    pointer: Tensor
    """0-d, the next place to write."""
    filled: Tensor
    """0-d, the number of places that have been written."""

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        matrix(("size", whole("size", size, 1)), ("dim", whole("dim", dim, 1, WIDEST)))
        self.register_buffer("keys", torch.zeros(size, dim))
        self.register_buffer("index", torch.full((size,), -1))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.long))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))
        self.statistics: Mapping[str, Statistic] = {}
        self.running = nn.ModuleDict()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def valid(self) -> Tensor:
        """(q,) True at places that have been written."""
        return torch.arange(len(self), device=self.keys.device) < self.filled

    @property
    def full(self) -> Tensor:
        """0-d, whether all places have been written."""
        return self.filled == len(self)

    @property
    def conditions(self) -> dict[str, Tensor]:
        """By name (q,) or (q, c), the rows of every condition that was stored."""
        return {
            key.removeprefix(_CONDITION).replace("%2E", ".").replace("%25", "%"): rows
            for key, rows in self.named_buffers()
            if key.startswith(_CONDITION)
        }

    def condition(self, name: str, like: Tensor) -> Tensor:
        """(q,) or (q, c) rows of a condition; created as zeros with the type and width of ``like``."""
        if _buffer(name) not in self._buffers:
            self._hold(_buffer(name), like.new_zeros((len(self), *like.shape[1:])))
        return self.get_buffer(_buffer(name))

    def keep_statistics(self, statistics: Mapping[str, Statistic]) -> None:
        """Keep an objective's Gram matrices up to date as keys are replaced.

        Matrices with at least as many features as the queue has places are left out, because they
        save nothing.

        Args:
            statistics: By name, from the objective's ``statistics()``.
        """
        self.statistics = dict(statistics)
        for key in [key for key in self._buffers if key.startswith(_CONDITION)]:
            self._hold(key, self.get_buffer(key))

    def grams(self) -> dict[str, Tensor]:
        """The (r, r) Gram matrices of the valid places, by name."""
        return {name: gram.gram for name, _, gram in self._running()}

    def pairs(
        self,
        queries: Tensor,
        keys: Tensor,
        condition: Tensor | Mapping[str, Tensor] | None = None,
        index: Tensor | None = None,
        *,
        embedding: Literal["sphere", "raw"] = "sphere",
        gather_distributed: bool = False,
        missing: Literal["error", "ignore"] = "error",
    ) -> Pairs:
        """A batch of your own loop, compared with its keys and with the queue.

        Args:
            queries: (n, d) of one view, or (u, n, d) of u views; not normalized.
            keys: (n, d) of another view, or (u, n, d) of the same u views; not normalized, and their
                gradient is not used.
            condition: (n,) class ids or (n, c) values, read as ``"condition"``; or several by name.
            index: (n,) dataset indices. If given, keys of the anchor's own image in the queue are
                left out.
            embedding: ``"sphere"`` normalizes queries and keys; ``"raw"`` does not, for an
                objective whose attribute ``embedding`` is ``"raw"``.
            gather_distributed: Compare with the keys of all processes; each has n samples, which is
                checked, so that several processes wait for each other and for the device.
            missing: ``"error"`` refuses samples without a value of a condition (NaN, -1 among class
                ids). On a GPU, for which this does not wait, the loss is NaN instead. ``"ignore"``
                leaves these samples out of the loss, as anchors and as keys.

        Raises:
            ValueError: For shapes that do not fit, for a condition or an index without exactly one
                row per sample, for inf, for a condition that the keys in the queue lack, and for
                batches of different sizes on processes that gather.
        """
        shapes, d = (tuple(queries.shape), tuple(keys.shape)), self.keys.shape[1]
        if len({*shapes}) > 1 or queries.ndim not in (2, 3) or shapes[0][-1] != d:
            raise ValueError(
                f"queries and keys must both be (n, {d}) or (u, n, {d}), not {shapes[0]} and {shapes[1]}"
            )
        ignore = one_of("missing", missing, ("error", "ignore")) == "ignore"
        given = {"condition": condition} if isinstance(condition, Tensor) else dict(condition or {})
        named = {name: long_ids(rows) for name, rows in given.items()}
        per_sample = named if index is None else {**named, "index": index}
        for name, rows in per_sample.items():
            if _last_view(rows).shape[:1] != queries.shape[-2:-1]:
                raise ValueError(
                    f"{name} must have one row for each of {queries.shape[-2]} samples, not the shape"
                    f" {tuple(rows.shape)}"
                )
        views = queries.reshape(-1, *queries.shape[-2:])
        if not torch.compiler.is_compiling():
            self._refuse_other(named)
            questions = Questions()
            for name, rows in named.items():
                ask_of_values(name, rows, questions, ignore)
            if views.device.type == "cpu" and named and not questions.answered():
                questions.refuse()
            views = questions.mark(views)
            if gather_distributed:
                require_equal_batches(views.shape[1], views.device)
        pairs = with_keys(
            views,
            keys.detach().reshape(views.shape),
            Samples(named, index, ignored=tuple(named) if ignore else ()),
            first_key_view=1 if len(views) == 1 else 0,
            gather_distributed=gather_distributed,
        )
        raw = one_of("embedding", embedding, ("sphere", "raw")) == "raw"
        return self.add_to(pairs if raw else pairs.normalized())

    def _refuse_other(self, named: Mapping[str, Tensor]) -> None:
        """Refuse conditions that the keys in the queue do not have, or have in another form."""
        held = self.conditions
        for name, rows in named.items():
            new = _last_view(rows)
            if name not in held:
                if self.filled:  # read once: from then on the condition is held
                    raise ValueError(
                        f"the {int(self.filled)} keys in the queue have no {name!r}: give it from the first"
                        " batch on, or make a new queue"
                    )
            elif (old := held[name]).shape[1:] != new.shape[1:] or (
                old.is_floating_point() != new.is_floating_point()
            ):
                raise ValueError(
                    f"the queue holds {name!r} as {_form(old)}, and a batch has it as {_form(new)}: give"
                    " all batches one form, or make a new queue"
                )

    def add_to(self, pairs: Pairs, own: Literal["ignore", "negative"] = "ignore") -> Pairs:
        """Pairs whose anchors are compared with the queue too.

        Until the queue is full, the batch's other keys are candidates as well.

        Args:
            pairs: The pairs of a batch, as `ccl_plugins.pairs.with_keys` makes them.
            own: ``"ignore"`` leaves out keys of the anchor's own image; ``"negative"`` does not.
        """
        queue = Queue(
            self.keys,
            self.valid,
            {n: self.condition(n, _last_view(z)) for n, z in pairs.samples.condition.items()},
            self.index if own == "ignore" else None,
            self.grams(),
        )
        return replace(pairs, queue=queue, batch_candidates=~self.full)

    def enqueue(self, pairs: Pairs) -> None:
        """Write the last view's keys of all processes, with their samples' indices and conditions.

        Call it once per batch, after the backward pass, which reads the queue.
        """
        samples, keys = pairs.samples, pairs.keys[-1].detach()
        rows = {name: _last_view(z) for name, z in samples.condition.items()}
        rows |= samples.partner_condition
        index = samples.index if samples.partner is None else samples.partner
        if pairs.processes == 1:  # the method compares the samples of each process alone
            keys, index = gather(keys), None if index is None else gather(index)
            rows = {name: gather(z) for name, z in rows.items()}
        self.write(keys, index, rows)

    def check_batch(self, size: int) -> None:
        """Refuse a global batch of more keys than the queue holds.

        Raises:
            ValueError: For such a batch; the message names sizes that fit.
        """
        if size > len(self):
            raise ValueError(
                f"a batch of {size} does not fit into the queue of {len(self)}: give the method"
                f" queue_size={size} or more, or a smaller batch_size"
            )

    def _hold(self, key: str, rows: Tensor) -> None:
        """Register the rows of a condition, and start their statistics."""
        self.register_buffer(key, rows)
        for i, statistic in enumerate(self.statistics.values()):
            buffers = [_buffer(name) for name in statistic.names]
            if key in buffers and all(buffer in self._buffers for buffer in buffers):
                values = self._values(statistic)
                rank = statistic.rank(values)
                if rank is not None and rank < len(self):
                    gram = RunningGram(statistic.features, rank).to(rows.device)
                    gram.rebuild(values, self.valid)
                    self.running[str(i)] = gram

    def _values(self, statistic: Statistic) -> Tensor:
        """(q, ...) the rows from which a statistic is computed."""
        return statistic.values({n: self.get_buffer(_buffer(n)) for n in statistic.names})

    def _running(self) -> Iterator[tuple[str, Statistic, RunningGram]]:
        """Each statistic: its name, the rows that it is computed from, and its Gram matrix."""
        for i, (name, statistic) in enumerate(self.statistics.items()):
            if str(i) in self.running:
                yield name, statistic, cast(RunningGram, self.running[str(i)])

    @torch.no_grad()
    def write(
        self,
        keys: Tensor,
        index: Tensor | None = None,
        conditions: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Replace the oldest keys by a batch.

        Args:
            keys: (k, d), those of all processes, on each process.
            index: (k,) dataset indices.
            conditions: By name (k,) or (k, c).

        Raises:
            ValueError: For more keys than the queue holds, and without a condition that it holds.
        """
        count = len(keys)
        if count > len(self):
            raise ValueError(f"a batch of {count} keys does not fit into a queue of {len(self)}")
        if lacking := sorted(self.conditions.keys() - (conditions or {}).keys()):
            raise ValueError(
                f"the queue holds {' and '.join(map(repr, lacking))}, and a batch has none, so its keys"
                " would get the rows of older keys: give all batches the same conditions"
            )
        places = (self.pointer + torch.arange(count, device=self.keys.device)) % len(self)
        self.keys.index_copy_(0, places, keys.to(self.keys.dtype))
        self.index.index_copy_(
            0, places, keys.new_full((count,), -1).long() if index is None else index
        )
        held = {name: self.condition(name, rows) for name, rows in (conditions or {}).items()}
        new = {name: rows.to(held[name].dtype) for name, rows in (conditions or {}).items()}
        for _, statistic, gram in self._running():
            if all(name in new for name in statistic.names):
                old = statistic.values({name: held[name][places] for name in statistic.names})
                gram.replace(old, places < self.filled, statistic.values(new))
        for name, rows in new.items():
            held[name].index_copy_(0, places, rows)
        self.pointer.copy_((self.pointer + count) % len(self))
        self.filled.copy_((self.filled + count).clamp_max(len(self)))

    @torch.no_grad()
    def read_conditions(self, look_up: LookUp) -> None:
        """Read the rows of conditions again by index, after their tables were refreshed.

        Keys without an index keep their rows. Unchanged rows do not change Gram matrices, so a
        resumed run equals an unbroken one bit by bit.

        Args:
            look_up: From dataset indices to rows of the fitted conditions, by name.
        """
        changed = set()
        for name, rows in look_up(self.index.clamp_min(0)).items():
            held, known = self.condition(name, rows), self.index >= 0
            known = known.view(-1, *[1] * (rows.ndim - 1))
            read = torch.where(known, rows.to(held.dtype), held)
            if not torch.equal(read.nan_to_num(), held.nan_to_num()):
                changed.add(name)
            held.copy_(read)
        for _, statistic, gram in self._running():
            if not changed.isdisjoint(statistic.names):
                gram.rebuild(self._values(statistic), self.valid)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *more: Any) -> None:
        for key in [key for key in state_dict if key.startswith(prefix)]:
            name = key.removeprefix(prefix)
            if name.startswith(_CONDITION) and name not in self._buffers:
                self._hold(name, torch.zeros_like(state_dict[key], device=self.keys.device))
        for key in [key for key in state_dict if key.startswith(f"{prefix}running.")]:
            # No objective reads it, such as after training.
            if key.split(".")[-2] not in self.running:
                del state_dict[key]
        super()._load_from_state_dict(state_dict, prefix, *more)


class WithQueue:
    """A method with a queue: passes the calls of training to ``self.queue``, if that is not None.

    List this class before other base classes, ``class MoCoV2(WithQueue, MomentumMethod)``. The
    method makes the queue, and adds it to its pairs with `FeatureQueue.add_to`.
    """

    queue: FeatureQueue | None

    def enqueue(self, pairs: Pairs) -> None:
        """Put the last view's keys of all processes into the queue."""
        if self.queue is not None:
            self.queue.enqueue(pairs)

    def check_batch(self, size: int) -> None:
        """Refuse a global batch of more samples than the queue holds.

        Raises:
            ValueError: For such a batch; the message names sizes that fit.
        """
        if self.queue is not None:
            self.queue.check_batch(size)

    def read_conditions(self, look_up: LookUp) -> None:
        """Read the queue's condition values again from refreshed tables."""
        if self.queue is not None:
            self.queue.read_conditions(look_up)

    def keep_statistics(self, statistics: Mapping[str, Statistic]) -> None:
        """Keep Gram matrices of the queue's conditions for an objective that reads them."""
        if self.queue is not None:
            self.queue.keep_statistics(statistics)


class QueuedLoss(nn.Module):
    """An objective with a queue of earlier keys and their conditions, in a single call.

    In a loop of your own it replaces lightly's ``NTXentLoss(memory_bank_size=(size, dim))``. A call
    computes the loss against the queue, and then stores the keys, so call it once per step. For a
    loss in which both views are queries, make one call on both: ``criterion(torch.stack([q0, q1]),
    torch.stack([k0, k1]))``. Without gradient, such as in validation, the queue does not change.
    The backward pass reads a copy of the queue; `FeatureQueue.pairs` needs no copy.

    Args:
        objective: Any objective.
        size: Keys that the queue holds, 1 or more.
        dim: d, their dimension, 1 or more.
        gather_distributed: Compare with the keys of all processes. The objective's own
            ``gather_distributed=True`` has the same effect.
    """

    def __init__(
        self, objective: Any, size: int, dim: int, *, gather_distributed: bool = False
    ) -> None:
        super().__init__()
        if not trait(objective, "reads_queue"):
            warnings.warn(
                f"{type(objective).__name__} compares the samples of a batch alone, so the queue has no"
                " effect: call it without a queue, or add it to another objective in a Mixture",
                stacklevel=2,
            )
        self.objective = objective
        self.queue = FeatureQueue(size, dim)
        own: bool = getattr(objective, "gather_distributed", False)
        self.gather_distributed = gather_distributed or own

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        condition: Tensor | Mapping[str, Tensor] | None = None,
        index: Tensor | None = None,
        missing: Literal["error", "ignore"] = "error",
    ) -> Tensor:
        """The loss of a batch; the arguments are those of `FeatureQueue.pairs`.

        Raises:
            TypeError: For a missing condition, one that is not read, or one of another value type.
            ValueError: As `FeatureQueue.pairs`, and for a batch of more keys than the queue holds.
        """
        name, wanted = type(self.objective).__name__, self.objective.conditions
        given = by_name(name, wanted, condition)
        pairs = self.queue.pairs(
            queries,
            keys,
            {key: of_type(name, key, z, wanted[key]) for key, z in given.items()},
            index,
            embedding=self.objective.embedding,
            gather_distributed=self.gather_distributed,
            missing=missing,
        )
        if not queries.requires_grad:
            loss: Tensor = self.objective.loss(pairs)
            return loss
        queue = pairs.queue and replace(pairs.queue, keys=self.queue.keys.clone())
        loss = self.objective.loss(replace(pairs, queue=queue))
        self.queue.enqueue(pairs)
        return loss


def holds_conditions(key: str) -> bool:
    """Whether an entry of a state dict holds a queue's condition rows, where values may be missing."""
    return key.rpartition(".")[2].startswith(_CONDITION)


def _form(rows: Tensor) -> str:
    return f"({', '.join(['n', *map(str, rows.shape[1:])])}) {rows.dtype}"


def _last_view(rows: Tensor) -> Tensor:
    return rows[-1] if rows.ndim == 3 else rows


def _buffer(name: str) -> str:
    # The name of a condition may contain dots, that of a buffer may not.
    return _CONDITION + name.replace("%", "%25").replace(".", "%2E")
