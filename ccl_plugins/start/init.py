"""``ccl init``: a first pipeline for your own images, from a few questions."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ccl_registry as engine
from ccl_plugins.commands.base import reporting_mistakes

if TYPE_CHECKING:
    from ccl_plugins.protocols import ValueType
    from ccl_plugins.start.found import Found, FoundColumn
    from ccl_plugins.start.leaf import Wishes

WISHES = {
    "keep": "the features shall hold it",
    "weak": "images with the same value are mostly alike",
    "pairs": "it names the object in an image, and each object has a few images",
    "suppress": "the features shall not hold it",
}
"""The wishes for a column of classes; a column of numbers can be kept or suppressed."""


class Init:
    """Start here: write a pipeline for a folder or a table of images, from a few questions or options."""

    example = "ccl init birds.csv --keep species --suppress camera"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "path",
            metavar="FOLDER_OR_TABLE",
            help="a folder of images, or of a folder per class; or a table (.csv, .tsv, .parquet)",
        )
        parser.add_argument(
            "--out", metavar="FILE.toml", help="the file (default: named after the data)"
        )
        parser.add_argument(
            "--keep", metavar="COLUMN", help="classes or numbers that the features shall hold"
        )
        parser.add_argument(
            "--suppress",
            action="append",
            default=[],
            metavar="COLUMN",
            help="classes or numbers that the features shall not hold; may be repeated",
        )
        parser.add_argument(
            "--weak",
            action="append",
            default=[],
            metavar="COLUMN",
            help="classes of images that are mostly alike, such as noisy labels or attributes; may be"
            " repeated",
        )
        parser.add_argument(
            "--pairs",
            metavar="COLUMN",
            help="names of the objects in images, with a few images of each",
        )
        parser.add_argument(
            "--captions", metavar="COLUMN", help="texts that say what an image shows"
        )
        parser.add_argument(
            "--batch", type=int, metavar="N", help="images that fit into memory at once"
        )
        parser.add_argument(
            "--label",
            metavar="COLUMN",
            help="classes to measure by (default: a column with such a name)",
        )
        parser.add_argument(
            "--image", metavar="COLUMN", help="image files (default: a column with such a name)"
        )
        parser.add_argument(
            "--root",
            metavar="FOLDER",
            help="the folder that image files of a table are relative to (default: the table's)",
        )
        parser.add_argument(
            "--group",
            metavar="COLUMN",
            help="images that belong together, such as those of a plate or patient, and come into one"
            " split (default: a column with such a name); none: split image by image",
        )
        parser.add_argument(
            "--levels",
            action="append",
            default=[],
            metavar="BLACK,WHITE",
            help="the values of pixels that become black and white, such as 0,4095, or by type, such as"
            " uint16=0,4095, which may be repeated (default: the range of some images, if they have more"
            " than 8 bits)",
        )
        parser.add_argument(
            "--mode",
            help="RGB; L: gray; all: every channel of every page (default: RGB for color and gray images,"
            " all for others)",
        )
        parser.add_argument(
            "--page",
            type=int,
            metavar="N",
            help="the page to read of files with several pages, counted from 0",
        )
        parser.add_argument(
            "--on-error",
            metavar="error|skip",
            help="skip: leave out images that cannot be read (default: they are an error)",
        )
        parser.add_argument(
            "--encoding", help="the encoding of a CSV file, such as cp1252 (default: utf-8)"
        )
        parser.add_argument(
            "--test-fraction",
            type=float,
            metavar="SHARE",
            help="the share of images to test on, such as 0.2",
        )
        parser.add_argument(
            "--seed", type=int, metavar="N", help="the seed that chooses these images"
        )
        parser.add_argument(
            "--type",
            action="append",
            default=[],
            metavar="COLUMN=TYPE",
            help="categorical or continuous, where a column is read as the other; may be repeated",
        )
        parser.add_argument("--yes", action="store_true", help="ask nothing")
        parser.add_argument(
            "--quick", action="store_true", help="decode at most 64 image files, and time no step"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        path = Path(arguments.path).expanduser()
        file = Path(arguments.out or f"{path.resolve().stem}.toml").expanduser()
        if file.exists():
            raise engine.Mistake(f"{file} exists, and is not changed: --out names another file")
        from ccl_plugins.experiments.composition import Composition
        from ccl_plugins.explore.inspect import InspectionTable
        from ccl_plugins.explore.inspection import inspect_composed

        try:
            with reporting_mistakes():
                title, text, notes = chosen(arguments, path, file)
                tables = tomllib.loads(text)
                inspection = inspect_composed(
                    lambda: Composition.from_dict(tables, str(file)), quick=arguments.quick
                )
                if inspection.unreadable:
                    raise ValueError("; ".join(inspection.unreadable))
        except engine.Mistake as error:
            text = as_options(str(error))
            raise engine.Mistake(text if str(path) in text else f"{path}: {text}") from error
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
        for note in notes:
            print(f"- {as_options(note)}")
        print(InspectionTable(replace(inspection, notes=[*map(as_options, inspection.notes)])))
        if (hours := inspection.step.get("hours", 0.0)) > LONG:
            fewer = max(1, round(tables["fit"]["epochs"] * LONG / hours))
            shorter = f"ccl train {shlex.quote(str(file))} --set fit.epochs={fewer}"
            print(f"- for a run of {60 * LONG:.0f} minutes here: {shorter}")
        print(f"{file}: {title}")
        print(f"next:\n  ccl train {shlex.quote(str(file))}")
        return 0


LONG = 0.5
"""The hours of a first run above which a shorter one is proposed."""

GIVEN = ("root", "mode", "levels", "page", "on_error", "encoding", "group", "test_fraction", "seed")
"""The arguments of the data sets that are options, too."""

ADVICE = re.compile(
    rf"\b({'|'.join(GIVEN)}) ?= ?"
    r"""("[^"]*"|'[^']*'|\[[^\]]*\]|\{[^}]*\}|[\d.]*\d)( of the data set)?"""
)
DECLARED = re.compile(r"(column '([^']+)'.*?)declare (?:it|the column) (categorical|continuous)")


def as_options(text: str) -> str:
    """A message of a data set, with its arguments as the options of ``ccl init``.

    ``on_error="skip"`` becomes ``--on-error skip``, and ``levels = [0, 4095]`` becomes
    ``--levels 0,4095``.
    """
    text = ADVICE.sub(lambda found: _option(found[1], found[2]), text)
    text = DECLARED.sub(lambda f: f"{f[1]}give {shlex.join(['--type', f'{f[2]}={f[3]}'])}", text)
    text = text.replace(
        "name the test samples instead of giving test_fraction",
        "give the table a column with train or test in each row",
    )
    return text.replace("another seed", "another --seed").replace(
        "test_fraction", "--test-fraction"
    )


def _option(name: str, value: str) -> str:
    """An option with a value that a configuration has."""
    words = tomllib.loads(f"value = {value}")["value"]
    if name == "levels":
        by_type = words if isinstance(words, dict) else {"": words}
        each = [
            (f"{kind}=" if kind else "") + ",".join(map(str, ends))
            for kind, ends in by_type.items()
        ]
        return " ".join(f"--levels={e}" if e[0] == "-" else f"--levels {e}" for e in each)
    return shlex.join([f"--{name.replace('_', '-')}", str(words)])


def chosen(options: argparse.Namespace, path: Path, file: Path) -> tuple[str, str, list[str]]:
    """The choice in a sentence, the text of the file, and the notes about interpretations."""
    from ccl_plugins.start.found import is_label, look
    from ccl_plugins.start.leaf import Wishes
    from ccl_plugins.start.pipeline import first_pipeline

    how: dict[str, Any] = {
        "image": options.image,
        "group": "" if options.group == "none" else options.group,
        "value_types": dict(map(_type, options.type)),
        "given": _given(options),
    }
    contents = look(path, label=options.label, **how)
    wishes = Wishes(
        options.keep or "",
        tuple(options.suppress),
        tuple(options.weak),
        options.pairs or "",
        options.captions or "",
        options.batch,
    )
    if not wishes.columns and not options.yes and sys.stdin.isatty():
        wishes = ask_wishes(contents, wishes)
    kept = contents.variables.get(wishes.keep)
    if options.label is None and not contents.label and kept and is_label(kept):
        contents = look(path, label=wishes.keep, **how)
        contents.notes.append(
            f"{wishes.keep!r} is kept, and is also the label, by which features are measured: --label names"
            " another"
        )
    call = _call(options, wishes)
    try:
        title, text, said = first_pipeline(contents, wishes, call, str(file))
    except ValueError as error:
        if options.group is not None or not contents.group:
            raise
        # A group that the user did not name may not divide the images: try without it.
        proposed, contents = contents.group, replace(contents, group="")
        title, text, said = first_pipeline(contents, wishes, call, str(file))
        contents.notes[:] = [
            each for each in contents.notes if not each.startswith(f"{proposed!r} looks")
        ]
        said = [f"{proposed!r} looks like a group, but images are not split by it: {error}", *said]
    notes = [*contents.notes, *said]
    if not wishes.columns and contents.variables:
        ways = "--keep, --weak, --pairs, --suppress and --captions"
        notes.append(f"no column is trained on: {ways} name one of {', '.join(contents.variables)}")
    return title, text, notes


def _type(given: str) -> tuple[str, ValueType]:
    name, _, value_type = given.rpartition("=")
    if not name:
        raise ValueError(f"--type needs COLUMN=TYPE, such as age=continuous, not {given!r}")
    return name, value_type  # type: ignore[return-value]  # it is checked where the column is read


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the data set that are options."""
    given = {name: getattr(options, name) for name in GIVEN if name not in ("group", "levels")}
    by_type: dict[str, tuple[float, ...]] = {}
    for level in options.levels:
        kind, _, ends = level.rpartition("=")
        try:
            black, white = map(float, ends.split(","))
        except ValueError as error:
            raise ValueError(
                "--levels needs BLACK,WHITE, such as 0,4095, or by type, such as uint16=0,4095, not"
                f" {level!r}"
            ) from error
        if kind in by_type or ("" in {*by_type, kind} and by_type):
            raise ValueError(
                f"--levels are given once, or once for each type, not {options.levels}"
            )
        by_type[kind] = tuple(int(end) if end.is_integer() else end for end in (black, white))
    levels: Any = {kind: [*ends] for kind, ends in by_type.items()}
    given["levels"] = levels.get("", levels) or None
    return {name: value for name, value in given.items() if value is not None}


def _call(options: argparse.Namespace, wishes: Wishes) -> str:
    """The command that writes the same file without questions."""
    words = ["ccl", "init", options.path]
    for name in ("keep", "suppress", "weak", "pairs", "captions", "batch"):
        given = getattr(wishes, name)
        for value in given if isinstance(given, tuple) else [given] if given else []:
            words += [f"--{name}", str(value)]
    for name in ("label", "image", *GIVEN):
        given = getattr(options, name)
        for value in given if isinstance(given, list) else [] if given is None else [given]:
            option = f"--{name.replace('_', '-')}"
            words += [f"{option}={value}"] if str(value)[:1] == "-" else [option, str(value)]
    for value in options.type:
        words += ["--type", value]
    return shlex.join(words)


def ask_wishes(contents: Found, wishes: Wishes) -> Wishes:
    """Ask at most four questions, each with a default, and return the wishes."""
    variables = contents.variables
    columns = {name: str(each) for name, each in variables.items() if _is_of_use(each)}
    wish = ""
    if columns:
        nothing = {"": "nothing: images alone"}
        name = _choice("What do you know of each image?", nothing | columns)
        if name and variables[name].value_type == "text":
            wish = "captions"
        elif name:
            few = ("keep", "suppress") if not variables[name].is_classes else (*WISHES,)
            wish = _choice(f"How shall training use {name}?", {each: WISHES[each] for each in few})
        if wish in ("keep", "weak", "captions"):
            texts = {each for each in columns if variables[each].value_type == "text"}
            others = {each: columns[each] for each in columns if each not in {name, *texts}}
            hidden = (
                _choice("What shall the features not hold?", {"": "nothing"} | others)
                if others
                else ""
            )
            wishes = replace(wishes, suppress=(hidden,) if hidden else ())
        if wish:
            given: Any = (name,) if wish in ("weak", "suppress") else name
            wishes = replace(wishes, **{wish: given})
    if wishes.batch is None:
        question = "How many images fit into memory at once? [as many as 256]"
        answer = _answer(
            question, lambda given: not given or (given.isdecimal() and int(given) > 1)
        )
        wishes = replace(wishes, batch=int(answer) if answer else None)
    return wishes


def _is_of_use(variable: FoundColumn) -> bool:
    """Whether a wish is possible for the column."""
    from ccl_plugins.start.leaf import tells_nothing

    return not (variable.missing if variable.value_type == "text" else tells_nothing(variable))


def _choice(question: str, choices: dict[str, str]) -> str:
    """Ask for one of several; the first is the default."""
    print(question)
    for number, (name, what) in enumerate(choices.items()):
        print(engine.escaped(f"  {number}  {f'{name}: ' if name else ''}{what}"))
    keys = {str(number): name for number, name in enumerate(choices)}
    given = _answer("[0]", lambda given: given in keys or given in choices or not given)
    return keys.get(given or "0", given)


def _answer(question: str, right: Callable[[str], Any]) -> str:
    """Ask until the answer is right."""
    while True:
        try:
            given = input(f"{question} ").strip()
        except EOFError as error:
            raise engine.Mistake("a question got no answer: --yes asks no questions") from error
        if right(given):
            return given
        print(f"{given!r} is not one of the answers")
