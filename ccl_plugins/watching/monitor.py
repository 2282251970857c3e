"""The monitor: measures what a run learns, by evaluators on features of its steps, and the cost."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.files.mapped import rows
from ccl_plugins.files.processes import is_first
from ccl_plugins.information.plane import points
from ccl_plugins.metadata.groups import sample_groups
from ccl_plugins.metadata.variable import Variable
from ccl_plugins.protocols import Evaluator, Frozen, trait
from ccl_plugins.training import ranks
from ccl_plugins.training.findings import Finding
from ccl_plugins.training.loss_log import COSTS, publish
from ccl_plugins.watching.bank import Bank, roles
from ccl_plugins.watching.batches import described_kernels, same_label
from ccl_plugins.watching.columns import LABEL, Columns
from ccl_plugins.watching.noise import alone, unmoved
from ccl_plugins.watching.settings import MonitorSettings
from ccl_registry.errors import one_line


class Costs(Callback):
    """Measures the seconds of training and of each monitor, over all resumes of a run.

    On a GPU a monitor's seconds are the time between two CUDA events, which are read at the end, so
    that the processor never waits for them.
    """

    def __init__(self) -> None:
        self.training = 0.0
        """Seconds of training until the last stop."""
        self.monitors: dict[str, float] = {}
        """Seconds by measure."""
        self._since: float | None = None
        self._events: list[tuple[str, Any, Any]] = []

    @contextmanager
    def measuring(self, name: str, device: torch.device) -> Iterator[None]:
        """Add the time of the block to a monitor's time."""
        if device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            yield
            end.record()
            self._events.append((name, begin, end))
            return
        begin_time = time.perf_counter()
        yield
        self._add(name, time.perf_counter() - begin_time)

    def read(self) -> None:
        """Read the events of the GPU; waits for it."""
        for name, begin, end in self._events:
            end.synchronize()
            self._add(name, begin.elapsed_time(end) / 1000)
        self._events = []

    def _add(self, name: str, seconds: float) -> None:
        self.monitors[name] = self.monitors.get(name, 0.0) + seconds

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Start the clock."""
        self._since = time.perf_counter()

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Stop the clock, and tell other callbacks the monitors' share."""
        self.read()
        self.stop()
        if self.monitors:
            publish(trainer, {COSTS: self.share})

    def on_exception(self, trainer: pl.Trainer, pl_module: Any, exception: BaseException) -> None:
        """Stop the clock without a call to the device, which may have failed."""
        self.stop()

    def stop(self) -> None:
        """Stop the clock, if it runs."""
        self.training, self._since = self._trained(), None

    def _trained(self) -> float:
        running = 0.0 if self._since is None else time.perf_counter() - self._since
        return self.training + running

    @property
    def share(self) -> float:
        """The monitors' part of the training time, from 0 to 1."""
        return sum(self.monitors.values()) / max(self._trained(), 1e-9)

    def to_dict(self) -> dict[str, float]:
        """Seconds by name, ``monitors`` the sum over measures, and ``monitors_share``."""
        costs = {"training": self.training, "monitors": sum(self.monitors.values())}
        costs |= {f"monitors/{name}": seconds for name, seconds in self.monitors.items()}
        return {**costs, "monitors_share": self.share}

    def state_dict(self) -> dict[str, Any]:
        """The seconds until now."""
        self.read()
        return {"training": self._trained(), "monitors": dict(self.monitors)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue with the seconds of the run until its checkpoint."""
        self.training, self.monitors = state_dict["training"], dict(state_dict["monitors"])


SAMPLES = 65536
"""The most samples before a measurement that are used, because features change meanwhile."""

BATCH_SAMPLES = 256
"""The least number of samples before a measurement whose negatives are counted."""

RECENT = 1024
"""The most samples, the last ones, for evaluators without columns, or fitted within these samples."""


class Monitor(Callback):
    """Measures what a run learns, from the features and projections of its own steps.

    It encodes no image, draws no random number and changes no weight.  Before a measurement is due, in the
    last epoch or the last 65,536 samples, each step adds its features to a bank on the device; evaluators
    read it when the measurement is due, on the first process. Evaluators of columns are fitted to
    samples from nine tenths of the split and measured on samples from the last tenth; if no class
    is in both, for example because whole groups are held out, `Held` reads the column within the
    last samples. Features are of the first view, in training mode, while the encoder changes, so
    the numbers differ slightly from those after training.

    The values are logged as ``monitor/<measurement>``, and are in ``trainer.callback_metrics``, the same
    on all processes.

    Args:
        settings: The measurements and their times.
        costs: Measures the time of the monitor.
        evaluators: The built evaluators of the settings; None: those that follow from the columns.
        columns: Metadata columns to read in addition to the label and the conditions.
    """

    def __init__(
        self,
        settings: MonitorSettings,
        costs: Costs,
        evaluators: Sequence[Evaluator] | None = None,
        columns: Iterable[str] = (),
    ) -> None:
        self.settings, self.costs, self.evaluators = settings, costs, evaluators
        self.columns_read = tuple(columns)
        self.bank = Bank()
        """The index, features and projections of two views of each sample."""
        self.due = 0
        """The number of batches of the run after which the next measurement is taken."""
        self._begin = self._width = 0
        self._sides = (torch.arange(0), torch.arange(0))
        self._index = torch.empty(0)
        self._same_label: Tensor | None = None
        self._kernels: dict[str, Tensor] = {}
        self._informed: dict[str, tuple[Tensor, dict[str, float]]] = {}
        self._failed: set[tuple[str, ...]] = set()
        self._restored: Mapping[str, Any] = {}
        self._first = False
        """Whether the next measurement is the first of a run, which is compared with noise."""
        self._unmoved: list[Finding] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Choose the samples to keep, and continue from a resumed run's state."""
        module, size = pl_module, len(pl_module.split)
        settings = module.settings
        self._length = length = module.length
        types = module.parts.dataset.schema()
        self.columns = Columns(module.tables, module.split, types, self.columns_read)
        label = self.columns.label
        self._labels = None if label is None else label.to(module.device)
        self._plan(module.consumed.batches)
        epoch, steps = length.batches_per_epoch, self.settings.every_steps
        interval = (steps or epoch) * length.accumulate
        self._most = min(-(-SAMPLES // settings.batch_size), epoch, interval)
        self._counted = min(-(-BATCH_SAMPLES // settings.batch_size), self._most)
        passes = self._most * settings.batch_size / size
        written, self._held = roles(size, passes, sample_groups(module.split))
        self._written = written.to(module.device)
        fitted, held = (written & side for side in (~self._held, self._held))
        self._sides = fitted.nonzero().flatten(), held.nonzero().flatten()
        self._first = not module.consumed.batches
        self._load(module.device)

    def _plan(self, batches: int) -> None:
        """Find when the next measurement is due after some batches."""
        length, every = self._length, self.settings.every_steps
        if every is None:
            every = self.settings.epochs(length.steps_per_epoch) * length.steps_per_epoch
        due = (length.steps_after(batches) // every + 1) * every
        self._begin = length.batches_after(due - every)
        self.due = min(length.batches_after(due), length.batches)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Note the samples of the batch."""
        self._index = batch.index if batch.index.ndim == 1 else batch.index[:, 0]

    def on_after_backward(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Use the batch, if a measurement is near; waits for the device only at the last batch."""
        batch = pl_module.consumed.batches
        left = self.due - batch
        if left > min(self._most, self.due - self._begin):
            return
        pairs, device = pl_module.pairs, pl_module.device
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            with self.costs.measuring("bank", device):
                self._keep(pairs, batch)
            if left <= self._counted and self._labels is not None:
                with self.costs.measuring("same_label_negatives", device):
                    counts = same_label(pairs, self._labels)
                    if counts is not None:
                        before = self._same_label
                        self._same_label = counts if before is None else before + counts
            if left == 1:
                with self.costs.measuring("kernel", device):
                    self._kernels = described_kernels(pl_module.objective, pairs)

    def _keep(self, pairs: Any, batch: int) -> None:
        """Write the features of the first view, and the projections of the first two that are compared."""
        i, j = next(iter(pairs.cross()))
        views = (pairs.anchors[i], pairs.keys[j, pairs.rows])
        features = pairs.samples.features[0]
        parts = (features, *(normalize(each, dim=-1) for each in views))
        self._width = features.shape[1]
        kept = torch.cat([each.float() for each in parts], dim=1)
        self.bank.write(kept, self._index, self._written[self._index], batch)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Take the measurement if it is due, and log it."""
        if pl_module.consumed.batches < self.due:
            return
        with torch.no_grad(), torch.autocast(pl_module.device.type, enabled=False):
            mine = dict(self._measured(pl_module))
        values = {f"monitor/{k}": v for k, v in ranks.of_first(mine).items() if math.isfinite(v)}
        publish(trainer, values, trainer.global_step)
        self._clear()
        self._plan(pl_module.consumed.batches)

    def _measured(self, module: Any) -> Iterator[tuple[str, float]]:
        """All numbers by name; those that the first process computes are published on all."""
        with self.costs.measuring("bank", module.device):
            numbers, index = self.bank.read()
        if is_first() and len(index):
            yield from self._evaluated(numbers, index).items()
            for finding in self._unmoved:
                module.findings.say(replace(finding, step=module.global_step))
            self._first, self._unmoved = False, []
        if self._same_label is not None:
            same, negatives = ranks.summed([self._same_label])[0].tolist()
            if negatives:
                yield "same_label_negatives", same / negatives
        for name, each in self._kernels.items():
            surviving, neighbors = each.tolist()
            yield f"{name}/surviving_weight", surviving
            yield f"{name}/effective_neighbors", neighbors
        with self.costs.measuring("information", module.device):
            yield from self._information(module.tables)

    def _evaluated(self, numbers: Tensor, index: Tensor) -> dict[str, float]:
        """Evaluators' measurements of a bank; none for features that are not finite.

        At the first measurement of a run, chosen evaluators measure noise too.
        """
        if not bool(numbers.isfinite().all()):
            return {}
        columns = self.columns.measurable()
        features, projections = numbers[:, : self._width], numbers[:, self._width :]
        frozen = Frozen(
            features,
            {name: rows(values, index) for name, values in columns.items()},
            projections=projections.reshape(len(index), 2, -1).transpose(0, 1),
        )
        held = self._held[index]
        fit, out = ((~held).nonzero().flatten(), held.nonzero().flatten())
        train, test = varying(frozen.take(fit), frozen.take(out))
        recent = frozen.take(torch.arange(len(index))[-RECENT:])
        chosen, by_name = self.evaluators, dict[str, float]()
        with alone():
            for evaluator in self.columns.evaluators(*self._sides) if chosen is None else chosen:
                read, name = trait(evaluator, "columns"), type(evaluator).__name__
                on = test if read and not trait(evaluator, "within") else recent
                if not all(column in on.metadata for column in read) or not len(on.features):
                    continue
                with self.costs.measuring(name, features.device):
                    try:
                        measured = evaluator(train, on)
                        by_name |= {one.name: float(one.value) for one in measured}
                        if self._first and chosen is not None:
                            self._unmoved += unmoved([evaluator], train, on)
                    except Exception as error:
                        # Those that nobody chose may have too few samples.
                        if not (chosen is None and isinstance(error, ValueError)):
                            self._say(name, read, error)
        return by_name

    def _say(self, name: str, columns: Iterable[str], error: Exception) -> None:
        """Warn of an evaluator that raised, once for its columns."""
        if (about := (name, *columns)) not in self._failed:
            self._failed.add(about)
            warnings.warn(f"the monitor has no number of {name}: {one_line(error)}", stacklevel=2)

    def _information(self, tables: Any) -> Iterator[tuple[str, float]]:
        """I(Z;T) and H(Z|T) of each condition of class ids, computed again when it is refreshed."""
        target = self.columns.label
        if target is None:
            return
        for name, variable in tables.variables.items():
            if name == LABEL or variable.value_type != "categorical":
                continue
            if name not in self._informed or self._informed[name][0] is not variable:
                ids, both = variable.values, ~variable.missing & (target >= 0)
                levels = [*points(name, ids[both], target[both])] if both.any() else []
                about = [each.information for each in levels]
                self._informed[name] = (
                    variable,
                    {
                        word: sum(getattr(each, attribute) for each in about) / len(about)
                        for word, attribute in (
                            ("mutual_information", "mutual"),
                            ("conditional_entropy", "conditional_entropy"),
                        )
                        if about
                    },
                )
            yield from ((f"{name}/{k}", v) for k, v in self._informed[name][1].items())

    def _clear(self) -> None:
        self.bank.clear()
        self._same_label, self._kernels = None, {}

    def state_dict(self) -> dict[str, Any]:
        """The state of an unfinished interval, of all processes; called by all of them."""
        same = [] if self._same_label is None else ranks.summed([self._same_label])
        return {
            "settings": self.settings.to_dict(),
            "due": self.due,
            "width": self._width,
            "bank": self.bank.state_dict(),
            "same_label": [each.cpu() for each in same],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Keep the state of a checkpoint until training starts."""
        self._restored = state_dict

    def _load(self, device: torch.device) -> None:
        """Continue the interval of a checkpoint, unless the settings have changed it."""
        state, self._restored = self._restored, {}
        now = {"settings": self.settings.to_dict(), "due": self.due}
        if not state or any(state[name] != value for name, value in now.items()):
            return
        self._width = state["width"]
        self.bank.load_state_dict(state["bank"], device)
        for each in state["same_label"]:  # the sum of all processes becomes the first one's
            near = each.to(device)
            self._same_label = near if is_first() else torch.zeros_like(near)


def varying(train: Frozen, test: Frozen) -> tuple[Frozen, Frozen]:
    """Both splits without numbers that are constant in the test samples, where R² is undefined."""
    both = [dict(train.metadata), dict(test.metadata)]
    for name, values in test.metadata.items():
        if values.is_floating_point() and len(values):
            given = Variable(values, "continuous").present
            varies = (given != given[:1]).any(0)
            for columns in both:
                if varies.any():
                    columns[name] = columns[name][:, varies]
                else:
                    del columns[name]
    return replace(train, metadata=both[0]), replace(test, metadata=both[1])
