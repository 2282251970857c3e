"""Why a run does not learn: one line for each problem, and none for a healthy run.

Symptoms are checked when the `LossLog` logs an interval, on the pairs of its last batch, because
the processor waits for the device then anyway. The ends of the loss's scale need two or three more
losses without gradient: at the first step, once or twice later, and when the loss has risen.
"""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor

from ccl_plugins.files.checkpoints import require_plain
from ccl_plugins.files.processes import is_first
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.objectives.scalars import Scheduled, changing
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Length, trait
from ccl_plugins.training.findings import Finding, Findings, read_findings
from ccl_plugins.training.loss_log import LossLog
from ccl_plugins.watching.batches import Embeddings, embedding_numbers
from ccl_plugins.watching.chance import Scale, detached, scale_of
from ccl_plugins.watching.first_steps import FIRST_STEPS
from ccl_plugins.watching.symptoms import SYMPTOMS, Beginning, Observation, Start, Symptom
from ccl_registry.errors import errors_as_warning

LEAST, MOST = 40, 2000
"""The least and the most optimizer steps that `patience` takes for half of a run."""


class Diagnosis(Callback):
    """Reports why a run does not learn, once for each reason, and keeps the lines in a file.

    Args:
        run: The run's folder, whose file of findings is a list of tables with the values of each.
        symptoms: Symptoms in addition to those of the library, from plug-ins.
        found: The findings before training.
    """

    def __init__(
        self, run: RunFolder, symptoms: Iterable[Symptom] = (), found: Iterable[Finding] = ()
    ) -> None:
        self.run = run
        self.found_before = tuple(found)
        built_in = (each() for each in (*SYMPTOMS, *FIRST_STEPS))
        self.symptoms = dict(_named([*built_in, *symptoms]))
        """The symptoms, by their names in checkpoints."""
        self._findings = Findings()
        self._losses: LossLog | None = None
        self._seen: Mapping[str, float] = {}
        self._pairs: Pairs | None = None
        self._weights: list[tuple[Tensor, Tensor]] = []
        """Some of the weights, with copies from before the first step."""
        self._first: list[Tensor] = []
        """The copies of a run that is resumed."""
        self._epochs: dict[str, int] = {}
        """The epochs of the tables that have been checked."""
        self._recent: deque[float] = deque(maxlen=2)
        self._start: Start | None = None

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        """Read the findings before a resume, and listen to findings of the training itself."""
        self._findings = pl_module.findings
        try:
            earlier = read_findings(self.run)
        except ValueError as error:
            warnings.warn(f"{error}; earlier findings may be reported again", stacklevel=2)
            earlier = []
        self._findings.found[:0] = earlier
        self._findings.said |= {(each.name, each.about) for each in earlier}
        self._findings.listener = self._write

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Check the facts that are known before the first step."""
        callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
        self._losses = next(each for each in callbacks if isinstance(each, LossLog))
        self._seen = self._losses.latest
        weights = _sample(pl_module.method)
        first = self._first or [_leading(each).clone() for each in weights]
        self._weights = [(w, was.to(w.device)) for w, was in zip(weights, first, strict=True)]
        if is_first():
            self._write()
        for finding in self.found_before:
            self._findings.say(finding)
        temperatures = [(each, float(value)) for each, value in _temperatures(pl_module.objective)]
        beginning = self._beginning(trainer, pl_module, temperatures)
        self._ask(lambda symptom: symptom.begin(Beginning(**beginning)))
        if self._start is None:  # a resumed run looks first at what is fitted for its epoch
            self._epochs = dict(pl_module.tables.epochs)

    def on_after_backward(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Keep the pairs of a batch after which an interval is logged."""
        step = trainer.global_step + 1
        last = step == pl_module.length.steps
        if not self._start or step % pl_module.settings.log_every == 0 or last:
            self._pairs = detached(pl_module.pairs)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Look at the first batch, and at the last one of each interval that was logged."""
        assert self._losses is not None
        if self._losses.latest is not self._seen:
            self._seen = self._losses.latest
            self._look(trainer, pl_module, self._seen["loss"], batch)
        elif not self._start and self._pairs is not None and trainer.global_step:
            self._look(trainer, pl_module, float(trainer.callback_metrics["loss"]), batch)

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Check an unfinished interval at the end of the run."""
        assert self._losses is not None
        if self._losses.latest is not self._seen:
            self._look(trainer, pl_module, self._losses.latest["loss"])
        self._pairs = None
        self._weights = []

    def state_dict(self) -> dict[str, Any]:
        """The state with which later losses and embeddings are compared."""
        return {
            "start": None if self._start is None else asdict(self._start),
            "recent": list(self._recent),
            "weights": [was for _, was in self._weights],
            "epochs": self._epochs,
            "symptoms": self._states(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        if start := state_dict["start"]:
            scale = Scale(**start["scale"]) if start["scale"] else None
            self._start = Start(Embeddings(**start["embeddings"]), start["loss"], scale)
        self._recent.extend(state_dict["recent"])
        self._first = state_dict["weights"]
        self._epochs = state_dict["epochs"]
        for name, each in [*self.symptoms.items()]:
            with self._leaving_out(name):
                each.load_state_dict(state_dict["symptoms"].get(name, {}))

    def _states(self) -> dict[str, dict[str, Any]]:
        """The state of each symptom, without states that cannot be written and would end the run."""
        states = {}
        for name, each in [*self.symptoms.items()]:
            with self._leaving_out(name):
                state = each.state_dict()
                require_plain(state, name)
                states[name] = state
        return states

    def _beginning(
        self, trainer: pl.Trainer, module: Any, temperatures: Iterable[tuple[str, float]]
    ) -> dict[str, Any]:
        """The arguments of a `Beginning`."""
        tables = module.tables
        fresh = tuple(n for n in tables if tables.epochs[n] != self._epochs.get(n))
        return {
            "step": trainer.global_step,
            "total": module.length.steps,
            "settings": module.settings,
            "rate": module.settings.optimizer.lr,
            "objective": module.objective,
            "read": frozenset({*module.objective.conditions, module.parts.sampler_on} - {None}),
            "tables": tables,
            "fresh": fresh,
            "temperatures": tuple(temperatures),
        }

    def _look(self, trainer: pl.Trainer, module: Any, loss: float, batch: Any = None) -> None:
        """Look at the last pairs, given the mean loss of the interval."""
        pairs, self._pairs = self._pairs, None
        if pairs is None:  # the first interval of a resumed run may have begun before
            return
        embeddings, temperatures = _measure(module.objective, pairs)
        self._recent.append(loss)
        scale = cache(partial(scale_of, module.objective, pairs))
        first = self._start is None
        if self._start is None:
            self._start = Start(embeddings, loss, scale())
        step, wait = trainer.global_step, patience(module.length)
        before = step - module.settings.log_every
        assert self._losses is not None
        seen = Observation(
            **self._beginning(trainer, module, temperatures),
            method=module.method,
            transform=module.parts.transform,
            split=module.split,
            first=first,
            halfway=step >= wait // 2,
            late=step >= wait,
            due=step == module.length.steps or before < wait <= step,
            batch=batch,
            pairs=pairs,
            loss=loss,
            recent=sum(self._recent) / len(self._recent),
            deviation=self._losses.deviation,
            embeddings=embeddings,
            start=self._start,
            momentum=trait(module.method, "momentum"),
            moved=cache(self._moved),
            scale=scale,
        )
        self._epochs = dict(module.tables.epochs)
        self._ask(lambda symptom: symptom.look(seen))

    def _ask(self, what: Callable[[Symptom], Iterable[Finding]]) -> None:
        """Report the findings of symptoms; a symptom that raises is named, and not checked again."""
        for name, symptom in [*self.symptoms.items()]:
            findings = list[Finding]()
            with self._leaving_out(name):
                findings = [_checked(each) for each in what(symptom)]
            for finding in findings:
                explained = any(each.explains for each in self._findings.found)
                if not (symptom.follows and explained):
                    self._findings.say(finding)

    def _leaving_out(self, name: str) -> AbstractContextManager[None]:
        """Stop checking a symptom that raises."""
        lost = f"the symptom {name} raised an error, and is no longer checked"
        return errors_as_warning(lost, then=partial(self.symptoms.pop, name))

    def _moved(self) -> float:
        """The change of the weights since the first step, relative to their norm."""
        with torch.no_grad():
            far = [(_leading(now) - was).square().sum() for now, was in self._weights]
            size = [was.square().sum() for _, was in self._weights]
            if not far:
                return 1.0
            total = torch.stack([torch.stack(far).sum(), torch.stack(size).sum()]).tolist()
        return float((total[0] / max(total[1], 1e-30)) ** 0.5)

    def _write(self, _: Finding | None = None) -> None:
        rows = [asdict(each) for each in self._findings.found]
        try:
            self.run.write(self.run.diagnosis, rows)
        except OSError as error:  # the run is worth more than what is said of it
            warnings.warn(f"{self.run.diagnosis} cannot be written: {error}", stacklevel=2)


def patience(length: Length) -> int:
    """The step from which a loss should have moved: half of the run, and 40 steps after the warm-up.

    Half of the run counts as at least 40 and at most 2000 steps.
    """
    return max(LEAST, min(length.steps // 2, MOST), length.warmup_steps + LEAST)


def _measure(objective: Any, pairs: Pairs) -> tuple[Embeddings, list[tuple[str, float]]]:
    """Numbers of the embeddings, and the temperatures, copied from the device at once."""
    numbers = embedding_numbers(pairs, objective.embedding == "raw")
    temperatures = [*_temperatures(objective)]
    values = [torch.as_tensor(value).to(numbers) for _, value in temperatures]
    copied = torch.cat([numbers, *(each[None] for each in values)]).tolist()
    count = len(numbers)
    settings = [setting for setting, _ in temperatures]
    return Embeddings(*copied[:count]), [*zip(settings, copied[count:], strict=True)]


def _temperatures(objective: Any) -> Iterator[tuple[str, Any]]:
    """The setting and the value of each temperature, both ends of a schedule; a learned one is a tensor."""
    for module in objective.modules():
        place = getattr(module, "place", "")
        within = f"objectives.{place.replace('/', '.objectives.')}." if place else ""
        setting = f"objective.{within}temperature"
        schedule = changing(module).get("temperature")
        if isinstance(schedule, Scheduled):
            yield setting, max(schedule.start, schedule.end)
            yield setting, min(schedule.start, schedule.end)
            continue
        value = getattr(module, "temperature", None)
        if isinstance(value, Tensor) and value.ndim == 0:
            yield setting, value.detach()
        elif isinstance(value, float | int):
            yield setting, value


def _sample(method: Any) -> list[Tensor]:
    """Some of the trained weights."""
    trained = [p for p in method.parameters() if p.requires_grad and p.ndim > 1]
    return trained[:: max(1, len(trained) // 32)]


def _leading(weight: Tensor) -> Tensor:
    """The first of its numbers."""
    return weight.detach().flatten()[:1024]


def _named(symptoms: Iterable[Symptom]) -> Iterator[tuple[str, Symptom]]:
    """Symptoms by their class; further ones of one class have a number."""
    counts = Counter[str]()
    for symptom in symptoms:
        name = f"{type(symptom).__module__}.{type(symptom).__qualname__}"
        counts[name] += 1
        yield (f"{name}[{counts[name]}]" if counts[name] > 1 else name), symptom


def _checked(finding: Any) -> Finding:
    if not isinstance(finding, Finding):
        raise TypeError(f"it must give findings, not {finding!r:.80}")
    return finding
