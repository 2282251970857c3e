"""What training costs, and how much of it the monitors take."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback

from ccl_plugins.training.loss_log import COSTS, publish


class Costs(Callback):
    """Measures the seconds of training and of each monitor, over all resumes of a run.

    On a GPU a monitor's seconds are those between two events in the stream of work; they are read at the
    end, so that the processor never waits for them.
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
        """Add the time of what is done inside to that of a monitor."""
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
        """Stop the clock; the device, which may have failed, is not asked."""
        self.stop()

    def stop(self) -> None:
        """Stop the clock; nothing if it stands."""
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
