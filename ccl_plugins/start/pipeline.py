"""A first pipeline for your own images: a TOML file that explains its choices."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Mapping
from typing import Any

from torch import isin

from ccl_plugins.datasets import ImageFolder, ImageTable
from ccl_plugins.experiments.record import toml_of
from ccl_plugins.metadata.variable import Variable
from ccl_plugins.start.found import Found, is_group
from ccl_plugins.start.leaf import Chooser, Leaf, Wishes, power_of_two
from ccl_plugins.start.pixels import Sample, look_at

WIDTH = 118
"""The length of a comment's line."""

COPIED = re.compile(r"(`[^`]{,100}`|\{[^}]{,100}\})[.;,]?")
"""Commands and tables in a comment."""

FEWEST = 16
"""The least number of training images for contrast."""

FEW = 3
"""With fewer groups, what is measured on the test split depends on which groups these are."""

BATCH = 256
"""The default number of images in a batch, if there are enough."""

SMALL = 128
"""With fewer images in a batch, a queue of earlier ones is added."""

STEPS = 500
"""The approximate number of optimizer steps of a first run."""


def first_pipeline(
    contents: Found, wishes: Wishes, call: str, file: str
) -> tuple[str, str, list[str]]:
    """The choice in a sentence, the text of a TOML file with the whole pipeline, and notes.

    The columns are read, and some images.

    Args:
        contents: The contents of the folder or table.
        wishes: The user's wishes.
        call: The command that writes the file, for its comments.
        file: The name of the file.

    Raises:
        ValueError: For wishes that do not suit the contents, for too few images, and for splits
            that cannot be made.
        OSError: For images that are missing.
    """
    wishes.check(contents)
    dataset = _dataset(contents, wishes)
    source = str(dataset["path" if "path" in dataset else "root"])
    how = {name: dataset[name] for name in ("mode", "levels", "page") if name in dataset}
    pixels = look_at(contents.paths, source, **how)
    dataset |= pixels.reading
    kind = ImageFolder if dataset["use"] == "image_folder" else ImageTable
    data: Any = kind(**{key: value for key, value in dataset.items() if key != "use"})
    train, test = data("train"), data("test")
    if len(train) < FEWEST:
        raise ValueError(f"there are {len(train)} images to train on: {FEWEST} or more are needed")
    if wishes.batch and wishes.batch > len(train):
        raise ValueError(
            f"a batch of {wishes.batch} images is more than the {len(train)} to train on"
        )
    fits = wishes.batch or power_of_two(min(BATCH, len(train) / 4))
    leaf = Chooser(contents, train, wishes, fits).leaf()
    written = _File(contents, wishes, leaf, (train, test), leaf.batch or fits, pixels)
    notes = [*pixels.notes, *_of_few_groups(contents, train, test)]
    return leaf.title, written.text(dataset, call, file), notes


def _dataset(contents: Found, wishes: Wishes) -> dict[str, Any]:
    """The data set's table, with the columns that are read."""
    dataset = dict(contents.dataset)
    if dataset["use"] == "image_folder":
        return dataset
    group, pairs = contents.group, wishes.pairs
    if pairs not in ("", contents.label) and "split" not in dataset:
        group = group if contents.variables[pairs].missing else pairs
    texts = [wishes.captions] if wishes.captions else []
    if contents.label != "label":
        dataset["label"] = contents.label
    # Columns that are declared classes are among those that the whole table is read with.
    declared = [name for name, kind in contents.value_types.items() if kind == "categorical"]
    read = dict.fromkeys([*wishes.columns, *([group] if group else []), *declared])
    dataset["columns"] = [name for name in read if name not in (contents.label, *texts)]
    if texts:
        dataset["text"] = texts
    types = {contents.place(n): kind for n, kind in contents.value_types.items() if n in read}
    if types := {name: kind for name, kind in types.items() if name not in texts}:
        dataset["value_types"] = types
    if group:
        dataset["group"] = group
    return dataset


def _of_few_groups(contents: Found, train: Any, test: Any) -> list[str]:
    """A note if the test split has few groups, with the columns that would give more."""
    name = train.group
    if name is None or "test_fraction" not in contents.dataset:
        return []
    known, held = (len(split.metadata[name].unique()) for split in (train, test))
    if held >= FEW:
        return []
    note = (
        f"the test split has {held} of the {known + held} values of {name!r}, so what is measured there may"
        " not hold for other values, and has no interval"
    )
    finer = [
        f"--group {shlex.quote(other)} ({each.values} values)"
        for other, each in contents.variables.items()
        if contents.place(other) not in ("label", name)
        and is_group(each)
        and each.values > known + held
    ]
    if finer:
        note += (
            f". {' or '.join(finer)} splits into smaller groups, but then images of one {name} may be in"
            " both splits"
        )
    return [note]


class _File:
    """The parts of the file that follow from the contents, with reasons."""

    def __init__(
        self,
        contents: Found,
        wishes: Wishes,
        leaf: Leaf,
        splits: tuple[Any, Any],
        batch: int,
        pixels: Sample,
    ) -> None:
        self.contents, self.wishes, self.leaf, self.batch = contents, wishes, leaf, batch
        self.train, self.test = splits
        self.group = self.train.group
        self.pixels = pixels
        self.width, self.height, self.channels = pixels.width, pixels.height, pixels.channels
        shorter = min(self.width, self.height)
        self.size = 32 if shorter <= 40 else 64 if shorter <= 128 else 96
        self.hidden = 128 if self.size == 32 else 256

    def text(self, dataset: Mapping[str, Any], call: str, file: str) -> str:
        """The file."""
        parts = [
            _comment(self.leaf.title)
            + _comment(f"Written by `{call}`, trained by `ccl train {file}`.")
            + _comment(self._compared(file)),
            _comment(self._of_data(), {"dataset": dataset}),
            self._transform(),
            self._backbone(),
            self._method(),
            self._conditions(),
            self._sampler(),
            _table("objective", self.leaf.objective),
            self._fit(),
            "\n".join(_table("[evaluate]", each, _why(each)) for each in self._measured()),
        ]
        # Keys of the file stand before its tables.
        parts.sort(key=lambda part: "\n[" in f"\n{part}")
        return "\n".join(part for part in parts if part)

    def _compared(self, file: str) -> str:
        """The command of a run to compare with; empty if nothing is suppressed."""
        if not self.wishes.suppress or self.wishes.captions:
            return ""
        guides = self.leaf.objective.get("guides", [])
        other = [f"objective.guides.{i}.weight=0.0" for i, g in enumerate(guides) if not g["keep"]]
        if self.leaf.sampler is not None:
            other = ["sampler=uniform"]
        words = " ".join(f"--set {each}" for each in other or ["objective=infonce"])
        return f"To compare, a run that suppresses nothing: `ccl train {file} {words} --out runs/nothing`."

    def _of_data(self) -> str:
        wishes, contents = self.wishes, self.contents
        said = (
            f"{len(self.train)} images to train on and {len(self.test)} to test on, of about {self.width} x"
            f" {self.height} pixels. Paths are relative to the folder where ccl runs."
        )
        if self.channels != 3:
            said += f" They have {_channels(self.channels)}."
        if self.pixels.reading.get("levels"):
            said += " levels become black and white, the same for all images."
        if max(self.width, self.height) > 512:
            said += " Smaller copies of the images would be read faster in every epoch."
        if not contents.label:
            said += " No column is the label, by which features would be measured."
        elif contents.label not in wishes.columns:
            label = "label" if contents.label == "label" else f"label, {contents.label},"
            said += f" The {label} is not trained on: features are measured by it."
        if self.group:
            said += f" Images of one {self.group} are all in one split."
        return said

    def _transform(self) -> str:
        crop: dict[str, Any] = {"size": self.size}
        scale = {"mean": self.pixels.mean, "std": self.pixels.std} if self.pixels.mean else {}
        measured = " mean and std are those of the images, after levels." if scale else ""
        if text := self.wishes.captions:
            plain = {"min_scale": 0.5, "flip": 0.0, "jitter": 0.0, "gray": 0.0, "blur": 0.0}
            both: dict[str, Any] = {
                "image": {"use": "multi", "count": 1, **crop, **plain, **scale},
                "text": {"use": "tokens", "column": text, "length": self._length},
            }
            why = (
                "One view of the image, without flips and changes of color, so that the text stays true."
                f" The text is read as bytes.{measured}"
            )
            return _table("transform", both, why)
        blur = 0.5 if self.size > 64 else 0.0
        views: dict[str, Any] = {"use": "simclr", **crop, "min_scale": 0.2, "flip": 0.5}
        why = (
            f"Two views of {self.size} pixels. Features forget what the views change. Set flip = 0.0 if"
            " left and"
        )
        if self.pixels.colors:
            views |= {"jitter": 0.5, "gray": 0.2, "blur": blur}
            why += (
                " right differ, such as in text, and jitter = 0.0 and gray = 0.0 if color matters."
            )
        elif self.channels == 3:
            views |= {"jitter": 0.0, "gray": 0.0, "blur": 0.0}
            why += (
                " right differ, such as in text. The channels are not red, green and blue, so the views"
                " keep their brightness."
            )
        else:
            views |= {"jitter": 0.5, "gray": 0.0, "blur": 0.0}
            why += (
                " right differ, such as in text, and jitter = 0.0 if brightness matters: jitter changes"
                " the brightness of each channel, like another stain."
            )
        return _comment(why + measured, {"transform": views | scale})

    @property
    def _length(self) -> int:
        return min(self.contents.variables[self.wishes.captions].longest, 128)

    def _backbone(self) -> str:
        if self.size == 32:
            given = {} if self.channels == 3 else {"options": {"in_chans": self.channels}}
            larger = toml_of({"use": "timm", "name": "resnet18", "stem": "cifar", **given})
            why = (
                "LeNet-5 reads images of 32 pixels and trains on a CPU. For photographs, with a GPU:"
                f" {larger}."
            )
            lenet = {"use": "lenet5", "in_channels": self.channels} if given else "lenet5"
            return _comment(why, {"backbone": lenet})
        narrow: dict[str, Any] = {"channels": [32, 64, 128, 256]}
        backbone = {"use": "timm", "name": "resnet10t", "options": narrow}
        if self.channels != 3:
            narrow["in_chans"] = self.channels
            of = _channels(self.channels)
            why = f"A narrow ResNet-10 of {of} reads images of any size and trains on a CPU."
            return _comment(why, {"backbone": backbone})
        why = (
            "A narrow ResNet-10 reads images of any size and trains on a CPU. For photographs, pretrained"
            ' weights are better: {use = "timm", name = "resnet18", pretrained = true}.'
        )
        return _comment(why, {"backbone": backbone})

    def _method(self) -> str:
        queue = self._queue()
        if self.wishes.captions:
            tower = {"use": "text_transformer", "length": self._length, "width": 64}
            method: dict[str, Any] = {"use": "dual", "dim": 64, "towers": {"text": tower}}
            why = "A network for images and one for texts, with embeddings in one space."
            if queue:
                method |= {"queue_size": queue, "momentum": 0.99}
                why += f" A batch of {self.batch} is small: {queue} earlier ones are compared, too."
            return _comment(why, {"method": method})
        head = {"hidden": self.hidden, "dim": 128}
        if queue:
            why = (
                f"MoCo v2: a batch of {self.batch} is small, so its images are also compared with"
                f" {queue} earlier ones."
            )
            more = {"queue_size": queue, "momentum": 0.99, "symmetric": True}
            return _comment(why, {"method": {"use": "moco_v2", **head, **more}})
        why = "SimCLR: every view of a batch is compared with the others."
        method = {"use": "simclr", **head}
        if self.wishes.suppress:
            method["batch_norm"] = False
            names = " and ".join(self.wishes.suppress)
            why += f" Without batch normalization, features hold less of {names}."
        return _comment(why, {"method": method})

    def _queue(self) -> int:
        """The size of a queue; 0: none."""
        one_value = (self.leaf.sampler or {}).get("use") == "same_condition"
        if self.batch >= SMALL or len(self.train) < 8 * self.batch or one_value:
            return 0
        # Each step of CCL-K solves a system of the size of batch and queue.
        most = 1024 if self.leaf.objective["use"] == "fair_cclk" else 4096
        return power_of_two(min(most, len(self.train) / 2))

    def _conditions(self) -> str:
        conditions = self.leaf.conditions
        if [*conditions] in ([], ["condition"]):
            return _comment(self.leaf.why, conditions) if conditions else ""
        return _table("conditions", conditions, self.leaf.why)

    def _sampler(self) -> str:
        if self.leaf.sampler is None:
            return ""
        why = {
            "conditional_pair": "The second view is of another image with the same value.",
            "same_condition": "All images of a batch have the same value.",
        }
        return _comment(why[self.leaf.sampler["use"]], {"sampler": self.leaf.sampler})

    def _fit(self) -> str:
        per_epoch = len(self.train) // self.batch
        epochs = min(200, max(10, round(STEPS / per_epoch)))
        rate = 3e-3 if self.size == 32 else 1e-3
        settings = {
            "epochs": epochs,
            "batch_size": self.batch,
            "seed": 0,
            "optimizer": {"use": "adamw", "lr": rate, "weight_decay": 1e-4},
        }
        why = (
            f"{epochs * per_epoch} steps, for a first look. `ccl find-lr` suggests a learning rate (lr);"
            " more epochs may help."
        )
        return _table("fit", settings, why)

    def _measured(self) -> list[dict[str, Any]]:
        wishes, contents = self.wishes, self.contents
        measured: list[dict[str, Any]] = []
        if contents.label:
            neighbors = {"k": len(self.train) // 2} if len(self.train) < 40 else {}
            measured += (
                [{"use": "linear"}, {"use": "knn", **neighbors}]
                if self._is_shared("label")
                else [{"use": "held", "column": "label"}]
            )
            if wishes.captions and self.train.vocabulary.get("label"):
                measured.append({"use": "zero_shot", "prompts": ["{}", "a picture of {}"]})
        if wishes.captions:
            measured.append({"use": "cross_retrieval", "column": wishes.captions, "k": [1, 5]})
        if wishes.pairs:
            column = contents.place(wishes.pairs)
            measured.append({"use": "retrieval", "column": column, "k": [1, 5]})
        for name in (wishes.keep, *wishes.weak, *wishes.suppress):
            if name and name != contents.label:
                measured += self._probes(name)
        return measured or [{"use": "rankme", "of": "features"}, {"use": "uniformity"}]

    def _probes(self, name: str) -> list[dict[str, Any]]:
        variable = self.contents.variables[name]
        if variable.value_type != "categorical":
            use = "regression" if variable.value_type == "continuous" else "multi_label"
            return [{"use": use, "column": name}]
        use = "linear" if self._is_shared(name) else "held"
        probes: list[dict[str, Any]] = [{"use": use, "column": name}]
        if use == "held" and name in self.wishes.suppress:
            label = {"label": "label"} if self.contents.label else {}
            probes.append({"use": "mixing", "column": name, **label})
        if name in self.wishes.suppress and self.contents.label and name != self.group:
            probes.append({"use": "fairness", "column": name})
        return probes

    def _is_shared(self, name: str) -> bool:
        """Whether one of the test images has a class of training."""
        known, seen = (split.metadata[name] for split in (self.train, self.test))
        return bool((isin(seen, known) & ~Variable(seen, "categorical").missing).any())


def _channels(count: int) -> str:
    return f"{count} channels" if count > 1 else "one channel"


def _why(measured: Mapping[str, Any]) -> str:
    """The comment above an evaluator's table."""
    if measured["use"] != "held":
        return ""
    return (
        f"No {measured['column']} is in both splits, so the probe is fitted to some of the test images and"
        " measured on the others."
    )


def _comment(text: str, lines: Mapping[str, Any] | None = None) -> str:
    """A comment, and below it keys with their values on a line each."""
    # A command or a table that fits on a line is not broken, so that it can be copied.
    whole = COPIED.sub(lambda found: found[0].replace(" ", "\0"), text)
    said = textwrap.wrap(whole, WIDTH, break_long_words=False, break_on_hyphens=False)
    said = [line.replace("\0", " ") for line in said]
    written = [_line(key, value) for key, value in (lines or {}).items()]
    return "\n".join([*(f"# {line}" for line in said), *written]) + "\n"


def _line(key: str, value: Any) -> str:
    """A key with its value on a line, or a long list of tables with one on each."""
    line = toml_of({key: value})[1:-1]
    if len(line) <= WIDTH or not isinstance(value, list):
        return line
    return "\n".join([f"{key} = [", *(f"    {toml_of(each)}," for each in value), "]"])


def _table(name: str, values: Mapping[str, Any], text: str = "") -> str:
    """A table with a key on each line, below a comment."""
    comment = _comment(text) if text else ""
    return f"{comment}[{name}]\n{_comment('', values)}"
