"""The watchers of a run: callbacks, loggers, the monitor and symptoms, of the user and of plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ccl_plugins.experiments.composition import Composition
from ccl_plugins.experiments.record import plugins_of, versions_of
from ccl_plugins.files.processes import is_first
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.kinds import registry
from ccl_plugins.protocols import trait
from ccl_plugins.training.findings import Finding
from ccl_plugins.watching.logging import check_loggers, contained, log_hyperparameters, opened

if TYPE_CHECKING:
    from ccl_plugins.watching.monitor import Costs


@dataclass(frozen=True)
class Watchers:
    """The watchers of a run.

    Args:
        pipeline: The pipeline, whose loggers and monitor are among them.
        callbacks: Lightning callbacks of the user and of plug-ins.
        logger: Lightning loggers of the user; True for those of the pipeline, or False.
        plugin_loggers: Loggers of plug-ins.
        symptoms: Symptoms of plug-ins.
        versions: The plug-ins of all watchers, with their versions.
    """

    pipeline: Composition
    callbacks: Sequence[Any]
    logger: Sequence[Any] | bool
    plugin_loggers: Sequence[Any]
    symptoms: Sequence[Any]
    versions: Mapping[str, str]

    @contextmanager
    def opened_loggers(self, run: RunFolder, done: int | None) -> Iterator[list[Any]]:
        """All loggers, whose errors do not stop training, with the one that keeps the run's curves.

        Args:
            run: The run's folder; the files of the pipeline's loggers are noted there.
            done: The step of the checkpoint to resume from; None: a new run.
        """
        chosen = self.pipeline.built_loggers if self.logger is True else {}
        own = () if isinstance(self.logger, bool) else self.logger
        opening = (
            opened(chosen, run.path, done)
            if is_first()
            else nullcontext(_on_this_process([*chosen, run.history]))
        )
        with opening as ours:
            yield [*_on_this_process(own), *ours, *_on_this_process(self.plugin_loggers)]

    def all_callbacks(
        self,
        run: RunFolder,
        record: Mapping[str, Any],
        costs: Costs,
        found: Iterable[Finding] = (),
        *,
        resumed: bool,
    ) -> list[Any]:
        """The callbacks, with those that watch every run.

        Args:
            run: The run's folder.
            record: Its record, which loggers get.
            costs: Measures the time of the other callbacks.
            found: The findings before training.
            resumed: Whether the run is resumed.
        """
        from pytorch_lightning.callbacks import LambdaCallback

        from ccl_plugins.watching.diagnosis import Diagnosis
        from ccl_plugins.watching.monitor import Monitor

        def tell_loggers(trainer: Any, module: Any) -> None:
            if is_first():
                log_hyperparameters(trainer.loggers, record, module.tables.tables, resumed)

        watching: list[Any] = [LambdaCallback(on_train_start=tell_loggers), costs]
        if self.pipeline.monitor is not None:
            monitors = self.pipeline.built_monitors
            evaluators = [*self.pipeline.built_evaluators, *(monitors or ())]
            columns = [name for each in evaluators for name in trait(each, "columns")]
            watching.append(Monitor(self.pipeline.monitor, costs, monitors, columns))
        return [*watching, *self.callbacks, Diagnosis(run, self.symptoms, found)]


def watchers_of(pipeline: Composition, callbacks: Iterable[Any], logger: Any) -> Watchers:
    """The watchers of a pipeline's run, with those that plug-ins give through hooks.

    Args:
        pipeline: The pipeline.
        callbacks: Lightning callbacks.
        logger: True or None for the pipeline's loggers, False, a Lightning logger or a list of them.

    Raises:
        TypeError: For callbacks and loggers that are not Lightning's.
        ValueError: For loggers that are not installed or lack an option.
    """
    from pytorch_lightning import Callback
    from pytorch_lightning.loggers import Logger

    hooks = ("ccl_callbacks", "ccl_loggers", "ccl_symptoms")
    options = pipeline.hook_options
    hooked, logging, looking = (
        registry().call(hook, pipeline=pipeline, options=options) for hook in hooks
    )
    wanted = "callbacks must be a list of Lightning callbacks"
    listed = [*_all(Callback, callbacks, wanted), *_of_plugins(Callback, hooked, wanted)]
    loggers = _loggers(logger)
    offered = _of_plugins(Logger, logging, "loggers must be a list of Lightning loggers")
    if loggers is True:
        check_loggers(pipeline.built_loggers)
    monitors = pipeline.monitor.evaluate if pipeline.monitor else None
    versions = plugins_of([*pipeline.loggers.values(), *(monitors or ())])
    versions |= versions_of(name for name, _ in (*hooked, *logging, *looking))
    return Watchers(
        pipeline,
        listed,
        loggers,
        plugin_loggers=[] if loggers is False else offered,
        symptoms=[each for _, symptoms in looking for each in symptoms],
        versions=versions,
    )


def _on_this_process(loggers: Sequence[Any]) -> list[Any]:
    """Loggers whose errors do not stop training; on processes other than the first, they log nothing."""
    from pytorch_lightning.loggers.logger import DummyLogger

    return [contained(each) if is_first() else DummyLogger() for each in loggers]


def _loggers(given: Any) -> Any:
    """True, False, or a list of Lightning loggers."""
    from pytorch_lightning.loggers import Logger

    if isinstance(given, bool) or given is None:
        return given is not False
    wanted = "True (the pipeline's loggers), False, a Lightning logger or a list of them"
    return [given] if isinstance(given, Logger) else _all(Logger, given, f"logger must be {wanted}")


def _all(cls: type, given: Any, wanted: str) -> list[Any]:
    """The given objects as a list, all of one class; an error names the right type."""
    listed = list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(each, cls) for each in listed):
        raise TypeError(f"{wanted}, not {given!r}")
    return listed


def _of_plugins(cls: type, hooked: Iterable[tuple[str, Any]], wanted: str) -> list[Any]:
    """The results of plug-ins' hooks, all of one class."""
    return [each for name, given in hooked for each in _all(cls, given, f"plugin {name}: {wanted}")]
