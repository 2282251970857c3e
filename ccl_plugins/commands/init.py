"""``ccl init``: a first pipeline for one's own images, from a few questions."""

from __future__ import annotations

import argparse
import shlex
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ccl_registry as engine
from ccl_plugins.commands.base import Mistake, reporting_mistakes

if TYPE_CHECKING:
    from ccl_plugins.protocols import ValueType
    from ccl_plugins.scaffold.found import Found, FoundColumn
    from ccl_plugins.scaffold.wishes import Wishes

WISHES = {
    "keep": "features tell it",
    "weak": "images that agree in it are mostly alike",
    "pairs": "it names what an image shows, of which there are a few images each",
    "suppress": "features do not tell it",
}
"""What can be wished of a column of classes; of numbers, to keep and to suppress."""


class Init:
    """Start here: write a pipeline for a folder or a table of images, from a few questions or options."""

    example = "ccl init birds.csv --keep species --suppress camera"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument(
            "path",
            metavar="FOLDER_OR_TABLE",
            help="a folder of images, or of a folder per class; or a table (.csv, .tsv, .parquet)",
        )
        parser.add_argument(
            "--out", metavar="FILE.toml", help="the file (default: named after the data)"
        )
        parser.add_argument(
            "--keep", metavar="COLUMN", help="classes or numbers that features shall tell"
        )
        parser.add_argument(
            "--suppress",
            action="append",
            default=[],
            metavar="COLUMN",
            help="classes or numbers that features shall not tell; may be repeated",
        )
        parser.add_argument(
            "--weak",
            action="append",
            default=[],
            metavar="COLUMN",
            help="classes of images that are mostly alike, as noisy labels or attributes; may be repeated",
        )
        parser.add_argument(
            "--pairs", metavar="COLUMN", help="what an image shows, of which there are a few each"
        )
        parser.add_argument(
            "--captions", metavar="COLUMN", help="texts that say what an image shows"
        )
        parser.add_argument(
            "--batch", type=int, metavar="N", help="images that fit into memory at once"
        )
        parser.add_argument(
            "--label", metavar="COLUMN", help="classes to measure by (default: one of such a name)"
        )
        parser.add_argument(
            "--image", metavar="COLUMN", help="image files (default: one of such a name)"
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
            "--quick", action="store_true", help="decode no image file and make no step"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Run it and return the exit status."""
        path = Path(arguments.path).expanduser()
        file = Path(arguments.out or f"{path.resolve().stem}.toml").expanduser()
        if file.exists():
            raise Mistake(f"{file} exists, and is not changed: --out names another file")
        from ccl_plugins.commands.inspect import Shown
        from ccl_plugins.experiments.composition import Composition
        from ccl_plugins.experiments.inspection import inspect_composed

        with reporting_mistakes(str(path)):
            title, text, notes = chosen(arguments, path, file)
            tables = tomllib.loads(text)
            inspection = inspect_composed(
                lambda: Composition.from_dict(tables, str(file)), quick=arguments.quick
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
        for note in notes:
            print(f"- {note}")
        print(Shown(inspection))
        print(f"{file}: {title}")
        print(f"next:\n  ccl train {shlex.quote(str(file))}")
        return 0


def chosen(options: argparse.Namespace, path: Path, file: Path) -> tuple[str, str, list[str]]:
    """What is chosen in a sentence, the text of the file, and what was taken for what."""
    from ccl_plugins.scaffold.found import look
    from ccl_plugins.scaffold.pipeline import first_pipeline
    from ccl_plugins.scaffold.wishes import Wishes

    types = dict(map(_type, options.type))
    contents = look(path, image=options.image, label=options.label, value_types=types)
    wishes = Wishes(
        options.keep or "",
        tuple(options.suppress),
        tuple(options.weak),
        options.pairs or "",
        options.captions or "",
        options.batch,
    )
    if not wishes.columns and not options.yes and sys.stdin.isatty():
        wishes = asked(contents, wishes)
    title, text = first_pipeline(contents, wishes, _call(options, wishes), str(file))
    notes = [*contents.notes]
    if not wishes.columns and contents.variables:
        ways = "--keep, --weak, --pairs, --suppress and --captions"
        notes.append(f"of {', '.join(contents.variables)} nothing is trained on, as {ways} would")
    return title, text, notes


def _type(given: str) -> tuple[str, ValueType]:
    name, _, value_type = given.rpartition("=")
    if not name:
        raise ValueError(f"--type needs COLUMN=TYPE, as age=continuous, not {given!r}")
    return name, value_type  # type: ignore[return-value]  # it is checked where the column is read


def _call(options: argparse.Namespace, wishes: Wishes) -> str:
    """The command that writes the same file without questions."""
    words = ["ccl", "init", options.path]
    for name in ("keep", "suppress", "weak", "pairs", "captions", "batch"):
        given = getattr(wishes, name)
        for value in given if isinstance(given, tuple) else [given] if given else []:
            words += [f"--{name}", str(value)]
    for name in ("label", "image"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", value]
    for value in options.type:
        words += ["--type", value]
    return shlex.join(words)


def asked(contents: Found, wishes: Wishes) -> Wishes:
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
            wish = _choice(f"What shall become of {name}?", {each: WISHES[each] for each in few})
        if wish in ("keep", "weak", "captions"):
            texts = {each for each in columns if variables[each].value_type == "text"}
            others = {each: columns[each] for each in columns if each not in {name, *texts}}
            hidden = (
                _choice("What shall features not tell?", {"": "nothing"} | others) if others else ""
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
    """Whether something can be wished of it."""
    from ccl_plugins.scaffold.wishes import tells_nothing

    return not (variable.missing if variable.value_type == "text" else tells_nothing(variable))


def _choice(question: str, choices: dict[str, str]) -> str:
    """Ask for one of several; the first is the default."""
    print(question)
    for number, (name, what) in enumerate(choices.items()):
        print(engine.shown(f"  {number}  {f'{name}: ' if name else ''}{what}"))
    keys = {str(number): name for number, name in enumerate(choices)}
    given = _answer("[0]", lambda given: given in keys or given in choices or not given)
    return keys.get(given or "0", given)


def _answer(question: str, right: Callable[[str], Any]) -> str:
    """Ask until the answer is right."""
    while True:
        try:
            given = input(f"{question} ").strip()
        except EOFError as error:
            raise Mistake("a question was not answered: --yes asks none") from error
        if right(given):
            return given
        print(f"{given!r} is none of the answers")
