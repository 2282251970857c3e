"""Loggers that break one law each."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest
from pytorch_lightning.loggers import Logger
from support.broken import broken_laws, names


class Lines(Logger):
    """Appends a line for each number."""

    name = version = "lines"

    def __init__(self, file, done):
        super().__init__()
        self.file = file
        old = file.read_text().splitlines(True) if done is not None and file.exists() else []
        file.write_text("".join(line for line in old if int(line.split()[0]) <= (done or 0)))

    def log_metrics(self, metrics, step=None):
        with self.file.open("a") as out:
            out.writelines(f"{step} {name} {value}\n" for name, value in metrics.items())

    def log_hyperparams(self, params):
        pass


class Sound:
    """Lines in a file."""

    files = ("lines.txt",)
    on_disk = True

    def open(self, folder, done):
        return Lines(folder / "lines.txt", done)


class NoLogger(Sound):
    """Opens what only looks like a logger."""

    def open(self, folder, done):
        made = super().open(folder, done)

        class Looks:
            log_metrics, log_hyperparams = made.log_metrics, made.log_hyperparams
            save, finalize = made.save, made.finalize

        return Looks()


class Secret(Sound):
    """Leaves a file that it does not name."""

    def open(self, folder, done):
        (folder / "secret").write_text("x")
        return super().open(folder, done)


class Everything(Sound):
    """Names all files of the folder."""

    files = ("lines.txt", "*")


class Anew(Sound):
    """Begins anew when it is resumed."""

    def open(self, folder, done):
        return Lines(folder / "lines.txt", None)


class Twice(Sound):
    """Has a step twice after a resume."""

    def open(self, folder, done):
        return Lines(folder / "lines.txt", None if done is None else 10**9)


class Shared(Sound):
    """Logs the next run into the folder of the first."""

    first = None

    def open(self, folder, done):
        if self.first is None or not self.first.file.parent.exists():
            self.first = Lines(folder / "lines.txt", done)
        return self.first


def opens(made_of):
    """The `open` of a component that opens a class of its own."""
    return lambda self, folder, done: made_of(folder / "lines.txt", done)


class Buffer(Lines):
    """Writes ten steps at once, or all that remain as it saves or ends."""

    rest = True

    def __init__(self, file, done):
        super().__init__(file, done)
        self.waiting = []

    def log_metrics(self, metrics, step=None):
        self.waiting.append((dict(metrics), step))
        if len(self.waiting) == 10:
            self.save()

    def save(self):
        for metrics, step in self.waiting:
            super().log_metrics(metrics, step)
        self.waiting = []

    def finalize(self, status):
        if self.rest:
            self.save()


class Buffered(Sound):
    """Writes what it keeps at its end."""

    open = opens(Buffer)


class Cut(Sound):
    """Forgets what it keeps at its end."""

    open = opens(type("CutBuffer", (Buffer,), {"rest": False}))


class Behind(Lines):
    """Writes a step when the next one comes, with the time."""

    latest = None

    def log_metrics(self, metrics, step=None):
        if self.latest is not None:
            super().log_metrics(*self.latest)
        self.latest = ({**metrics, "time": time.perf_counter()}, step)


class OneBehind(Sound):
    """Never writes the last step, and has other files in each run."""

    open = opens(Behind)


class Timed(Sound):
    """Has other files in each run."""

    class Clock(Lines):
        def log_metrics(self, metrics, step=None):
            super().log_metrics({**metrics, "time": time.perf_counter()}, step)

    open = opens(Clock)


class Popping(Sound):
    """Takes the rate out of the numbers."""

    class Pops(Lines):
        def log_metrics(self, metrics, step=None):
            metrics.pop("lr", None)
            super().log_metrics(metrics, step)

    open = opens(Pops)


class Flattening(Sound):
    """Writes into the hyperparameters that it gets."""

    class Flattens(Lines):
        def log_hyperparams(self, params):
            params["pipeline"]["objective"] = str(params["pipeline"]["objective"])

    open = opens(Flattens)


class Sampling(Sound):
    """Writes each number with a random name."""

    class Samples(Lines):
        def log_metrics(self, metrics, step=None):
            super().log_metrics(
                {f"{name}-{random.random()}": x for name, x in metrics.items()}, step
            )

    open = opens(Samples)


class Seeding(Sound):
    """Seeds numpy as it opens."""

    def open(self, folder, done):
        np.random.seed(0)
        return super().open(folder, done)


class Slow(Sound):
    """Waits for an answer at each step."""

    class Waits(Lines):
        def log_metrics(self, metrics, step=None):
            time.sleep(0.06)
            super().log_metrics(metrics, step)

    open = opens(Waits)


class Elsewhere(Sound):
    """Leaves a file where the command was called."""

    def open(self, folder, done):
        Path("notes.txt").write_text("x")
        return super().open(folder, done)


def writing(change):
    """A logger that writes what `change` makes of the numbers and the step."""

    class Changed(Lines):
        def log_metrics(self, metrics, step=None):
            super().log_metrics(*change(self, metrics, step))

    return opens(Changed)


class Rounding(Sound):
    """Writes two digits."""

    open = writing(lambda self, m, step: ({k: round(v, 2) for k, v in m.items()}, step))


class FirstColumns(Sound):
    """Writes the numbers whose names came first."""

    def known(self, metrics, step):
        if step and not hasattr(self, "first"):
            self.first = list(metrics)
        return {k: v for k, v in metrics.items() if k in getattr(self, "first", metrics)}, step

    open = writing(known)


class LossAlone(Sound):
    """Writes the loss."""

    open = writing(lambda self, m, step: ({k: v for k, v in m.items() if k == "loss"}, step))


class Successful(Sound):
    """Knows how runs end that do not fail."""

    class Ends(Lines):
        def finalize(self, status):
            assert status == "success"

    open = opens(Ends)


class FourDigits(Sound):
    """Writes four digits after the point."""

    open = writing(lambda self, m, step: ({k: f"{v:.4f}" for k, v in m.items()}, step))


class FirstOfAStep(Sound):
    """Writes what comes first of each step."""

    def first(self, metrics, step):
        known = step == getattr(self, "step", None)
        self.step = step
        return {} if known else metrics, step

    open = writing(first)


class RoundingInPlace(Sound):
    """Rounds the numbers that it gets."""

    class Rounds(Lines):
        def log_metrics(self, metrics, step=None):
            super().log_metrics(metrics, step)
            metrics.update({name: round(value, 6) for name, value in metrics.items()})

    open = opens(Rounds)


class NewAtZero(Sound):
    """Begins anew when it is resumed at step 0."""

    def open(self, folder, done):
        return super().open(folder, done or None)


def evaluating(gone):
    """A logger that takes out lines before it writes an evaluation."""

    class Evaluates(Lines):
        def log_evaluation(self, metrics, step):
            lines = self.file.read_text().splitlines(True)
            rows = [line.split() for line in lines]
            kept = [
                x
                for x, (at, name, _) in zip(lines, rows, strict=True)
                if not gone(int(at), name, step)
            ]
            self.file.write_text("".join(kept))
            self.log_metrics(metrics, step)

    return opens(Evaluates)


class Replacing(Sound):
    """Right: an evaluation takes the place of the one before."""

    open = evaluating(lambda at, name, step: at == step and name.startswith("evaluation/"))


class Appending(Sound):
    """Appends an evaluation to the one before."""

    open = evaluating(lambda at, name, step: False)


class ReplacingSteps(Sound):
    """Takes out all of a step that is evaluated."""

    open = evaluating(lambda at, name, step: at == step)


class ReplacingAll(Sound):
    """Takes out the evaluations of all steps."""

    open = evaluating(lambda at, name, step: name.startswith("evaluation/"))


EVERY, LATEST = "writes_every_number", "keeps_the_evaluation_that_is_last"
BROKEN = {
    Elsewhere: {"leaves_what_it_names"},
    Rounding: {EVERY},
    FourDigits: {EVERY},
    FirstOfAStep: {EVERY},
    RoundingInPlace: {"leaves_what_it_gets"},
    NewAtZero: {"keeps_what_it_logged_when_it_is_resumed"},
    Appending: {LATEST},
    ReplacingSteps: {LATEST},
    ReplacingAll: {LATEST},
    FirstColumns: {EVERY},
    LossAlone: {EVERY},
    Successful: {"keeps_what_it_logged_of_a_run_that_fails"},
    Sound: set(),
    Cut: {"writes_the_last_step"},
    OneBehind: {"writes_the_last_step"},
    Popping: {"leaves_what_it_gets"},
    Flattening: {"leaves_what_it_gets"},
    Sampling: {"leaves_the_generators"},
    Seeding: {"leaves_the_generators"},
    Slow: {"logs_in_little_time"},
    NoLogger: {"opens_a_lightning_logger"},
    Secret: {"leaves_what_it_names"},
    Everything: {"leaves_what_it_names"},
    Anew: {"keeps_what_it_logged_when_it_is_resumed"},
    Twice: {"repeats_no_step_when_it_is_resumed"},
    Shared: {"ends_with_its_run"},
}


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path):
    """What a broken logger leaves where Python runs is not left among the tests."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("logger", BROKEN)
def test_the_law_that_is_broken_is_named(logger):
    assert BROKEN[logger] <= broken_laws("logger", logger)


@pytest.mark.parametrize("logger", [Sound, Buffered, Timed, Replacing])
def test_a_sound_logger_breaks_none(logger):
    assert broken_laws("logger", logger) == set()


def test_every_law_is_broken_once():
    assert set().union(*BROKEN.values()) == names("logger")
