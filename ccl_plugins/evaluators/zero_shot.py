"""Accuracy of naming classes by prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.nn.functional import normalize

from ccl_plugins.evaluators.columns import (
    OfColumn,
    most_frequent,
    name_prefix,
    rows_with_classes,
    score,
    top1,
)
from ccl_plugins.evaluators.intervals import mean
from ccl_plugins.evaluators.linear import balanced_accuracy
from ccl_plugins.evaluators.projections import BLOCK, images_of, texts_of, towers_of
from ccl_plugins.protocols import Frozen, Measurement

Prompts = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""A template with ``{}``, several, or the prompts of each class by its name."""


class ZeroShot(OfColumn):
    """Accuracy of naming the class of an image by prompts, without any training on labels.

    Each class has one or more prompts, such as "a picture of a cat".  The text tower projects them; the
    mean of a class's unit vectors, scaled to unit length, stands for the class.  An image gets the class
    with the most similar vector.  Gives ``"zero_shot/top1"``, the fraction of test samples that get
    their class; with more than five classes ``"zero_shot/top5"``, the fraction whose class is among the
    five most similar; for another column, ``"zero_shot-<column>/..."``.  The method must have a text
    tower, such as that of ``dual``.

    Split: measured on the test split; nothing is fitted and nothing selected.

    Args:
        prompts: A template with ``{}`` in place of the class's name, or a list of templates; or a mapping
            from each class's name to its prompt, or to a list of them.
        column: Categorical column of the metadata that is named; samples without a class are left out,
            and a warning counts them.
        names: The name of each class id, in order; None: the column's words.
        balanced: Whether to add ``"zero_shot/balanced"``, the mean over the classes of the test split of
            the fraction of their samples that is named right.

    Raises:
        ValueError: For a template without ``{}``, and no prompts; on use, if there is no text tower, a
            class has no name or no prompt, a column is missing or not categorical, or a projection is not
            finite.
        UndefinedMetric: If ``balanced``, and the test split has one class.

    Source:
        Radford et al., Learning Transferable Visual Models From Natural Language Supervision (2021),
        section 3.1; several prompts as in 3.1.4.
    """

    reads_towers = True

    def __init__(
        self,
        prompts: Prompts = "a picture of {}",
        column: str = "label",
        names: Sequence[str] | None = None,
        balanced: bool = False,
    ) -> None:
        self.prompts = _checked(prompts)
        self.column = column
        self.names = names
        self.balanced = balanced

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``zero_shot/top1``, and ``/top5`` and ``/balanced`` where they are defined."""
        towers = towers_of(test, "zero_shot")
        rows, ids = rows_with_classes(test, self.column)
        prompts = self._of_each_class(test, int(ids.max()))
        vectors = texts_of(towers, [text for texts in prompts for text in texts])
        means = [part.mean(dim=0) for part in vectors.split([len(texts) for texts in prompts])]
        classes = normalize(torch.stack(means), dim=1)
        blocks = images_of(towers, rows).split(max(1, BLOCK // len(classes)))
        five = min(5, len(classes))
        ranking = torch.cat([(each @ classes.T).topk(five, dim=1).indices for each in blocks])
        by = "its most similar prompt"
        measurements = [top1("zero_shot", self.column, ranking[:, 0], ids, by)]
        if len(classes) > 5:
            words = (
                f"the share of the test samples whose {self.column} is among the five with the most"
            )
            words += " similar prompts"
            among, chance = mean((ranking == ids[:, None]).any(dim=1)), most_frequent(ids, 5)
            top5 = f"{name_prefix('zero_shot', self.column)}/top5"
            measurements.append(score(top5, self.column, among, words, chance))
        if self.balanced:
            measurements.append(balanced_accuracy("zero_shot", self.column, ranking[:, 0], ids, by))
        return measurements

    def _of_each_class(self, test: Frozen, largest: int) -> list[list[str]]:
        """The prompts of each class id."""
        names = self.names or test.vocabulary.get(self.column)
        if not names:
            raise ValueError(
                f"zero_shot: column {self.column!r} has no words for its class ids: give names=, a name for"
                " each id"
            )
        if largest >= len(names):
            raise ValueError(
                f"zero_shot: column {self.column!r} has the class id {largest}, but there are "
                f"{len(names)} names"
            )
        if not isinstance(self.prompts, Mapping):
            return [[each.replace("{}", name) for each in self.prompts] for name in names]
        if set(self.prompts) != set(names):
            odd = sorted(set(self.prompts) ^ set(names))[0]
            wrong = "has no prompt" if odd in names else "is no class"
            raise ValueError(
                f"zero_shot: {odd!r} {wrong}; the classes of {self.column!r} are {', '.join(names)}"
            )
        return [self.prompts[name] for name in names]


def _checked(prompts: Prompts) -> list[str] | dict[str, list[str]]:
    """Templates, or the prompts of each class."""
    if isinstance(prompts, Mapping):
        of_each = {
            name: _listed(each, f"the prompts of {name!r}") for name, each in prompts.items()
        }
        if not of_each:
            raise ValueError("prompts must name the classes, but none are given")
        return of_each
    templates = _listed(prompts, "prompts")
    for template in templates:
        if "{}" not in template:
            raise ValueError(f"prompts: {template!r} has no {{}}, the place of the class's name")
    return templates


def _listed(texts: str | Sequence[str], what: str) -> list[str]:
    listed = [texts] if isinstance(texts, str) else list(texts)
    if not listed or not all(text.strip() for text in listed):
        raise ValueError(f"{what} must be one or more texts, not {texts!r}")
    return listed
