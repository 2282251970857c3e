"""Faults put into the code one at a time, and whether the tests of that part notice them.

The faults are those of mutmut's operators, at every place of a part: decorated functions, constants and
defaults too.  Left out are the texts of raised errors, docstrings, type annotations, ``strict`` of zip,
``EXPECTED_FAILURES``, and ``device``, which only a machine with a GPU can tell.

pytest collects the tests once.  Each fault is tried in a fork of that process, on the tests that run
its lines, for at most a minute: first those that noticed faults of the same file, then the fastest.  The
changed function's code replaces the one that was imported.  A fault outside of function bodies is
imported anew, and so is one that these tests do not notice, because what is made while tests are
collected has not seen it.  All of this happens in a copy of the tree.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gc
import hashlib
import itertools
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import coverage
import libcst as cst
import libcst.matchers as m
import pytest
from libcst.metadata import (
    MetadataWrapper,
    PositionProvider,
    WhitespaceInclusivePositionProvider,
)
from mutmut.mutation.mutators import mutation_operators

ROOT = Path(__file__).resolve().parents[3]
OURS = "tests/ccl_plugins"
LAWS = f"{OURS}/testing/test_builtins.py"
MEANING = "tests/test_components.py"
JOINT = f"{OURS}/objectives/test_joint_kernels.py"
PARTS: dict[str, list[str]] = {
    "numerics": [
        f"{OURS}/numerics",
        JOINT,
        f"{OURS}/figures/test_figures.py",
    ],
    "pairs": [f"{OURS}/pairs", f"{OURS}/objectives/test_masks.py"],
    "objectives": [
        f"{OURS}/objectives",
        f"{OURS}/numerics/test_gram.py",
        "tests/test_oracles.py",
        LAWS,
        MEANING,
    ],
    "kernels": [
        f"{OURS}/kernels",
        f"{OURS}/numerics/test_kernel_functions.py",
        f"{OURS}/numerics/test_joint.py",
        JOINT,
        LAWS,
        MEANING,
    ],
    "methods": [f"{OURS}/methods", LAWS, MEANING],
    "samplers": [f"{OURS}/samplers", LAWS, MEANING],
    "drawing": [f"{OURS}/samplers"],
    "registry": ["tests/registry"],
}
"""The tests of each part; of the conformance kit's, those of the part's own kind.

Those of compiling are left out, because each takes seconds.
"""
OPTIONS = [
    "-k",
    "not compile",
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--no-header",
    "-W",
    "ignore",
]
UNSEEN = r"(, strict=\w+|(, )?device=[\w.]+|, (?=\)))"
"""Arguments that change nothing here: zip's check that our own lists are of one length, and devices."""
PATIENCE = 60
"""The seconds that the tests of one fault may take together."""
TYPES = m.Subscript(value=m.Name(value=m.MatchIfTrue(lambda name: name[0].isupper())))
COLLECTED = m.AnnAssign(target=m.Name("EXPECTED_FAILURES"))
"""What the conformance kit reads while tests are collected, and refuses there."""
ALIAS = m.Assign(value=TYPES) | m.AnnAssign(annotation=m.Annotation(m.Name("TypeAlias")))


class Mutant(NamedTuple):
    """One fault: its place, the lines it changes and the module's source with it."""

    path: str
    number: int
    first: int
    last: int
    before: str
    after: str
    source: str

    @property
    def name(self) -> str:
        """The place and the two texts, the same in every run on the same source."""
        return f"{self.path}:{self.number}"


class _Places(cst.CSTVisitor):
    """Every node that an operator changes, with what takes its place."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        self.found: list[tuple[cst.CSTNode, cst.CSTNode, int, int]] = []
        self.statement = (0, 0)
        self.raising = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Annotation | cst.ImportFrom | cst.Import):
            return False
        if m.matches(node, m.Expr(m.SimpleString() | m.ConcatenatedString())):
            return False  # a docstring
        if m.matches(node, ALIAS | COLLECTED):
            return False
        if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            at: Any = self.get_metadata(PositionProvider, node)
            last = at.end.line if isinstance(node, cst.SimpleStatementLine) else at.start.line
            self.statement = (at.start.line, last)
        self.raising += isinstance(node, cst.Raise)
        if not (self.raising and isinstance(node, cst.BaseString)):
            at = self.get_metadata(PositionProvider, node, None)
            lines = (at.start.line, at.end.line) if at else self.statement
            if isinstance(node, cst.BaseStatement):
                lines = self.statement
            for kind, operator in mutation_operators:
                if isinstance(node, kind):
                    self.found += [(node, other, *lines) for other in operator(node)]
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        self.raising -= isinstance(original_node, cst.Raise)
        super().on_leave(original_node)


def mutants(root: Path, folder: str) -> Iterator[Mutant]:
    """All faults of a folder, in order."""
    for file in sorted((root / folder).rglob("*.py")):
        path, text = str(file.relative_to(root)), file.read_text("utf-8")
        wrapper, places = MetadataWrapper(cst.parse_module(text)), _Places()
        wrapper.visit(places)
        module = wrapper.module
        starts = [*itertools.accumulate((len(x) + 1 for x in text.split("\n")), initial=0)]
        spans: Any = wrapper.resolve(WhitespaceInclusivePositionProvider)
        for number, (node, other, first, last) in enumerate(places.found):
            if isinstance(node, cst.BaseStatement):  # only the module knows how far it is indented
                changed: Any = module.deep_replace(node, other)
                source = changed.code
            else:
                start, end = (
                    starts[at.line - 1] + at.column for at in (spans[node].start, spans[node].end)
                )
                source = text[:start] + module.code_for_node(other) + text[end:]
            try:
                compile(source, path, "exec")
            except SyntaxError:
                continue
            before, after = _difference(text, source)
            if re.sub(UNSEEN, "", before) != re.sub(UNSEEN, "", after):
                yield Mutant(path, number, first, last, before, after, source)


def _difference(one: str, other: str) -> tuple[str, str]:
    """The lines that differ, without indentation."""
    ours, theirs = ([line.strip() for line in text.splitlines()] for text in (one, other))
    pairs = zip([*ours, None], [*theirs, None], strict=False)
    same = next((place for place, (old, new) in enumerate(pairs) if old != new), 0)
    lines = list(difflib.unified_diff(ours[same:], theirs[same:], lineterm="", n=0))[2:]
    found = [[x[1:] for x in lines if x[0] == sign] for sign in "-+"]
    return " ".join(found[0]), " ".join(found[1])


def codes(code: CodeType) -> list[CodeType]:
    """A code object and all within it, in order."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [code, *(x for each in inner for x in codes(each))]


def own(code: CodeType) -> tuple[Any, ...]:
    """What a code object does itself, without the functions and classes within it."""
    constants = [repr(x) for x in code.co_consts if not isinstance(x, CodeType)]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


class Notes:
    """A pytest plug-in that writes down which test noticed a fault."""

    def __init__(self, folder: Path):
        self.folder = folder

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write down a failure."""
        if report.failed:
            (self.folder / "noticed.txt").write_text(report.nodeid)


class Trial:
    """A pytest plug-in that runs the collected tests once for each fault instead of once."""

    def __init__(
        self,
        root: Path,
        part: str,
        chosen: Sequence[Mutant],
        minutes: float,
        measured: Path | None,
        out: Callable[..., None],
    ):
        self.root, self.part, self.chosen, self.out = root, part, chosen, out
        self.minutes = minutes
        self.measured = measured or root / "measured.json"
        self.noticing: Counter[tuple[str, str]] = Counter()
        self.files: Counter[str] = Counter()
        self.failed = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Of the conformance kit's tests, keep those of the part's kind."""
        kind = self.part.removesuffix("s")
        items[:] = [x for x in items if LAWS not in x.nodeid or f"{kind}/" in x.nodeid]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a failure, also in setup and teardown, and how long the test itself took."""
        self.failed |= report.failed
        if report.when == "call":  # what the tests of a file share is set up once in a run
            self.called = report.duration
        if report.failed:
            (self.root / "noticed.txt").write_text(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests once, then those of each fault."""
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        self.items = {item.nodeid: item for item in session.items}
        if (code := self._fork(self._measure, 3600)) != 0:
            raise session.Interrupted(f"the tests do not run ({code})")
        _, self.seconds, self.lines = json.loads(self.measured.read_text())
        self.seconds = {name: self.seconds[name] for name in self.items if name in self.seconds}
        self.out(f"{len(self.seconds)} tests, {sum(self.seconds.values()):.0f} s")
        for name in self.items.keys() - self.seconds.keys():
            self.out(f"left out, because it fails without a fault: {name}")
        functions = [x for x in gc.get_objects() if isinstance(x, FunctionType)]
        begun = time.monotonic()
        for mutant in self.chosen:
            started = time.monotonic()
            if started - begun > 60 * self.minutes:
                break
            outcome = self._try(mutant, functions)
            self.out(mutant, outcome, time.monotonic() - started)
        return True

    def _measure(self) -> int:
        """Time every test, and note the lines that it runs; not again if the code is the same."""
        folder = self.root / source_of(self.part)
        now = [x.read_text("utf-8") for x in sorted(folder.rglob("*.py"))]
        texts = hashlib.sha256(json.dumps(now).encode()).hexdigest()
        known, seconds, lines = texts, {}, {}
        if self.measured.exists():
            known, seconds, lines = json.loads(self.measured.read_text())
        if known != texts:
            seconds, lines = {}, {}
        cover = coverage.Coverage(data_file=None, include=[f"{folder}/*"])
        cover.start()
        for name in self.items:
            if name in seconds:
                continue
            cover.switch_context(name)
            self.called = 0.0
            self._run([name])
            if not self.failed:
                seconds[name] = self.called
            self.failed = False
        cover.stop()
        data = cover.get_data()
        for each in data.measured_files():
            found = lines.setdefault(str(Path(each).relative_to(self.root)), {})
            for line, names in data.contexts_by_lineno(each).items():
                found.setdefault(str(line), []).extend(name for name in names if name)
        self.measured.write_text(json.dumps([texts, seconds, lines]))
        return 0

    def _run(self, names: Sequence[str]) -> int:
        for place, name in enumerate(names):
            following = self.items[names[place + 1]] if place + 1 < len(names) else None
            item = self.items[name]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return 1
        return 0

    def _try(self, mutant: Mutant, functions: Sequence[FunctionType]) -> str:
        file = self.root / mutant.path
        text = file.read_text("utf-8")
        before = codes(compile(text, str(file), "exec"))
        after = codes(compile(mutant.source, str(file), "exec"))
        within = len(before) == len(after) and all(
            own(old) == own(new) or (old.co_flags & 1 and old.co_freevars == new.co_freevars)
            for old, new in zip(before, after, strict=True)
        )
        lines = self.lines.get(mutant.path, {})
        pairs = {old: new for old, new in zip(before, after, strict=False) if old != new}
        live = [(f, pairs[f.__code__]) for f in functions if self._is_of(f, file, pairs)]

        def run_by(wanted: Iterable[int]) -> list[str]:
            names = {name for line in wanted for name in lines.get(str(line), [])}
            return self._fastest(names, mutant.path)

        def graft() -> int:
            for function, code in live:
                function.__code__ = code
            return self._run(near)

        def anew() -> int:
            for name in [*sys.modules]:
                if name.partition(".")[0] in ("ccl_plugins", "registry", "tests", "support"):
                    del sys.modules[name]
            files = {name.partition("::")[0] for name in far}
            known = {file for file, _ in self.files.most_common(3)}
            first = {x for x in files if x in known or f"test_{Path(mutant.path).stem}." in x}
            for some in filter(None, (first, files - first)):
                chosen = [name for name in far if name.partition("::")[0] in some]
                code = pytest.main([*OPTIONS, "-x", *chosen], plugins=[Notes(self.root)])
                if code == pytest.ExitCode.USAGE_ERROR:  # a test has another name with the fault
                    code = pytest.main([*OPTIONS, "-x", *some], plugins=[Notes(self.root)])
                if code:
                    return int(code)
            return 0

        near = run_by(range(mutant.first, mutant.last + 1))
        # A test may read a class without running a line of it.
        far = run_by(map(int, lines)) if within else self._fastest(self.items, mutant.path)
        code, notes = 0, self.root / "noticed.txt"
        notes.unlink(missing_ok=True)
        try:
            file.write_text(mutant.source, "utf-8")  # other processes import it
            if within and live and near:
                code = self._fork(graft, self._limit(near))
            if code == 0:  # what was made while tests were collected has not seen the fault
                code = self._fork(anew, 60 + self._limit(far))
        finally:
            file.write_text(text, "utf-8")
        if notes.exists():
            name = notes.read_text()
            self.noticing[mutant.path, name] += 1
            self.files[name.partition("::")[0]] += not within
        return {0: "survived", -signal.SIGALRM: "timeout"}.get(code, "noticed")

    def _fastest(self, names: Iterable[str], path: str) -> list[str]:
        """First those that noticed a fault of the file; as many as take `PATIENCE` seconds together."""

        def order(name: str) -> tuple[int, float]:
            return -self.noticing[path, name], self.seconds[name]

        ordered = sorted(self.seconds.keys() & {*names}, key=order)
        total = itertools.accumulate(self.seconds[name] for name in ordered)
        return [name for name, until in zip(ordered, total, strict=True) if until < PATIENCE]

    def _limit(self, names: Sequence[str]) -> float:
        return 20 + 4 * sum(self.seconds[name] for name in names)

    @staticmethod
    def _is_of(function: FunctionType, file: Path, changed: Mapping[CodeType, CodeType]) -> bool:
        return function.__code__.co_filename == str(file) and function.__code__ in changed

    def _fork(self, work: Callable[[], int], seconds: float) -> int:
        """Run in a child process, and end whatever it started."""
        base = Path(tempfile.mkdtemp(dir=self.root / ".tmp"))
        if (child := os.fork()) == 0:
            code = 70
            try:
                os.setpgid(0, 0)
                os.environ["TMPDIR"] = tempfile.tempdir = str(base)
                for item in self.items.values():
                    item.config._tmp_path_factory._basetemp = base / "pytest"  # type: ignore[attr-defined]
                    (base / "pytest").mkdir(exist_ok=True)
                    break
                signal.alarm(int(seconds))
                code = work()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        shutil.rmtree(base, ignore_errors=True)
        return code


def source_of(part: str) -> str:
    """The folder of a part's code."""
    return part if part == "registry" else f"ccl_plugins/{part}"


def copy(to: Path) -> None:
    """The files of the tree that git knows or would add, and the installed entry points."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    for info in ROOT.glob("*.egg-info"):
        shutil.copytree(info, to / info.name)
    (to / ".tmp").mkdir()


def main() -> None:
    """Try the faults of one part, print those that survive, and the share that is noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sample", type=int, help="how many faults, drawn at random; default: all")
    parser.add_argument("--minutes", type=float, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0, help="of the order in which they are tried")
    parser.add_argument("--file", default="", help="only in files whose path has this")
    parser.add_argument(
        "--again", type=Path, help="only those that a log of this command has as survivors"
    )
    parser.add_argument(
        "--measured",
        type=Path,
        help="where to keep what each test takes and runs, for the next time",
    )
    parser.add_argument("--log", type=Path, help="a line of JSON for each fault")
    options = parser.parse_args()
    terminal = os.fdopen(os.dup(1), "w", buffering=1)
    log = options.log.open("w", buffering=1) if options.log else None
    measured = options.measured and options.measured.resolve()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        root = Path(folder).resolve()
        copy(root)
        os.chdir(root)
        paths = f"{root}:{root / 'tests'}"
        os.environ |= {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        sys.dont_write_bytecode = True
        sys.path[:0] = paths.split(":")
        found = [x for x in mutants(root, source_of(options.part)) if options.file in x.path]
        total = len(found)
        if options.again:
            records = map(json.loads, options.again.read_text().splitlines())
            again = {
                (x["path"], x["before"], x["after"]) for x in records if x["outcome"] == "survived"
            }
            found = [x for x in found if (x.path, x.before, x.after) in again]
        random.Random(options.seed).shuffle(found)
        found = found[: options.sample]
        tally: Counter[str] = Counter()

        def out(what: Mutant | str, outcome: str = "", seconds: float = 0) -> None:
            if isinstance(what, str):
                print(what, file=terminal)
                return
            tally[outcome] += 1
            if outcome == "survived":
                print(
                    f"{outcome}: {what.path}:{what.first}\n  - {what.before}\n  + {what.after}",
                    file=terminal,
                )
            if log:
                record = {**what._asdict(), "outcome": outcome, "seconds": round(seconds, 2)}
                del record["source"]
                print(json.dumps(record), file=log)

        out(f"{options.part}: {len(found)} of {total} faults")
        quiet = os.open(root / "output.txt", os.O_CREAT | os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        code = pytest.main(
            [*OPTIONS, *PARTS[options.part]],
            plugins=[Trial(root, options.part, found, options.minutes or math.inf, measured, out)],
        )
        if code != 0:
            out((root / "output.txt").read_text()[-3000:])
            raise SystemExit(code)
        ran = sum(tally.values())
        noticed = ran - tally["survived"]
        out(
            f"{options.part}: {noticed} of {ran} noticed ({noticed / max(ran, 1):.1%}); {dict(tally)}"
        )


if __name__ == "__main__":
    main()
