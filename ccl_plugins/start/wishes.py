"""What a user wishes of the variables that are known of each image, checked against what there is."""

from __future__ import annotations

from dataclasses import dataclass

from ccl_plugins.arguments import whole
from ccl_plugins.start.found import Found, FoundColumn


@dataclass(frozen=True)
class Wishes:
    """What shall become of what is known of each image; without a wish, images alone are contrasted.

    Args:
        keep: The column that features shall tell.
        suppress: Columns that they shall not tell.
        weak: Columns of weak labels: images that agree in them are alike, more or less.
        pairs: The column of what an image shows, of which there are a few images each.
        captions: The column of texts that say what an image shows.
        batch: The images that fit into memory at once; None: chosen by their number.
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
        """Check that there are such columns, that they suit the wishes, and the wishes each other.

        Raises:
            ValueError: If not, quoting what there is.
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
    """Refuse a variable that tells no images apart, or all of them."""
    if variable.value_type == "text":
        raise ValueError(
            f"{variable.name!r} has texts, which are captions or, with --type"
            f" {variable.name}=categorical, classes"
        )
    if wrong := tells_nothing(variable):
        raise ValueError(wrong)


def tells_nothing(variable: FoundColumn) -> str:
    """Why a variable tells no images apart, or all of them; nothing if it tells some."""
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
