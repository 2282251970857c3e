"""A pipeline that can be trained, and the run that training leaves."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.nn.functional import normalize

import ccl_registry as engine
from ccl_plugins.arguments import one_of, whole
from ccl_plugins.datasets.splitting import SPLITS, check_split
from ccl_plugins.experiments.components import Components
from ccl_plugins.experiments.composition import Composition
from ccl_plugins.experiments.configuration import read_evaluators
from ccl_plugins.experiments.information import plane
from ccl_plugins.experiments.learning_rates import LearningRates, find_learning_rate
from ccl_plugins.experiments.measure import (
    TIMES,
    Measured,
    Time,
    any_reads,
    freeze,
    measure,
    measure_to_choose,
    numbers,
    read_measurements,
    write_measurements,
)
from ccl_plugins.experiments.record import Record, check_plugins, read_json
from ccl_plugins.experiments.recorded import Recorded, lost_objects, refuse_lost, with_objects
from ccl_plugins.experiments.rules import check_columns, texts_for_evaluators
from ccl_plugins.experiments.train import check_run, prepare, train
from ccl_plugins.files.images import read_image
from ccl_plugins.files.lock import owning
from ccl_plugins.files.messages import one_line_warnings
from ccl_plugins.files.pixels import UnreadableImage
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.tensors import read_tensors
from ccl_plugins.information.plane import Point
from ccl_plugins.networks.devices import accelerator
from ccl_plugins.numerics.generators import undisturbed
from ccl_plugins.protocols import Dataset, Frozen, Measurement, Table
from ccl_plugins.training.features import embed_texts
from ccl_plugins.training.parts import BackboneAlone, Parts
from ccl_plugins.training.ranks import rank
from ccl_plugins.training.same_data import require_data_of
from ccl_plugins.training.saved import OURS, Weights, newest_checkpoint
from ccl_plugins.training.table_files import tables_of
from ccl_plugins.watching.logging import log_again

HELD = 6
"""The most runs whose weights stay in memory, enough for a report's pictures."""

_holding: deque[ref[Run]] = deque()
"""The runs that read their weights last."""


class Pipeline(Composition):
    """A whole experiment as data, which `fit` trains.

    Each part is a choice (`ccl.kernel("rbf", scale=0.1)`), a bare name, a table with ``use``, or an
    object of your own.  The arguments are those of `ccl_plugins.experiments.Composition`.
    """

    def fit(
        self,
        *,
        out: str | Path,
        resume: bool = False,
        overwrite: bool = False,
        callbacks: Iterable[Any] = (),
        logger: Any = True,
        progress: bool = True,
        **settings: Any,
    ) -> Run:
        """Measure the backbone, train, and leave a run: record, events, checkpoints.

        Args:
            out: The run's folder.
            resume: Continue the run in the folder from its last checkpoint.
            overwrite: Delete the run in the folder.
            callbacks: Lightning callbacks in addition to those of plug-ins;
                ``trainer.callback_metrics`` has ``loss`` and all other logged numbers.
            logger: True: the pipeline's ``loggers``, by default TensorBoard; a Lightning logger, or a
                list of them, logs instead; False: nothing is logged.
            progress: Whether a progress bar is shown.
            settings: `ccl_plugins.training.settings.FitSettings`, in place of the pipeline's own.

        Raises:
            FolderInUse: If another process writes to the folder.
            RunExists: If the folder holds a run, and neither ``resume`` nor ``overwrite`` is given.
            RunInterrupted: If training was stopped before its end.
        """
        pipeline, folder = self.with_settings(**settings), Path(out).expanduser()
        with one_line_warnings(folder):
            checked = check_run(pipeline, folder, resume=resume, overwrite=overwrite)
            prepared = prepare(checked, callbacks, logger)
            train(prepared, progress=progress)
        splits = prepared.splits if pipeline.built_evaluators else None
        return Run(out, pipeline, splits, trained=prepared.trained)

    def find_lr(
        self,
        least: float = 1e-6,
        most: float = 10.0,
        steps: int = 100,
        *,
        progress: bool = True,
        **settings: Any,
    ) -> LearningRates:
        """Losses of a short training whose learning rate rises, and a suggestion; nothing is kept.

        Args:
            least: The first value of ``fit.optimizer.lr``, above 0.
            most: The last value, above ``least``.
            steps: Optimizer steps, 20 or more.
            progress: Whether a progress bar is shown.
            settings: `ccl_plugins.training.settings.FitSettings`, in place of the pipeline's own.

        Raises:
            ValueError: For values out of range, if the run has fewer steps, and if the loss is
                already not finite at the first rates.
        """
        with one_line_warnings():
            return find_learning_rate(
                self.with_settings(**settings), least, most, steps, progress=progress
            )

    def plane(self, against: str = "label") -> tuple[list[Point], list[str]]:
        """The categorical conditions with one table, on the information plane; see `ccl information`.

        Args:
            against: The metadata column T.

        Returns:
            The points, and a line with the reason for each condition that is left out.

        Raises:
            ValueError: If the target is not a column of class ids, or no condition is left.
        """
        return plane(self, against)


class Run:
    """A finished or interrupted run, rebuilt by name from its folder.

    Only the parts that are needed are read back: features, evaluators, `embed` and `export` need
    the plug-ins of backbone, transform, data set and evaluators, but not those of the loss.

    Args:
        path: The run's folder.
        pipeline: The pipeline that was trained; None: rebuilt from the record, which holds no objects of
            a session.
        splits: The training and the test split; None: read when they are needed.
        objects: Objects of a session that the run was made with, by their places, see `load`.
        trained: The parts that were trained, whose weights are read from the folder; None: built anew.

    Raises:
        FileNotFoundError: If the folder holds no run.
        InvalidConfig: If its record cannot be read, or objects are not those that it names.
        InvalidParameter: For an object that is not what its kind asks for.
    """

    def __init__(
        self,
        path: str | Path,
        pipeline: Pipeline | None = None,
        splits: tuple[Any, Any] | None = None,
        objects: Mapping[str, Any] | None = None,
        trained: Parts | None = None,
    ) -> None:
        self.path = Path(path).expanduser()
        self.folder = RunFolder(self.path)
        self._features: dict[str, Frozen] = {}
        record = self.folder.record
        if not record.is_file():
            raise FileNotFoundError(f"{self.path} holds no run: it has no {record.name}")
        self.record = Record(read_json(record))
        self._in_session = pipeline is not None
        """Whether the run was trained in this session."""
        if pipeline is not None:
            self.pipeline = self.recorded = pipeline
        if splits is not None:
            self.splits = splits
        self._trained = trained
        self._completed = self.record if objects is None else with_objects(self.record, objects)
        """The record, with the objects that were given."""

    @cached_property
    def recorded(self) -> Components:
        """The parts of the pipeline, each read back from the record when it is asked for."""
        return Recorded(self._completed, str(self.folder.record))

    @cached_property
    def pipeline(self) -> Pipeline:
        """The whole pipeline, rebuilt from its record; every plug-in and object must be there."""
        where = str(self.folder.record)
        try:
            check_plugins(self.record.get("versions", {}))
            refuse_lost(lost_objects(self._completed), self._completed, where)
            return Pipeline.from_dict(self._completed, where=where)
        except engine.RegistryError as error:
            if self._has_backbone():
                error.add_note(
                    "without this part the run can still encode, compute features, and be "
                    "evaluated, embedded, exported and reported"
                )
            raise

    def _has_backbone(self) -> bool:
        """Whether the parts that compute features can be read back."""
        try:
            return all(self.recorded.choices[k] for k in ("backbone", "transform", "dataset"))
        except engine.RegistryError:
            return False

    @cached_property
    def parts(self) -> Parts:
        """The built parts of the whole pipeline, with the weights of the newest readable checkpoint."""
        with undisturbed():
            parts = self._trained or self.pipeline.build()
        for name, state in self._weights.networks.items():
            parts.networks[name].load_state_dict(state)
        parts.method.eval()
        self.method = parts.method
        return parts

    @cached_property
    def method(self) -> Any:
        """The method with the newest readable weights; its backbone alone if it cannot be rebuilt."""
        if not isinstance(self.recorded, Recorded):
            return self.parts.method
        return self.recorded.method(self._weights.networks["method"])

    @property
    def backbone(self) -> Any:
        """The backbone with the newest readable weights."""
        return self.method.backbone

    @property
    def transform(self) -> Any:
        """The augmentations; ``plain`` makes the tensors that the backbone takes."""
        return self.recorded.transform

    @property
    def dataset(self) -> Any:
        """The data set."""
        return self.recorded.dataset

    @cached_property
    def progress(self) -> tuple[int, int]:
        """The optimizer step of the newest readable weights, and the steps of the whole run."""
        return self._weights.progress

    @cached_property
    def versions(self) -> dict[str, str]:
        """The versions of the packages that the newest readable weights were trained with."""
        return self._weights.versions

    @cached_property
    def _weights(self) -> Weights:
        """The newest readable weights, which are kept in memory for the last `HELD` runs.

        Warns:
            UserWarning: If another file is read in place of a damaged one, which the warning names,
                and if the folder's record differs from the record of the weights.
        """
        weights = Weights.newest(self.folder)
        if changed := Record(weights.record).refusals(self.record):
            warnings.warn(
                f"{self.folder.record} was changed; the record in {weights.file.name} differs: "
                f"{'; '.join(changed)}",
                stacklevel=3,
            )
        self.progress, self.versions = weights.progress, weights.versions
        _holding.append(ref(self))
        if len(_holding) > HELD and (run := _holding.popleft()()) is not None:
            run.__dict__.pop("_weights", None)
        return weights

    def condition_tables(self) -> dict[str, Table]:
        """The conditions' tables over the training split, by name, from the newest checkpoint.

        A table has one row per sample, as `ccl_plugins.training.tables.Tables` holds it.  Conditions
        that are computed in every step have none.

        Raises:
            FileNotFoundError: If the run has a condition with a table and no checkpoint.
            DamagedFile: If no checkpoint can be read.
            MissingTable: If the file of a table is missing, or holds another table.
        """
        return dict(self._tables)

    @cached_property
    def _tables(self) -> dict[str, Table]:
        if not self.folder.steps:
            conditions = self.recorded.built_conditions
            if all(each.refresh == "batch" for each in conditions.values()):
                return {}
            raise FileNotFoundError(
                f"{self.path} has no checkpoint, which would hold the tables of its conditions"
                f" {', '.join(map(repr, conditions))}"
            )
        saved = self._weights.about
        if "tables" not in saved:  # the weights are a finished run's
            saved = newest_checkpoint(self.folder)[1][OURS]
        tables = tables_of(saved["tables"], self.folder)
        return {name: Table(each["values"], each["extras"]) for name, each in tables.items()}

    def encode(
        self, images: Any, batch_size: int = 512, device: str | torch.device | None = None
    ) -> Tensor:
        """Features of images, un-augmented, in evaluation mode.

        Args:
            images: A batch (n, channels, height, width), or any sequence of images the transform takes, or
                of files.  Files, PIL images and arrays are read as the data set reads its own files, by its
                mode, levels and page: an array holds the numbers of a file. Tensors of uint8, and
                samples of the data set, are not converted.
            batch_size: Images per forward pass.
            device: Where the network runs, such as ``"cpu"``; None: on a GPU if there is one.

        Returns:
            (n, f) on the CPU.

        Raises:
            FileNotFoundError: If the run has no weights yet.
            ValueError: If there are no images, or a single one that is not in a list, or the transform
                does not take images of this type.
            OSError: For a file that cannot be read.
        """
        return self._of_images("encode", images, batch_size, device)

    def project(
        self, images: Any, batch_size: int = 512, device: str | torch.device | None = None
    ) -> Tensor:
        """Projections of images, un-augmented, in evaluation mode, of unit length.

        With two towers, the inner products with `encode_text` are cosines. The arguments and errors
        are those of `encode`.

        Returns:
            (n, d) on the CPU.
        """
        self._require_method("project")
        return normalize(self._of_images("project", images, batch_size, device).float(), dim=1)

    def encode_text(
        self,
        texts: Sequence[str],
        batch_size: int = 512,
        device: str | torch.device | None = None,
    ) -> Tensor:
        """Projections of texts by the text tower, in evaluation mode, of unit length.

        Args:
            texts: One or more strings, such as ``["a seven", "a nine"]``.
            batch_size: Texts per forward pass.
            device: Where the network runs, such as ``"cpu"``; None: on a GPU if there is one.

        Returns:
            (k, d) on the CPU.

        Raises:
            FileNotFoundError: If the run has no weights yet.
            ValueError: If the method has no text tower, or there are no texts.
        """
        whole("batch_size", batch_size, 1)
        if isinstance(texts, str) or not len(texts):
            raise ValueError(f"texts must be one or more strings in a list, not {texts!r:.80}")
        self._require_method("encode_text")
        return embed_texts(self._method_on(device), self.transform, texts, batch_size)

    def _of_images(
        self, member: str, images: Any, batch_size: int, device: str | torch.device | None
    ) -> Tensor:
        """The result of the method's ``encode`` or ``project`` for images."""
        whole("batch_size", batch_size, 1)
        shape: Sequence[int] = getattr(images, "shape", ())
        one = isinstance(images, str | Path) or not hasattr(images, "__len__")
        if one or (len(shape) == 3 and shape[2] <= 4):  # (height, width, channels)
            given = f"an array of shape {tuple(shape)}" if shape else f"{images!r:.80}"
            raise ValueError(f"images must be several, not one: give [image], not {given}")
        if not len(images):
            raise ValueError("there are no images to encode")
        method, transform, read = self._method_on(device), self.transform, self.record.reading
        outputs = []
        with torch.no_grad():
            for first in range(0, len(images), batch_size):
                batch = images[first : first + batch_size]
                if isinstance(batch, Tensor) and (batch.dtype == torch.uint8 or not read):
                    batch = transform.plain(batch)
                else:
                    read_in = (self._image(each, n) for n, each in enumerate(batch, first))
                    batch = torch.stack([transform.plain(each) for each in read_in])
                given = batch.to(next(method.parameters()).device)
                outputs.append(getattr(method, member)(given).cpu())
        return torch.cat(outputs)

    def _image(self, image: Any, number: int) -> Any:
        """An image read like the data set's, from a file, a PIL image or an array."""
        way = self.record.reading
        if way is None and not isinstance(image, Tensor):
            raise ValueError(
                f"the data sets of {self.path} read images in several ways, and the way for this "
                "image is unknown: give samples of the run's splits, or tensors of uint8"
            )
        try:
            return read_image(image, **(way or {}))
        except UnreadableImage as error:
            named = f", {image}," if isinstance(image, str | Path) else ""
            raise UnreadableImage(
                f"image {number} (from 0){named} cannot be read: {error}"
            ) from error

    def _method_on(self, device: str | torch.device | None) -> Any:
        return self.method.to(accelerator() if device is None else device)

    def _require_method(self, member: str) -> None:
        """Refuse a call that needs more than the backbone."""
        if isinstance(self.method, BackboneAlone):
            raise engine.PluginFailed(
                f"{member} needs the method of {self.path}, which cannot be rebuilt: {self.method.reason};"
                " encode, features, evaluate, embed and export work without it"
            )

    @cached_property
    def splits(self) -> tuple[Any, Any]:
        """The training and the test split.

        Raises:
            OtherData: If they are not those that the run was trained and measured on.
        """
        splits = {split: self.dataset(split) for split in SPLITS}
        workers = self.record["fit"]["workers"]
        require_data_of(self.record, splits, self.transform, workers, str(self.path))
        return splits["train"], splits["test"]

    def features(self, split: str, device: str | torch.device | None = None) -> Frozen:
        """Backbone features of a split, un-augmented, with its metadata; computed once and then kept.

        Args:
            split: ``"train"`` or ``"test"``.
            device: Where the network runs, such as ``"cpu"``; None: on a GPU if there is one.

        Returns:
            Features (N, f) float32 on the CPU, and the metadata columns as tensors.

        Raises:
            FileNotFoundError: If the run has no weights yet.
            ValueError: For another split.
        """
        check_split(split)
        return self._frozen(split, device, projections=False)

    def _frozen(self, split: str, device: str | torch.device | None, projections: bool) -> Frozen:
        frozen = self._features.get(split)
        if frozen is None or (projections and frozen.projections is None):
            frozen = self._features_of(self.splits[SPLITS.index(split)], device, projections)
            self._features[split] = frozen
        return frozen

    def _features_of(
        self, split: Any, device: str | torch.device | None, projections: bool
    ) -> Frozen:
        method, workers = self._method_on(device), self.record["fit"]["workers"]
        (frozen,) = freeze(
            method, self.recorded, workers, split, projections=projections, folder=self.path
        )
        return frozen

    def measurements(self, time: Time = "after") -> dict[str, Measurement]:
        """The last measurements, by name, as `Measurement`; empty before the first.

        Args:
            time: ``"after"``: of the trained weights, by `evaluate`; ``"before"``: of the backbone
                before training; ``"validation"``: by `validate`.
        """
        one_of("time", time, TIMES)
        return dict(getattr(self._measured, time))

    @cached_property
    def _measured(self) -> Measured:
        """The contents of its files, read again after each measurement."""
        return read_measurements(self.folder)

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers measured last, by name; empty before the first evaluation."""
        return numbers(self.measurements("after"))

    @property
    def before(self) -> dict[str, float]:
        """The numbers before training."""
        return numbers(self.measurements("before"))

    @property
    def validation(self) -> dict[str, float]:
        """The numbers of the last `validate`; empty before the first."""
        return numbers(self.measurements("validation"))

    @property
    def costs(self) -> dict[str, float]:
        """Seconds of training, of its monitors and of the last evaluation, and the monitors' share."""
        return dict(self._measured.costs)

    def evaluate(self, device: str | torch.device | None = None) -> dict[str, float]:
        """Measure the frozen features of the un-augmented data set.

        The numbers are returned, and written to ``metrics.json`` and the pipeline's loggers;
        services, such as wandb, get them only in the session that trained the run. `measurements`
        explains the numbers.

        If a script trains on several devices, each process returns the numbers, and the first
        process writes them.

        Args:
            device: Where the network runs, such as ``"cpu"``; None: on a GPU if there is one.

        Raises:
            FolderInUse: If another process trains or measures the run.
        """
        # A launcher's number says nothing here: its tasks may each measure a run of their own.
        if rank() != 0:
            return numbers(self._measure(device, validate=False))
        with owning(self.path):
            begin = time.perf_counter()
            measured = self._measure(device, validate=False)
            costs = {"evaluation": time.perf_counter() - begin}
            self._write({"after": measured}, costs)
            metrics = numbers(measured)
            log_again(
                self.recorded.built_loggers,
                self.path,
                metrics,
                self.progress[0],
                services=self._in_session,
            )
        return metrics

    def validate(
        self, device: str | torch.device | None = None, on: Dataset | None = None
    ) -> dict[str, float]:
        """Measure as `evaluate` does, but on a part of the training split; no test sample is measured.

        Evaluators are fitted to nine tenths of the training split and measured on the last tenth: every
        tenth sample in a shuffle that is the same for all runs on a data set, or every tenth of its
        groups (three or half of them if there are few). The network has seen the images of both
        parts, so use these numbers to choose between runs, but do not report them. Evaluators that
        compare with the features before training are left out, and a warning names them.

        Args:
            device: Where the network runs, such as ``"cpu"``; None: on a GPU if there is one.
            on: A data set whose test split is measured instead, with evaluators fitted to the whole
                training split: your own data for the choice, for example without correlation of
                label and condition.

        Raises:
            FolderInUse: If another process trains or measures the run.
        """
        if rank() != 0:
            return numbers(self._measure(device, validate=True, on=on))
        with owning(self.path):
            measured = self._measure(device, validate=True, on=on)
            self._write({"validation": measured})
        return numbers(measured)

    def export(self, folder: str | Path | None = None, *, format: str | None = None) -> Path:
        """Write the backbone, without heads, as a folder that timm or PyTorch reads without this library.

        Args:
            folder: The folder to write; None: ``timm`` or ``torch`` in the run's folder.  Files of an
                earlier export are replaced.
            format: ``"timm"`` or ``"torch"``, a program of `torch.export`; None: timm's for a model that
                timm has, else torch's.

        Returns:
            The folder; its ``README.md`` has the lines that load it.

        Raises:
            FolderInUse: If another process writes to the folder, or to the run that it lies in.
            ValueError: For another format, for a backbone that timm lacks as ``"timm"``, for one that
                `torch.export` cannot follow, and for a folder with files of these names that no export
                wrote.
        """
        from ccl_plugins.experiments.export import export

        return export(self, folder, format=format)

    def measure(
        self, *evaluators: Any, validate: bool = False, device: str | torch.device | None = None
    ) -> dict[str, Measurement]:
        """Measure the features with other evaluators than the pipeline's, without writing files.

        ``run.measure("clustering", ccl.evaluator("few_shot", samples=0.01))``

        Args:
            evaluators: Names, choices, tables with ``use``, or objects.
            validate: Whether to measure on a part of the training split, as `validate` does.
            device: Where the network runs, such as ``"cpu"``; None: on a GPU if there is one.

        Raises:
            RegistryError: For wrong names and parameters.
            ValueError: For a column that the data set lacks, and for texts without a text tower.
        """
        choices = read_evaluators(evaluators, "evaluators")
        built = [choice.build({"dataset": self.dataset}) for choice in choices]
        check_columns(built, self.dataset)
        if any_reads(built, "towers"):  # others need no method
            texts_for_evaluators(built, self.recorded.choices["method"], self.transform)
        pairs = list(zip(choices, built, strict=True))
        return self._measure(device, validate=validate, evaluators=pairs)

    def _measure(
        self,
        device: str | torch.device | None,
        *,
        validate: bool,
        on: Dataset | None = None,
        evaluators: Sequence[tuple[Any, Any]] | None = None,
    ) -> dict[str, Measurement]:
        if evaluators is None:
            evaluators = self.recorded.chosen_evaluators
        if not evaluators:
            return {}
        with one_line_warnings(self.path, anew=False):
            built = [each for _, each in evaluators]
            projections = any_reads(built, "projections")
            train = self._frozen("train", device, projections and validate)
            if validate:
                other = None if on is None else self._features_of(on("test"), device, projections)
                return measure_to_choose(self.recorded, train, evaluators, other)
            test = self._frozen("test", device, projections)
            if any_reads(built, "original") and self.folder.original.is_file():
                kept, _ = read_tensors(self.folder.original)
                test = replace(test, original=kept["test"])
            return measure(self.recorded, train, test, evaluators)

    def _write(
        self,
        measured: Mapping[Time, Mapping[str, Measurement]],
        costs: Mapping[str, float] | None = None,
    ) -> None:
        write_measurements(self.folder, measured, costs)
        self.__dict__.pop("_measured", None)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """The numbers before and after training as a table, for notebooks."""
        before, after = self.measurements("before"), self.measurements("after")
        rows = [
            f'<tr title="{escape(each.sentence)}"><td>{escape(name)}</td>'
            + "".join(
                f"<td>{f'{at[name].value:.4g}' if name in at else ''}</td>"
                for at in (before, after)
            )
            + "</tr>"
            for name, each in (before | after).items()
        ]
        head = "<tr><th>measurement</th><th>before</th><th>after</th></tr>"
        return f"<p>{escape(repr(self))}</p><table>{head}{''.join(rows)}</table>"


def load(path: str | Path, *, objects: Mapping[str, Any] | None = None) -> Run:
    """A run from its folder: `ccl.load("runs/fair").encode(images)`.

    Args:
        path: The folder.
        objects: For a run that was trained with objects of a session, the same objects by their
            places in the pipeline, such as ``{"dataset": my_dataset, "objective.kernel":
            my_kernel}``; an item of a list by its number (``"evaluate.0"``). For a component that
            was chosen by its class, such as ``ccl.local("kernel", Ring, radius=2.0)``, the class:
            the record has its parameters. Objects that are not needed may be left out.

    Raises:
        FileNotFoundError: If the folder holds no run.
        InvalidConfig: For a place without such an object, and for an object of another class.
        InvalidParameter: For an object that is not what its kind asks for.
    """
    return Run(path, objects=objects)
