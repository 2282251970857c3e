"""Loggers that break one law each."""

from __future__ import annotations

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


BROKEN = {
    Sound: set(),
    NoLogger: {"opens_a_lightning_logger"},
    Secret: {"leaves_what_it_names"},
    Everything: {"leaves_what_it_names"},
    Anew: {"keeps_what_it_logged_when_it_is_resumed"},
    Twice: {"repeats_no_step_when_it_is_resumed"},
    Shared: {"ends_with_its_run"},
}


@pytest.mark.parametrize("logger", BROKEN)
def test_the_law_that_is_broken_is_named(logger):
    assert BROKEN[logger] <= broken_laws("logger", logger)


def test_a_sound_logger_breaks_none():
    assert broken_laws("logger", Sound) == set()


def test_every_law_is_broken_once():
    assert set().union(*BROKEN.values()) == names("logger")
