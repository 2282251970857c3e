"""The monitors: what a run learns, measured on what its steps compute anyway."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor

from ccl_plugins.evaluators.conditional_entropy import conditional_entropy
from ccl_plugins.information.plane import points
from ccl_plugins.metadata.values import missing_rows
from ccl_plugins.numerics.condition_values import missing_samples
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.training import ranks
from ccl_plugins.training.kernel_check import (
    SAMPLED_ROWS,
    describe_kernel,
    kernels_read,
    take,
    together,
    values_read,
)
from ccl_plugins.training.loss_log import publish
from ccl_plugins.watching import geometry
from ccl_plugins.watching.costs import Costs
from ccl_plugins.watching.probes import Probes
from ccl_plugins.watching.settings import MonitorSettings
from ccl_plugins.watching.variables import LABEL, Readings, exact_type

SAMPLES = 65536
"""The most samples before a measurement that are looked at, since features change meanwhile."""

BATCH_SAMPLES = 256
"""The samples before a measurement, at least, whose geometry is measured: batches are averaged."""

ROWS = 2048
"""The most samples of a batch whose geometry is measured."""

T_MINUS = 2.0
"""t⁻ of the conditional entropy."""

GEOMETRY = ("alignment", "uniformity", "conditional_entropy")


class Monitors(Callback):
    """Measures what a run learns, from the features and embeddings of its own steps.

    It encodes no image, draws no random number and changes no weight.  Before a measurement is due, in the
    last epoch or the last 65,536 samples, each step adds its features to sums and small banks on the
    device; they are read when the measurement is due.  The features are those of the first view, in
    training mode, while the encoder changes: the numbers differ a little from those of the evaluators.

    The values are logged as ``monitor/<measure>`` and ``monitor/<condition>/<measure>``, and are in
    ``trainer.callback_metrics``, the same on all processes.

    Args:
        settings: What is measured, and when.
        costs: Measures the time that it takes.
        columns: Metadata columns that are probed beside the label and the conditions.
    """

    def __init__(
        self, settings: MonitorSettings, costs: Costs, columns: Iterable[str] = ()
    ) -> None:
        self.settings, self.costs, self.columns = settings, costs, tuple(columns)
        self.measures = set(settings.measures)
        self.probes: Probes | None = None
        """The probes, once training has started."""
        self.due = 0
        """After how many batches of the run the next measurement is taken."""
        self._begin = 0
        self._index = torch.empty(0)
        self._same_label: Tensor | None = None
        self._geometry: list[Tensor] = []
        self._kernels: dict[str, Tensor] = {}
        self._epochs: dict[str, int] = {}
        """When the tables were fitted that the probes have seen."""
        self._informed: dict[str, tuple[Tensor, dict[str, float]]] = {}
        self._restored: Mapping[str, Any] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Choose the samples that probes are measured on, and go on where a resumed run stopped."""
        module, size = pl_module, len(pl_module.split)
        settings = module.settings
        self._length, self._accumulate = len(module.train_dataloader()), settings.accumulate
        self._last = self._length * settings.epochs
        types = module.parts.dataset.schema()
        self.readings = Readings(module.tables, module.split, types, module.device, self.columns)
        self._plan(module.consumed.batches)
        steps = self.settings.every_steps or self._length
        self._most = min(-(-SAMPLES // settings.batch_size), self._length, steps * self._accumulate)
        self._batches_looked_at = min(-(-BATCH_SAMPLES // settings.batch_size), self._most)
        passes = self._most * settings.batch_size / size
        self.probes = Probes(self.measures, self.readings, size, passes, self.costs)
        self._load(module.device)

    def _plan(self, batches: int) -> None:
        """Find when the next measurement is due after some batches."""
        per_epoch, steps = -(-self._length // self._accumulate), self.settings.every_steps
        if steps is None:
            every = self.settings.epochs(per_epoch) * self._length
            self.due = (batches // every + 1) * every
            self._begin = self.due - every
        else:
            epoch, rest = divmod(batches, self._length)
            taken = epoch * per_epoch + rest // self._accumulate
            step = (taken // steps + 1) * steps
            self.due, self._begin = self._batches(step), self._batches(step - steps)
        self.due = min(self.due, self._last)

    def _batches(self, step: int) -> int:
        """The batches consumed after an optimizer step; the last step of an epoch may have fewer."""
        epoch, rest = divmod(step, -(-self._length // self._accumulate))
        return epoch * self._length + rest * self._accumulate

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Note the samples of the batch."""
        self._index = batch.index if batch.index.ndim == 1 else batch.index[:, 0]

    def on_after_backward(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Look at the batch, if a measurement is near; waits for the device at the last batch alone."""
        batch = pl_module.consumed.batches
        left = self.due - batch
        if left > min(self._most, self.due - self._begin):
            return
        pairs, device = pl_module.pairs, pl_module.device
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            self._restart_if_refreshed(pl_module.tables.epochs)
            if self.probes is not None:
                first = pairs.samples.features[0].detach(), pairs.anchors[0].detach()
                self.probes.see(*first, self._index, batch)
            if left <= self._batches_looked_at:
                self._look_at(pairs)
            if left == 1 and "kernel" in self.measures:
                with self.costs.measuring("kernel", device):
                    self._kernels = _kernels(pl_module.objective, pairs)

    def _restart_if_refreshed(self, epochs: Mapping[str, int]) -> None:
        """Begin again if values of a condition have changed, which the probes have seen."""
        if self._epochs != epochs:
            if self._epochs:
                self._clear()
            self._epochs = dict(epochs)

    def _look_at(self, pairs: Any) -> None:
        """Measure a batch: its geometry, the same on all processes, and the labels of its negatives."""
        device = pairs.anchors.device
        if "same_label_negatives" in self.measures:
            with self.costs.measuring("same_label_negatives", device):
                found = _same_label(pairs, self.readings)
                if found is not None:
                    before = self._same_label
                    self._same_label = found if before is None else before + found
        if not self.measures & {*GEOMETRY}:
            return
        with self.costs.measuring("geometry", device):
            x = gather(pairs.anchors[0].detach())[:ROWS]
            measured = {name: torch.full((), torch.nan).to(x) for name in GEOMETRY}
            if "alignment" in self.measures:
                i, j = next(iter(pairs.cross()))
                two = pairs.anchors[i].detach(), pairs.keys[j, pairs.rows].detach()
                measured["alignment"] = geometry.alignment(*(gather(each)[:ROWS] for each in two))
            if "uniformity" in self.measures and len(x) > 1:
                measured["uniformity"] = geometry.uniformity(x)
            if "conditional_entropy" in self.measures and len(x) > 1:
                measured["conditional_entropy"] = conditional_entropy(x, T_MINUS)
            self._geometry.append(torch.stack([*measured.values()]))

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Take the measurement if it is due, and log it."""
        if pl_module.consumed.batches < self.due:
            return
        with torch.no_grad(), torch.autocast(pl_module.device.type, enabled=False):
            found = dict(self._measured(pl_module))
        values = {f"monitor/{k}": v for k, v in ranks.of_first(found).items() if math.isfinite(v)}
        publish(trainer, values, trainer.global_step)
        self._clear()
        self._plan(pl_module.consumed.batches)

    def _measured(self, module: Any) -> Iterator[tuple[str, float]]:
        if self.probes is not None:
            yield from self.probes.read().items()
        exact = exact_type(module.device)
        if self._geometry:
            means = torch.stack(self._geometry).to(exact).mean(0).tolist()
            yield from zip(GEOMETRY, means, strict=True)
        if self._same_label is not None:
            same, negatives = ranks.summed([self._same_label])[0].tolist()
            if negatives:
                yield "same_label_negatives", same / negatives
        for name, each in self._kernels.items():
            surviving, neighbors = each.tolist()
            yield f"{name}/surviving_weight", surviving
            yield f"{name}/effective_neighbors", neighbors
        if "information" in self.measures:
            with self.costs.measuring("information", module.device):
                yield from self._information(module.tables)

    def _information(self, tables: Any) -> Iterator[tuple[str, float]]:
        """I(Z;T) and H(Z|T) of each condition of class ids, computed again when it is refreshed."""
        target = self.readings.label
        if target is None:
            return
        for name in tables:
            if name == LABEL or tables.conditions[name].value_type != "categorical":
                continue
            ids = tables[name].values
            if name not in self._informed or self._informed[name][0] is not ids:
                both = ~missing_rows(ids, "categorical") & (target >= 0)
                levels = [*points(name, ids[both], target[both])] if both.any() else []
                about = [each.information for each in levels]
                self._informed[name] = (
                    ids,
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
        if self.probes is not None:
            self.probes.clear()
        self._same_label, self._geometry, self._kernels = None, [], {}

    def state_dict(self) -> dict[str, Any]:
        """What was seen of an unfinished interval, by all processes; called by all of them."""
        if self.probes is None:
            return {}
        same = [] if self._same_label is None else ranks.summed([self._same_label])
        return {
            "settings": self.settings.to_dict(),
            "due": self.due,
            "epochs": dict(self._epochs),
            "probes": self.probes.state_dict(),
            "same_label": [each.cpu() for each in same],
            "geometry": [each.cpu() for each in self._geometry],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Keep the state of a checkpoint until training starts."""
        self._restored = state_dict

    def _load(self, device: torch.device) -> None:
        """Continue the interval of a checkpoint, unless it was another with other settings."""
        state, self._restored = self._restored, {}
        if not state or self.probes is None:
            return
        if (state["settings"], state["due"]) != (self.settings.to_dict(), self.due):
            return
        self._epochs = dict(state["epochs"])
        self.probes.load_state_dict(state["probes"])
        self._geometry = [each.to(device) for each in state["geometry"]]
        for each in state["same_label"]:  # the sum of all processes becomes the first one's
            near = each.to(device)
            self._same_label = near if ranks.rank() == 0 else torch.zeros_like(near)


def _same_label(pairs: Any, readings: Readings) -> Tensor | None:
    """(2,) how many negatives of a batch have their anchor's label, and how many there are.

    None if labels are no class ids, or it is not known which samples are compared.
    """
    samples, queue = pairs.samples, pairs.queue
    if readings.label is None or samples.index is None:
        return None
    if queue is not None and queue.index is None:
        return None
    anchors = readings.labels(samples.index[pairs.rows])
    others = readings.labels(samples.index if samples.partner is None else samples.partner)
    if pairs.draws is not None:
        drawn = others[pairs.draws]
        counts = torch.ones_like(drawn, dtype=torch.bool)
        found = geometry.same_class(anchors, drawn, counts)
    else:
        if queue is not None:
            others = torch.cat([others, readings.labels(queue.index.clamp_min(0))])
        found = geometry.same_class(anchors, others, pairs.counted(pairs.negative))
    return found.to(exact_type(readings.device))


def _kernels(objective: Any, pairs: Any) -> dict[str, Tensor]:
    """(2,) surviving weight and effective neighbors by condition, or several, of the kernel that reads it.

    Over the first 512 samples of the batch that have a value.
    """
    found = {}
    for kernel, names in kernels_read(objective):
        if not all(name in pairs.samples.condition for name in names):
            continue
        values = {name: pairs.samples.condition_of(name) for name in names}
        lost = torch.stack([missing_samples(z) for z in values.values()]).any(0)
        kept = take(values, (~lost).nonzero().flatten()[:SAMPLED_ROWS])
        if len(kept[names[0]]) > 1:
            read = values_read(kept, names)
            found[together(names)] = torch.stack(describe_kernel(similarities(kernel, read, read)))
    return found
