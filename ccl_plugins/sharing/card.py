"""The model card of a shared run, written from its record and its stored measurements."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ccl_plugins.experiments.export import ADAPTERS, CONFIG, PREPARED, README, WEIGHTS
from ccl_plugins.experiments.paths import shorten
from ccl_plugins.experiments.record import toml_of
from ccl_plugins.experiments.results import result_of, spread
from ccl_plugins.files.messages import printable
from ccl_plugins.files.sums import SUMS
from ccl_plugins.kinds import registry
from ccl_plugins.protocols import Measurement
from ccl_plugins.report.answers import answers, component
from ccl_plugins.report.runs import Runs
from ccl_plugins.sharing.loader import CONSTANTS

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run

LIBRARY = "[ccl-plugins](https://pypi.org/project/ccl-plugins)"
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")

ROLES = {
    "label": "The label",
    "condition": "What a condition reads: kept, or leaked where it was to be suppressed",
    "other": "Other columns: kept or leaked, as one may want",
    None: "Of no column",
}
"""The tables of measurements, by the role of the column that they read."""

LOADER = "load.py"
ONNX = ("model.onnx", "model.onnx.data")
PIPELINE = "pipeline.toml"
ABOUT = {
    WEIGHTS: "the weights",
    CONSTANTS: "other tensors that the backbone computes with",
    CONFIG: "the shape of the images, their mean and standard deviation, and the model for timm",
    LOADER: "`load()` gives the backbone; `prepare(image)`, for images, what it takes",
    ONNX[0]: "the same for ONNX: `images` of any number to `features`",
    ONNX[1]: "its weights",
    ADAPTERS[0]: "what LoRA learned, which the weights include, as peft reads it",
    ADAPTERS[1]: "its settings",
    PIPELINE: "the whole experiment: `ccl train pipeline.toml` repeats it where its data is",
    SUMS: "checksums: `sha256sum --check SHA256SUMS`",
}
"""A description of each file of the folder except the card, the checksums last."""

FILES = (README, *ABOUT)
"""All files that a folder may hold."""


@dataclass(frozen=True, eq=False)
class Shared:
    """The facts that a card shows.

    Args:
        run: The run.
        config: The folder's ``config.json``.
        record: The run's record as it is shared, without paths.
        format: ``"timm"`` or ``"torch"``.
        files: The names of the folder's files.
        places: The places in the record where a path was shortened.
        repository: Its name on the Hub; None: not known.
        license: Its identifier; None: none was given.
    """

    run: Run
    config: Mapping[str, Any]
    record: Mapping[str, Any]
    format: str
    files: Sequence[str]
    places: Sequence[str]
    repository: str | None = None
    license: str | None = None

    @cached_property
    def reported(self) -> Runs:
        """The report's data of the run."""
        return Runs([self.run], [result_of(self.run)])

    @property
    def name(self) -> str:
        """A short name."""
        return (self.repository or self.run.path.resolve().name).rpartition("/")[2]

    @property
    def images(self) -> Mapping[str, Any]:
        """The known properties of the images that the backbone takes."""
        images: Mapping[str, Any] = self.config.get("pretrained_cfg", self.config)
        return images

    @property
    def samples(self) -> str:
        """The word for the backbone's inputs."""
        return "images" if "mean" in self.images else "samples"

    @property
    def datasets(self) -> list[Mapping[str, Any]]:
        """The data set, and the data sets that it is made of."""
        return [*_components(self.record["dataset"], "dataset")]

    @property
    def data(self) -> str:
        """The name of the data set: ``subset of color_digits``."""
        first, *of = (component(each) for each in self.datasets)
        return f"{first} of {and_all(of)}" if of else first

    @property
    def datasets_on_hub(self) -> list[str]:
        """The names of those data sets that are on the Hub."""
        paths = [str(each["path"]) for each in self.datasets if component(each) == "hf"]
        return [path for path in paths if HUB_NAME.fullmatch(path)]

    @property
    def base_model(self) -> str | None:
        """The model of timm whose weights training began with, by its name on the Hub; None: no such."""
        backbone = self.record["backbone"]
        if not backbone.get("pretrained") or backbone.get("checkpoint_path") is not None:
            return None
        return self.run.backbone.model.pretrained_cfg.get("hf_hub_id") or backbone["name"]

    @property
    def began_with(self) -> str:
        """The weights that training began with, in Markdown; empty: random ones."""
        file = self.record["backbone"].get("checkpoint_path")
        if file is not None:
            return f"weights of a file, {code(file)}"
        return f"the weights {code(self.base_model)}" if self.base_model else ""


def card(shared: Shared) -> str:
    """The text of ``README.md``: front matter for the Hub, and what a reader should know."""
    sections = {
        "Load it": _loading(shared),
        "Data": _data(shared),
        "Condition": _condition(shared),
        "What the features tell": _measured(shared),
        "Training": _training(shared),
        "Limits": _limits(shared),
        "License": _license(shared),
        "Files": (f"- `{name}`: {ABOUT[name]}" for name in shared.files),
    }
    size = "x".join(map(str, shared.images.get("input_size", ())))
    shape = f" of shape {size}" if size else ""
    intro = (
        f"The backbone {code(_backbone(shared))} gives {shared.config['num_features']} features of"
        f" {'an image' if shared.samples == 'images' else 'a sample'}{shape}."
        f" It was trained on {code(shared.data)} by {code(component(shared.record['method']))} with the"
        f" objective {code(component(shared.record['objective']))}, with {LIBRARY}; the heads of its"
        " training are left out."
    )
    parts = [f"---\n{_front_matter(shared)}\n---\n\n# {plain(shared.name)}\n", f"{intro}\n"]
    for title, lines in sections.items():
        if text := "\n".join(lines):
            parts.append(f"## {title}\n\n{text}\n")
    return "\n".join(parts)


def _backbone(shared: Shared) -> str:
    return str(shared.record["backbone"].get("name") or component(shared.record["backbone"]))


def _front_matter(shared: Shared) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    task = "image-feature-extraction" if shared.samples == "images" else "feature-extraction"
    named = [*shared.datasets_on_hub, component(shared.datasets[-1])]
    results = [
        EvalResult(
            task_type=task,
            dataset_type=named[0],
            dataset_name=shared.data,
            dataset_split="test",
            metric_type=each.name,
            metric_name=shorten(each.sentence) or each.name,
            metric_value=each.value,
        )
        for each in shared.run.measurements("after").values()
        if math.isfinite(each.value)
    ]
    tags = ["ccl-plugins", "contrastive-learning", component(shared.record["objective"])]
    data = ModelCardData(
        license=shared.license,
        library_name="timm" if shared.format == "timm" else None,
        base_model=shared.base_model,
        pipeline_tag=task,
        tags=tags if shared.format == "timm" else [*tags, "pytorch"],
        datasets=shared.datasets_on_hub or None,
        model_name=shared.name,
        eval_results=results or None,
    )
    return data.to_yaml().strip()


def _loading(shared: Shared) -> Iterator[str]:
    shape = ", ".join(map(str, shared.images.get("input_size", (3, 224, 224))))
    images = shared.samples == "images"
    if shared.format == "timm":
        source = f"hf-hub:{shared.repository}" if shared.repository else "local-dir:."
        yield f"""\
With timm:

```python
import timm
import torch

model = timm.create_model("{source}", pretrained=True).eval()
images = torch.zeros(2, {shape})  # (n, channels, height, width){PREPARED if images else ""}
with torch.no_grad():
    features = model(images)
```

`create_model` gives a model in training mode: without `.eval()`, batch norms and dropout give other
features.
"""
    needs = (
        "timm" if shared.format == "timm" else f"PyTorch{', torchvision' * images} and safetensors"
    )
    folder, lines = '"."', ["import runpy", "", "import torch"]
    if shared.repository:
        lines += ["from huggingface_hub import snapshot_download"]
        folder = f'snapshot_download("{shared.repository}")'
    lines += ["", f'loader = runpy.run_path({folder} + "/load.py")', 'model = loader["load"]()']
    if images:
        lines += [f"image = torch.zeros({shape}, dtype=torch.uint8)  # or a PIL image"]
        lines += ['images = loader["prepare"](image)']
    else:
        lines += [f"images = torch.zeros(2, {shape})"]
    lines += ["with torch.no_grad():", "    features = model(images)"]
    yield f"With `load.py`, which needs {needs}{', and prepares images' * images}:\n"
    yield block("python", "\n".join(lines))


def _data(shared: Shared) -> Iterator[str]:
    known = shared.record.get("data", {})
    yield f"The data set is {code(shared.data)}:"
    dataset = f"dataset = {toml_of(shared.record['dataset'])}"
    yield f"\n{block('toml', dataset)}\n"
    for split, done in {"train": "trained", "test": "measured"}.items():
        if split in known and (split == "train" or shared.run.metrics):
            name = {"train": "training"}.get(split, split)
            count, digest = known[split]["samples"], known[split]["digest"][:8]
            yield f"It was {done} on the {name} split: {count} {shared.samples} (digest `{digest}`)."
    if columns := known.get("train", {}).get("columns"):
        yield f"Known of each are {and_all([*map(code, columns)])}."


def _condition(shared: Shared) -> Iterator[str]:
    conditions = shared.record.get("conditions") or {}
    if not conditions:
        yield "There is none: nothing was read beside the samples as a condition."
    for name, given in conditions.items():
        yield f"- {code(name)} is given by {code(component(given))}: {code(toml_of(given))}"
    yield "\nWhat the objective does with it:\n" if conditions else "\nThe objective:\n"
    yield from _done(shared.record["objective"])


def _done(objective: Any, place: str = "") -> Iterator[str]:
    """A line for each objective and each guide in a record."""
    if isinstance(objective, list):
        for part in objective:
            yield from _done(part, place)
    elif isinstance(objective, Mapping) and {"on", "keep", "by"} <= objective.keys():
        verb = "kept" if objective["keep"] else "suppressed"
        weight = objective.get("weight")
        shown = f", with weight {toml_of(weight)}" if weight is not None else ""
        what, how = code(str(objective["on"])), code(component(objective["by"]))
        yield f"- {what} is {verb} by a guide, {how}{shown}."
    elif isinstance(objective, Mapping):
        use = str(objective.get("use", ""))
        if use.startswith("objective:"):
            on = objective.get("on")
            reads = f", on {code(on)}" if isinstance(on, str) else ""
            yield f"- {code(component(objective))}{reads}: {plain(_summary(use))}"
        for key, each in objective.items():
            yield from _done(each, key)


def _summary(use: str) -> str:
    """The first sentence of an objective's docstring; empty if its plug-in is missing."""
    name = use.partition(":")[2]
    specs = [each for each in registry().specs("objective") if each.id == name]
    return registry().summary(specs[0]) if specs else "its plug-in is not installed here."


def _measured(shared: Shared) -> Iterator[str]:
    run = shared.run
    after, before = run.measurements("after"), run.measurements("before")
    if not after:
        yield "Nothing was measured of these weights."
        return
    begin = "pretrained weights" if shared.began_with else "an untrained backbone"
    yield (
        "Each number is of frozen features, on the test split; in brackets is its 95 % interval over test"
        f" samples. *Before training* is that of {begin}, *chance* that of features that say nothing.\n"
    )
    for role, title in ROLES.items():
        rows = [each for each in after.values() if each.role == role]
        if not rows:
            continue
        yield f"### {title}\n"
        yield "| column | measurement | value | before training | chance | what it is |"
        yield "|---|---|---|---|---|---|"
        for measurement in rows:
            yield _row(measurement, before.get(measurement.name))
        yield ""
    yield from _answers(shared)


def _row(after: Measurement, before: Measurement | None) -> str:
    cells = [
        code(after.column) if after.column else "",
        code(after.name),
        spread(after.value, interval=after.interval),
        spread(before.value, interval=before.interval) if before else "not measured",
        "" if after.chance is None else f"{after.chance:.2g}",
        f"{plain(shorten(after.sentence))}{_better(after)}",
    ]
    return f"| {' | '.join(cells)} |"


def _better(each: Measurement) -> str:
    if each.direction is None:
        return ""
    says = "they hold more of it" if each.column else "they are better"
    return f" ({each.direction}: {says})"


def _answers(shared: Shared) -> Iterator[str]:
    """The report's answers: whether the run learns, and what conditioning did."""
    (result,) = shared.reported.results
    names = {*result.after, *result.before}
    for answer in answers(shared.reported.groups)[:2]:
        for about, sentence in answer.sentences:
            if about not in names:  # what a measurement is stands in the table
                yield f"- {plain(shorten(sentence))}"


def _training(shared: Shared) -> Iterator[str]:
    record, fit = shared.record, shared.record["fit"]
    steps = shared.run.progress[0]
    began = shared.began_with
    yield f"- It began with {began or 'random weights'}."
    if record["backbone"].get("lora"):
        lora = record["backbone"]["lora"]
        yield f"- LoRA, {code(toml_of(lora))}, learned in their place; it is merged into these weights."
    samples = fit["batch_size"] * fit.get("accumulate", 1)
    yield (
        f"- {steps} steps of {samples} {shared.samples}, with seed {fit['seed']} and precision"
        f" {fit['precision']}."
    )
    for key in ("method", "transform", "optimizer", "schedule"):
        given = record.get(key) or fit.get(key)
        if given:
            yield f"- {key}: {code(toml_of(given))}"
    versions = [f"{name} {version}" for name, version in shared.reported.versions().items()]
    yield f"- Versions: {plain(and_all(versions))}."


def _limits(shared: Shared) -> Iterator[str]:
    yield (
        f"- Measured on the test split of {code(shared.data)} only: what its features tell of other"
        f" {shared.samples} is not known."
    )
    yield (
        "- One run, with one seed: the intervals are over test samples, and another seed gives other"
        " numbers."
    )
    yield (
        "- A number says what one way of reading finds. A stronger one may find more, and a column that is"
        " in no table above was not measured: it may be in the features."
    )
    if not shared.run.measurements("before"):
        yield "- The backbone before training was not measured."
    for finding in shared.reported.findings():
        yield f"- While it was trained, something looked wrong: {plain(shorten(finding['line']))}"
    if shared.places:
        yield (
            "- The files do not say where the data lies: paths are shortened to their last part, in"
            f" {and_all([*map(code, shared.places)])}."
        )


def _license(shared: Shared) -> Iterator[str]:
    yield shared.license or "None was given: ask the authors before you use these weights."
    if shared.began_with:
        yield f"\nThe weights that it began with have a license of their own: {shared.began_with}."


def _components(data: Any, kind: str) -> Iterator[Mapping[str, Any]]:
    """The components of a kind in a part of a record, from the outermost."""
    if isinstance(data, Mapping):
        if str(data.get("use", "")).startswith(f"{kind}:"):
            yield data
        for value in data.values():
            yield from _components(value, kind)
    elif isinstance(data, list):
        for value in data:
            yield from _components(value, kind)


def and_all(words: Sequence[str]) -> str:
    """Words in a sentence: ``a, b and c``."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


# Words of others in Markdown: columns, runs and plug-ins may be called anything, and stay words.  The front
# matter needs none of this: it is written by a library for YAML.

_MARKS = re.compile(
    r"[\\`*\[\]#~$|@]|(?<![^\W_])_|_(?![^\W_])|(?<=[:/])/|(?<=www)\.|^[-+=]|^\d+(?=[.)])",
    re.IGNORECASE,
)
"""The characters and addresses that Markdown interprets in a sentence, a cell or a heading."""


def plain(text: str) -> str:
    """A text on one line, escaped for Markdown, for a sentence, a heading or a table cell."""
    return _MARKS.sub(lambda mark: _entities(mark[0]), html.escape(printable(text), quote=False))


def code(text: str) -> str:
    """A text on one line as code, also for a table cell."""
    text = printable(text)
    if "|" in text or not text:  # "|" ends a cell of a table, in code as well
        return f"<code>{plain(text)}</code>"
    ticks = _longer(text, 1)
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"


def block(language: str, text: str) -> str:
    """Lines of code."""
    ticks = _longer(text, 3)
    return f"{ticks}{language}\n{text}\n{ticks}"


def _longer(text: str, least: int) -> str:
    """A fence of more backticks than any run of them in a text."""
    return "`" * max([least, *(len(run) + 1 for run in re.findall("`+", text))])


def _entities(text: str) -> str:
    return "".join(f"&#{ord(letter)};" for letter in text)
