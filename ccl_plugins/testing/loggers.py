"""The laws of loggers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from fnmatch import fnmatch
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import SkipTest

from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.sums import SUMS
from ccl_plugins.numerics.generators import drawn_since, generator_states
from ccl_plugins.protocols import trait
from ccl_plugins.testing.assertions import require
from ccl_plugins.testing.inputs import seeded
from ccl_plugins.testing.subject import Subject
from ccl_plugins.watching.logging import is_name

MANY = 400
"""Numbers that are logged to compare the sizes of files: they take more than two pages of a database."""


def hyperparameters() -> dict[str, Any]:
    """A record and the versions of the code, as a run gives them; made anew for each logger."""
    objective = {"use": "infonce", "temperature": 0.5}
    return {
        "pipeline": {"objective": objective, "loggers": [], "fit": None},
        "code": {"torch": "2.0"},
    }


@contextmanager
def folder() -> Iterator[Path]:
    """The folder of a run."""
    with TemporaryDirectory(prefix="ccl-check-") as made:
        path = Path(made) / "run"
        path.mkdir()
        yield path


def opened(logger: Any, path: Path, done: int | None = None) -> Any:
    """The logger of a run, if what it needs is installed."""
    try:
        trait(logger, "check")()
    except ValueError as error:
        raise SkipTest(str(error)) from error
    return logger.open(path, done)


def log(made: Any, *steps: int) -> None:
    """Log as a run does, to its end; what is measured before training is logged first, at step 0."""
    if steps[0] == 1:
        _evaluate(made, {"evaluation/knn/top1": 0.5}, 0)
        made.save()
    if not getattr(made, "continues_run", False):
        made.log_hyperparams(hyperparameters())
    for step in steps:
        made.log_metrics(
            {"loss": 1 / (1 + step), "lr": 1e-3, "objective/scale": float("nan")}, step
        )
    made.save()
    made.finalize("success")


def _evaluate(made: Any, metrics: dict[str, float], step: int) -> None:
    """Log what is measured before or after training."""
    getattr(made, "log_evaluation", made.log_metrics)(metrics, step=step)


def contents(path: Path) -> dict[str, str]:
    """Every file in a folder and its checksum."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    return {str(f.relative_to(path)): sha256(f.read_bytes()).hexdigest() for f in files}


def sizes(path: Path) -> dict[str, int]:
    """Every file in a folder and its bytes."""
    return {file: (path / file).stat().st_size for file in contents(path)}


def observe(subject: Subject, logger: Any) -> Any:
    """Which of the files that a logger names are there after a run."""
    with folder() as path:
        log(opened(logger, path), 1, 2)
        return {name: float(any(path.glob(name))) for name in trait(logger, "files")}


def check_opens_a_lightning_logger(subject: Subject) -> None:
    """``open(folder, done)`` must return a Lightning logger, which takes numbers and hyperparameters."""
    from pytorch_lightning.loggers import Logger

    with folder() as path:
        made = opened(subject.build(), path)
        require(isinstance(made, Logger), f"it returned {made!r}")
        log(made, 1, 2)


def check_leaves_what_it_names(subject: Subject) -> None:
    """``files`` must name every file that a logger leaves in the run's folder; none may be elsewhere."""
    logger = subject.build()
    names = list(trait(logger, "files"))
    for name in names:
        require(is_name(name), f"{name!r} is neither a name nor a pattern of files in the folder")
    with folder() as path, TemporaryDirectory(prefix="ccl-check-") as current:
        with chdir(current):
            log(opened(logger, path), 1, 2)
        beside = sorted(each.name for each in Path(current).iterdir())
        require(not beside, f"it leaves {beside} in the current folder: write into the run's")
        for left in (
            each
            for each in path.iterdir()
            if each.name not in (RunFolder(path).inventory.name, SUMS)
        ):
            named = any(fnmatch(left.name, name) for name in names)
            require(named, f"it leaves {left.name}, and names {names}")
        if trait(logger, "on_disk"):
            require(any(path.iterdir()), "it is on_disk, and leaves nothing")


def check_keeps_what_it_logged_when_it_is_resumed(subject: Subject) -> None:
    """Opened with ``done``, a logger must continue the files that it began, and begin none of them anew.

    A logger that is ``on_disk`` must do so with a ``done`` of 0, too, after a stop in the first steps.
    """
    logger = subject.build()
    on_disk = trait(logger, "on_disk")
    for done in (3, 0) if on_disk else (3,):
        with folder() as path:
            made = opened(logger, path)
            if done:
                log(made, 1, 2, 3)
            else:
                _evaluate(made, {f"evaluation/number_{i}": float(i) for i in range(MANY)}, 0)
                made.finalize("failed")
            before = sizes(path)
            log(opened(logger, path, done=done), 4)
            for file, size in before.items():
                now = sizes(path).get(file, -1)
                # A service writes notes of its own beside what it logs.
                kept = now >= size or (now >= 0 and not on_disk)
                report = f"{file} had {size} bytes, and has {now} after one more step"
                require(kept, f"opened with done={done}: {report}")


def check_repeats_no_step_when_it_is_resumed(subject: Subject) -> None:
    """Steps after ``done`` are logged again: their earlier numbers must be deleted or hidden.

    The law compares the sizes of files of a logger that is ``on_disk``.  They may differ by half of what a
    step adds, since times differ in their number of digits.
    """
    logger = subject.build()
    if not trait(logger, "on_disk") or any("*" in name for name in trait(logger, "files")):
        raise SkipTest("its files have other names in each run, or are not on this disk")
    with folder() as path, folder() as other:
        log(opened(logger, path), 1, 2)
        log(opened(logger, path, done=1), 2)
        log(opened(logger, other), 1)
        of_one = sizes(other)
        log(opened(logger, other, done=1), 2)
        logged_twice, right = sizes(path), sizes(other)
        step = {file: max(size - of_one.get(file, 0), 0) for file, size in right.items()}
        require(
            logged_twice.keys() == right.keys()
            and all(abs(logged_twice[f] - right[f]) <= step[f] / 2 for f in right),
            f"with step 2 logged before the resume too, {right} became {logged_twice}",
        )


def check_ends_with_its_run(subject: Subject) -> None:
    """After ``finalize`` a logger must write no more into the run's folder: the next run has its own."""
    logger = subject.build()
    with folder() as first, folder() as second:
        log(opened(logger, first), 1, 2)
        before = contents(first)
        log(opened(logger, second), 1, 2)
        require(contents(first) == before, "the next run changed the folder of the one before")


def check_writes_the_last_step(subject: Subject) -> None:
    """What is logged last must be written when ``finalize`` returns; no ``save`` comes in between.

    The law examines the files of a logger that is ``on_disk``.
    """
    logger = subject.build()
    if not trait(logger, "on_disk"):
        raise SkipTest("it is not on_disk")

    def left(many: int, loss: float = 0.5) -> tuple[list[str], int]:
        """The checksums and bytes of its files, with more numbers in the step ``many``, and a last loss."""
        with folder() as path:
            made = opened(logger, path)
            made.log_hyperparams(hyperparameters())
            for step in (1, 2, 3):
                metrics = {"loss": loss if step == 3 else 1 / step, "lr": 1e-3}
                # In a table, the columns of these numbers take equal space, whichever step has them.
                more = {f"objective/number_{i}": float(i) for i in range(200)}
                made.log_metrics(metrics | (more if step == many else {}), step)
            made.finalize("success")
            return sorted(contents(path).values()), sum(sizes(path).values())

    none, _ = left(0)
    if none == left(0)[0]:
        report = "its files are the same whatever the loss of the last step is"
        require(left(0, loss=0.25)[0] != none, report)
        return
    # Files that contain a time always differ: their sizes show whether 200 more numbers are there.
    (_, few), (_, at_first), (_, at_last) = left(0), left(1), left(3)
    if at_first - few < 1000:
        raise SkipTest("its files differ in each run, and are no larger with more numbers")
    report = f"its files have {few} bytes, with 200 more numbers in step 1 of 3 {at_first}"
    require(at_last - few > (at_first - few) / 2, f"{report}, and in step 3 {at_last}")


NUMBERS: dict[str, tuple[int, str, float]] = {
    "the loss of a step, in its fourth digit": (2, "loss", 0.4004),
    "a number beside the loss": (2, "lr", 2e-3),
    "a small number, in its fourth digit": (2, "lr", 1.004e-3),
    "a number of another call of the same step": (2, "monitor/knn/top1", 0.25),
    "a number that comes in a later step alone": (3, "objective/weight", 2.0),
    "the step of a number": (2, "step", 5),
    "what is measured before training": (0, "evaluation/knn/top1", 0.25),
}
"""By description, what one run logs differently: the step, the name and the other number."""


def check_writes_every_number(subject: Subject) -> None:
    """Every number must be in the files: another number, another step or a late number must change them.

    The monitors of a step and its loss come in two calls.  The law examines the files of a logger that is
    ``on_disk``, if two equal runs give equal files.
    """
    logger = subject.build()
    if not trait(logger, "on_disk"):
        raise SkipTest("it is not on_disk")

    def left(step: int = -1, name: str = "", number: float = 0) -> list[str]:
        """The checksums of its files, with another number in a step."""
        with folder() as path:
            made = opened(logger, path)
            made.log_hyperparams(hyperparameters())
            for at in range(4):
                metrics: dict[str, float] = {"loss": 0.4, "lr": 1e-3}
                metrics |= {"objective/weight": 1.0} if at == 3 else {}
                monitors = {"monitor/knn/top1": 0.5} if at == 2 else {}
                if at == 0:
                    metrics = {"evaluation/knn/top1": 0.5}
                if at == step and name != "step":
                    (monitors if name in monitors else metrics)[name] = number
                if monitors:
                    made.log_metrics(monitors, step=at)
                log_ = made.log_metrics if at else partial(_evaluate, made)
                log_(metrics, step=int(number) if at == step and name == "step" else at)
            made.finalize("success")
            return sorted(contents(path).values())

    expected = left()
    if expected != left():
        raise SkipTest("its files differ in each run")
    lost = [what for what, other in NUMBERS.items() if left(*other) == expected]
    require(not lost, f"its files do not change with: {'; '.join(lost)}")


def check_keeps_the_evaluation_that_is_last(subject: Subject) -> None:
    """``log_evaluation`` must replace its earlier numbers of the same step, and no other numbers.

    The law compares the sizes of files of a logger that is ``on_disk``: many numbers are measured before
    training, logged at the last step, measured after training, and measured again in a later session.
    """
    logger = subject.build()

    def left(evaluations: int) -> int:
        """The bytes of its files."""
        measured = {f"evaluation/number_{i}": float(i) for i in range(MANY)}
        with folder() as path:
            made = opened(logger, path)
            if not hasattr(made, "log_evaluation") or not trait(logger, "on_disk"):
                raise SkipTest("it is not on_disk, or what it opens has no log_evaluation")
            made.log_evaluation(measured, step=0)
            made.log_hyperparams(hyperparameters())
            made.log_metrics({f"objective/number_{i}": float(i) for i in range(MANY)}, 1)
            made.finalize("success")
            for _ in range(evaluations):
                again = opened(logger, path, done=1)
                again.log_evaluation(measured, step=1)
                again.finalize("success")
            return sum(sizes(path).values())

    none, once, twice = (left(evaluations) for evaluations in range(3))
    report = f"its files have {none} bytes, with {MANY} numbers measured after training {once}"
    require(once - none > MANY, f"{report}: what was logged before is gone, or these numbers are")
    report += f", and {twice} when they are measured again"
    require(twice - once < (once - none) / 2, report)


def check_keeps_what_it_logged_of_a_run_that_fails(subject: Subject) -> None:
    """``finalize("failed")``, which Lightning calls after an error, must write what was logged, too."""
    logger = subject.build()

    def left(status: str) -> dict[str, int]:
        with folder() as path:
            made = opened(logger, path)
            made.log_hyperparams(hyperparameters())
            made.log_metrics({"loss": 0.5, "lr": 1e-3}, 1)
            made.finalize(status)
            return sizes(path)

    failed, right = left("failed"), left("success")
    lost = [name for name, size in right.items() if failed.get(name, 0) < size / 2]
    # Services write notes of their own; a file with a time in its name differs in each run.
    if trait(logger, "on_disk") and failed.keys() == right.keys():
        require(not lost, f"a run that failed leaves the bytes {failed}, and another run {right}")


def check_leaves_what_it_gets(subject: Subject) -> None:
    """A logger must not change the numbers and hyperparameters that it gets: other loggers get them too."""
    metrics = {"loss": 16 / 3, "lr": 1e-3 / 7, "objective/scale": float("nan")}
    given: dict[str, Any] = {
        "log_hyperparams": hyperparameters(),
        "log_metrics": dict(metrics),
        "log_evaluation": {"evaluation/knn/top1": 2 / 3},
    }
    before = {method: repr(values) for method, values in given.items()}
    with folder() as path:
        made = opened(subject.build(), path)
        made.log_hyperparams(given["log_hyperparams"])
        _evaluate(made, given["log_evaluation"], 0)
        made.log_metrics(given["log_metrics"], 1)
        made.finalize("success")
    for method, values in given.items():
        require(repr(values) == before[method], f"{method} changed {before[method]} to {values}")


def check_leaves_the_generators(subject: Subject) -> None:
    """A logger must not change the state of Python's, numpy's or torch's generators, which draw the views.

    To draw the name of a run, use `uuid`, for example.
    """
    logger = subject.build()
    with seeded(987_654_321), folder() as path:  # a seed that no logger would set
        before = generator_states()
        log(opened(logger, path), 1, 2)
        require(not drawn_since(before), "it drew from them, or seeded them")


LIMIT = 0.05
"""Seconds that numbers may take to log; a file takes 0.001, and a step on a GPU 0.1."""


def check_logs_in_little_time(subject: Subject) -> None:
    """Logging the numbers of a step must take less than 0.05 seconds: the training waits for it.

    A logger of a slower service must send the numbers from a thread, or many at once.
    """
    with folder() as path:
        made = opened(subject.build(), path)
        made.log_hyperparams(hyperparameters())
        seconds = []
        for step in range(1, 11):
            start = time.perf_counter()
            made.log_metrics({"loss": 1 / step, "lr": 1e-3}, step)
            seconds.append(time.perf_counter() - start)
        made.finalize("success")
    # The fastest of 10: other processes may slow down some, and a step in which many are sent may be slow.
    report = f"the fastest of 10 steps took {min(seconds):.3f} s"
    require(min(seconds) < LIMIT, report)
