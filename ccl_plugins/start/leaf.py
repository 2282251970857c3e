"""A user's wishes for the columns, and the objective that suits them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ccl_plugins.arguments import whole
from ccl_plugins.kernels import RBF
from ccl_plugins.metadata.variable import Variable
from ccl_plugins.start.found import Found, FoundColumn
from ccl_plugins.training.kernel_check import SAMPLED_ROWS, scale_quantiles

ALIKE = 16
"""The least number of images in a batch with one value of a suppressed column that suffices to contrast."""

ATTRIBUTES = 6
"""Attributes that decide the class of weak labels in several columns."""


@dataclass(frozen=True)
class Wishes:
    """The wishes for the columns; without a wish, only images are contrasted.

    Args:
        keep: The column that the features should hold.
        suppress: Columns that the features should not hold.
        weak: Columns of weak labels: images that agree in them are roughly similar.
        pairs: The column of the depicted object, with a few images for each.
        captions: The column of texts that describe the image.
        batch: The number of images that fit into memory; None: chosen by the number of images.
    """

    keep: str = ""
    suppress: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    pairs: str = ""
    captions: str = ""
    batch: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of these wishes."""
        first = (self.keep, *self.weak, self.pairs, self.captions)
        return (*(name for name in first if name), *self.suppress)

    def check(self, contents: Found) -> None:
        """Check that the columns exist and suit the wishes, and that the wishes suit each other.

        Raises:
            ValueError: If not; the message quotes the columns.
        """
        if self.batch is not None:
            whole("batch", self.batch, 2)
        for name in self.columns:
            if name not in contents.variables:
                there = (
                    ", ".join(contents.variables) or "none, as a folder without folders of classes"
                )
                raise ValueError(f"there is no column {name!r}; there are {there}")
        if twice := [name for name in self.columns if self.columns.count(name) > 1]:
            raise ValueError(f"{twice[0]!r} has two wishes: give it one")
        main = [bool(each) for each in (self.keep, self.weak, self.pairs, self.captions)]
        if sum(main) > 1 or (self.pairs and self.suppress):
            raise ValueError(
                "one file is for one of keep, weak, pairs and captions, and for suppress, alone or beside"
                " keep, weak and captions: docs/how-to/keep-and-suppress.md combines more"
            )
        for name in (*self.weak, *([self.pairs] if self.pairs else [])):
            _check_classes(contents.variables[name])
        for name in (self.keep, *self.suppress):
            if name:
                _check_told(contents.variables[name])
        if self.captions:
            _check_captions(contents.variables[self.captions])


def _check_classes(variable: FoundColumn) -> None:
    if not variable.is_classes:
        raise ValueError(
            f"weak labels and pairs are classes, and {variable.name!r} has {variable}: --keep"
            f" {variable.name} reads numbers, --type {variable.name}=categorical makes classes of them"
        )
    _check_told(variable)


def _check_told(variable: FoundColumn) -> None:
    """Refuse a variable with one value for all images, or a different one for each."""
    if variable.value_type == "text":
        raise ValueError(
            f"{variable.name!r} has texts, which are captions or, with --type"
            f" {variable.name}=categorical, classes"
        )
    if wrong := tells_nothing(variable):
        raise ValueError(wrong)


def tells_nothing(variable: FoundColumn) -> str:
    """The reason if a variable has one value for all images, or a different one for each; else empty."""
    if variable.values < 2:
        has = "one value" if variable.values else "no value"
        return f"{variable.name!r} has {has}, and tells no two images apart"
    if variable.is_classes and variable.values == variable.known:
        return (
            f"{variable.name!r} has another value for every image, so no two are alike: take a coarser"
            " column"
        )
    return ""


def _check_captions(variable: FoundColumn) -> None:
    if not variable.longest:
        raise ValueError(f"captions are texts, and {variable.name!r} has {variable}")
    if variable.missing:
        raise ValueError(
            f"{variable.missing} images have no {variable.name!r}: captions are needed for all, so fill"
            " them in or leave these rows out"
        )


@dataclass(frozen=True)
class Leaf:
    """The choices for a wish.

    Args:
        title: The effect of the objective, in a sentence.
        objective: The objective's table.
        conditions: The conditions by name.
        why: The comment about the conditions.
        sampler: The sampler's table; None: the default.
        batch: The number of images in a batch; None: as many as fit into memory.
    """

    title: str
    objective: Mapping[str, Any]
    conditions: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    sampler: Mapping[str, Any] | None = None
    batch: int | None = None


class Chooser:
    """Chooses the leaf for wishes.

    Args:
        contents: The contents of the folder or table.
        train: The training split.
        wishes: The checked wishes.
        batch: The number of images that fit into memory.
    """

    def __init__(self, contents: Found, train: Any, wishes: Wishes, batch: int) -> None:
        self.contents, self.train, self.wishes, self.batch = contents, train, wishes, batch

    def leaf(self) -> Leaf:
        """The leaf."""
        wishes = self.wishes
        if wishes.captions:
            return self._captions()
        if (wishes.keep or wishes.weak) and wishes.suppress:
            return self._guided()
        if wishes.suppress:
            return self._suppressed()
        if wishes.keep:
            return self._kept(wishes.keep)
        if wishes.weak:
            return self._weak()
        if wishes.pairs:
            return self._paired()
        return Leaf(
            "InfoNCE, as in SimCLR: two views of an image are alike, and all images differ.",
            {"use": "infonce", "temperature": 0.1},
        )

    def _kept(self, name: str) -> Leaf:
        if self.contents.variables[name].is_classes:
            return Leaf(
                f"SupCon: images of one {name} are alike, and others are not.",
                {"use": "supcon", "temperature": 0.1},
                *self._single(name, "own"),
            )
        return Leaf(
            f"Soft InfoNCE (y-Aware): images attract each other the more, the nearer they are in {name}.",
            {"use": "soft_infonce", "temperature": 0.1, "kernel": self._kernel(name)},
            *self._single(name, "ignore"),
        )

    def _weak(self) -> Leaf:
        conditions, why = self._of_weak("condition")
        return Leaf(
            f"Cl-InfoNCE: images that agree in {_listed(self.wishes.weak)} are mostly alike.",
            {"use": "cl_infonce", "temperature": 0.1},
            conditions,
            why,
        )

    def _paired(self) -> Leaf:
        name = self.wishes.pairs
        conditions, why = self._single(name, "own")
        return Leaf(
            f"Cl-InfoNCE on pairs: two views are alike if they are of two images of one {name}.",
            {"use": "cl_infonce", "temperature": 0.1},
            conditions,
            why,
            {"use": "conditional_pair", "own_pair": False},
        )

    def _suppressed(self) -> Leaf:
        names = self.wishes.suppress
        variable = self.contents.variables[names[0]]
        if len(names) == 1 and variable.is_classes:
            return self._fair_classes(names[0])
        objective, conditions, why = self._fair(names)
        return Leaf(
            f"Fair-CCLK: an image is contrasted with images of similar {_listed(names)} only. Features"
            f" forget {_listed(names)}, which does not tell such images apart.",
            objective,
            conditions,
            why,
        )

    def _fair_classes(self, name: str) -> Leaf:
        _, index, counts = self._known(name).unique(return_inverse=True, return_counts=True)
        sizes = counts[index].double()
        """For each image, the number of images with the same value."""
        title = (
            f"Fair-InfoNCE: an image is contrasted with images of the same {name} only. Features forget"
            f" {name}, which does not tell such images apart."
        )
        alike = self.batch * float(sizes.mean()) / len(sizes)
        if alike >= ALIKE:
            objective = {"use": "fair_infonce", "temperature": 0.1}
            return Leaf(title, objective, *self._single(name, "ignore"))
        few = f" In a random batch of {self.batch}, only {alike:.0f} images share a value"
        if sizes.median() < 2 * ALIKE:
            return self._guided(f"{few}, too few to contrast them with each other.")
        batch = power_of_two(min(self.batch, float(sizes.median())))
        sampler: dict[str, Any] = {"use": "same_condition"}
        conditions, why = self._single(name, "drop")
        why += f"{few}, so a batch has images of one value."
        if rare := int((sizes < batch).sum()):
            sampler["small"] = "leave_out"
            why += f" {rare} images, whose value has fewer than {batch} images, are not trained on."
        objective = {"use": "infonce", "temperature": 0.1}
        return Leaf(title, objective, conditions, why, sampler, batch)

    def _fair(self, names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any], str]:
        """Fair-CCLK on one variable, or on several at once."""
        objective: dict[str, Any] = {"use": "fair_cclk", "temperature": 0.1, "ridge": 0.01}
        if len(names) == 1:
            objective["kernel"] = self._kernel(names[0])
            return (objective, *self._single(names[0], "ignore"))
        objective["kernel"] = {"use": "product", "on": {n: self._kernel(n) for n in names}}
        return (objective, *self._several(names))

    def _guided(self, more: str = "") -> Leaf:
        wishes = self.wishes
        conditions: dict[str, Any] = {}
        guides = []
        why = ""
        if wishes.keep:
            by = self._head(wishes.keep)
            guides.append({"on": wishes.keep, "keep": True, "by": by, "weight": 1.0})
            conditions, why = self._several((wishes.keep,))
        elif wishes.weak:
            guides.append({"on": "weak", "keep": True, "by": "cl_infonce", "weight": 1.0})
            conditions, why = self._of_weak("weak")
        for name in wishes.suppress:
            way = {"suppress": "least_squares", "weight": 1.0}
            if (by := self._head(name)) == "regression":
                way["weight"] = 3.0
            elif self.contents.variables[name].values > self.batch / 2:
                by, way = "prototypes", {"weight": 1.0}  # too few samples of a class in a batch
            guides.append({"on": name, "keep": False, "by": by, **way})
        hidden, said = self._several(wishes.suppress)
        kept = _listed((wishes.keep,) if wishes.keep else wishes.weak)
        return Leaf(
            f"Guided InfoNCE: features {f'keep {kept} and ' if kept else ''}forget"
            f" {_listed(wishes.suppress)}.",
            {"use": "guided", "base": {"use": "infonce", "temperature": 0.1}, "guides": guides},
            conditions | hidden,
            f"{why} {said}{more}".strip(),
        )

    def _captions(self) -> Leaf:
        name, hidden = self.wishes.captions, self.wishes.suppress
        title = f"CLIP: an image is alike with its own {name}, and with no other."
        temperature = {"learn": True, "start": 0.1}
        if not hidden:
            return Leaf(title, {"use": "infonce", "temperature": temperature})
        title += (
            f" Only those of similar {_listed(hidden)} are contrasted, so that features forget it."
        )
        objective, conditions, why = self._fair(hidden)
        if len(hidden) == 1 and self.contents.variables[hidden[0]].is_classes:
            objective = {"use": "fair_infonce"}
        return Leaf(title, objective | {"temperature": temperature}, conditions, why)

    def _head(self, name: str) -> str:
        numbers = self.contents.variables[name].value_type == "continuous"
        return "regression" if numbers else "classification"

    def _of_weak(self, name: str) -> tuple[dict[str, Any], str]:
        if len(self.wishes.weak) == 1:
            (column,) = self.wishes.weak
            return {name: self._condition(column, "own")}, self._said(column, "own")
        variables = [self.contents.variables[each] for each in self.wishes.weak]
        binary = sum(each.values if each.values > 2 else 1 for each in variables)
        k = min(ATTRIBUTES, binary)
        condition: dict[str, Any] = {
            "use": "attributes",
            "columns": [self.contents.place(each) for each in self.wishes.weak],
            "k": k,
        }
        if any(each.missing for each in variables):
            condition["missing"] = "own"
        why = (
            f"Images are alike if they agree in the {k} attributes that vary most. `ccl information"
            " FILE.toml --values k=1,2,3` shows how much other k tell about the label."
        )
        more = [self._missing(each, "own") for each in self.wishes.weak]
        return {name: condition}, " ".join([why, *filter(None, more)])

    def _single(self, name: str, missing: str) -> tuple[dict[str, Any], str]:
        return {"condition": self._condition(name, missing)}, self._said(name, missing)

    def _several(self, names: tuple[str, ...]) -> tuple[dict[str, Any], str]:
        conditions = {name: self._condition(name, "ignore") for name in names}
        return conditions, " ".join(self._said(name, "ignore") for name in names)

    def _condition(self, name: str, missing: str) -> Any:
        if name == self.contents.label:
            return "label"
        condition: dict[str, Any] = {"use": "column", "name": name}
        variable = self.contents.variables[name]
        if variable.value_type == "continuous":
            condition["standardize"] = True
        if variable.missing:
            condition["missing"] = missing
        return condition

    def _said(self, name: str, missing: str) -> str:
        return " ".join(filter(None, (self._described(name), self._missing(name, missing))))

    def _described(self, name: str) -> str:
        variable = self.contents.variables[name]
        if variable.value_type != "continuous":
            what = f"{variable.values} classes" if variable.is_classes else "attributes"
            return f"{name}: {what}."
        return f"{name}: numbers, brought to mean 0 and deviation 1.{self._scales(name)}"

    def _missing(self, name: str, missing: str) -> str:
        variable = self.contents.variables[name]
        if not variable.missing:
            return ""
        happens = {
            "own": "are alike with their own views only",
            "ignore": f"are left out where {name} is read",
            "drop": "are not trained on",
        }[missing]
        return f"{variable.missing} images have no {name} and {happens}."

    def _scales(self, name: str) -> str:
        quantiles = self._quantiles(name)
        if not quantiles or (self.wishes.suppress and (self.wishes.keep or self.wishes.weak)):
            return ""
        low, middle, high = quantiles
        return (
            " The kernel's scale is a squared distance; a larger scale makes more images alike. A tenth of"
            f" all pairs are nearer than {low:.2g}, half nearer than {middle:.2g}, nine tenths nearer than"
            f" {high:.2g}."
        )

    def _kernel(self, name: str) -> Any:
        value_type = self.contents.variables[name].value_type
        if value_type != "continuous":
            return "delta" if value_type == "categorical" else "jaccard"
        quantiles = self._quantiles(name)
        return {"use": "rbf", "scale": float(f"{quantiles[0]:.2g}") if quantiles else "median"}

    def _quantiles(self, name: str) -> list[float]:
        """The 10, 50 and 90 % quantiles of the squared distances of standardized values."""
        values = self._known(name).double()
        values = values[:: -(-len(values) // SAMPLED_ROWS)]
        deviation = values.std(0, correction=0)
        standardized = (values - values.mean(0)) / deviation.masked_fill(deviation == 0, 1.0)
        return scale_quantiles(RBF(), standardized)

    def _known(self, name: str) -> Tensor:
        """The values in the training split that are not missing."""
        values: Tensor = self.train.metadata[self.contents.place(name)]
        return Variable(values, self.contents.variables[name].value_type).present  # type: ignore[arg-type]


def power_of_two(most: float) -> int:
    """The largest power of two that is not above a number of 1 or more."""
    return 1 << (int(most).bit_length() - 1)


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(names)
