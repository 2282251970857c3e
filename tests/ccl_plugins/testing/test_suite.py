"""The checks of a distribution, refused arguments, and the reports."""

from __future__ import annotations

import json
import multiprocessing
import os
from unittest import SkipTest

import pytest
import torch
from support import programs
from support.broken_objectives import Looking

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.kernels import RBF
from ccl_plugins.objectives import FairInfoNCE
from ccl_plugins.samplers import Uniform
from ccl_plugins.testing import check, checks, kernels, parametrize_with_checks
from ccl_plugins.testing.suite import run

RING = '''
"""A plug-in."""
from ccl_plugins.kernels import RBF


class Ring(RBF):
    """A ring around the origin."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)


class Askew(Ring):
    """A ring that leans."""

    positive_definite = one_hot = False

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.radial = self.distances = None  # those of a ring
        self.ring = Ring(scale)

    def __call__(self, a, b):
        gram = self.ring(a, b)
        return gram + 0.5 * (a.reshape(len(a), -1)[:, :1] > 0.5)


class FromFile(Ring):
    """A ring from a file, which its calls read."""

    def __init__(self, path: str = "ring.txt") -> None:
        super().__init__()
        self.path = path

    def __call__(self, a, b):
        self.scale = float(open(self.path).read())
        return super().__call__(a, b)


class Unshipped(Ring):
    """A ring that reads a file which its package forgot."""

    def __call__(self, a, b):
        open(__file__ + ".radii")


class Written(FromFile):
    """A ring from a file that its example writes."""

    @staticmethod
    def EXAMPLE(folder):
        (folder / "ring.txt").write_text("2.0")
        return {"path": str(folder / "ring.txt")}


class Declared(Askew):
    """A ring that leans on purpose."""

    EXPECTED_FAILURES = {"is_symmetric": "it leans"}


class Misspelled(Ring):
    """A ring whose exception names no law."""

    EXPECTED_FAILURES = {"is_symetric": "it leans"}


class Silent(Ring):
    """A ring whose exception has no reason."""

    EXPECTED_FAILURES = {"is_symmetric": ""}


class Upright(Ring):
    """A ring that does not lean."""

    EXPECTED_FAILURES = {"is_symmetric": "it leans"}


class Unbuildable(Ring):
    """A ring that cannot be built."""

    def __init__(self, scale: float = 1.0) -> None:
        raise TypeError("no such\\nring")


class Stopping(Ring):
    """A ring that ends the process."""

    def __call__(self, a, b):
        raise SystemExit(f"for {len(a)} rows")
'''


@pytest.fixture
def ring(install_plugin):
    """Install a plug-in of one module with some of these kernels."""

    def install(**names):
        points = {name: f"ccl_ring:{target}" for name, target in names.items()}
        return install_plugin("ccl-ring", {"ccl_plugins.kernel": points}, {"ccl_ring.py": RING})

    return install


def test_a_sound_plugin_passes(ring):
    ring(ring="Ring")
    check("CCL_Ring")
    ids = [str(each) for each in checks("ccl-ring")]
    assert "kernel/ring-is_symmetric" in ids
    assert "plugin-is_listed_without_imports" in ids


def test_a_component_is_checked_with_the_parameters_it_is_chosen_with():
    check(ccl.kernel("rbf", scale=3.0))
    with pytest.raises(
        AssertionError, match="kernel/precomputed-is_symmetric: A kernel must be sym"
    ):
        check(ccl.kernel("precomputed", matrix=[[1.0, 0.0], [1.0, 1.0]]))


def test_the_report_begins_with_the_broken_law(ring):
    ring(askew="Askew")
    with pytest.raises(AssertionError) as caught:
        check("ccl-ring")
    assert "kernel/askew-is_symmetric: A kernel must be symmetric" in str(caught.value)
    assert "Greatest absolute difference: 0.5" in str(caught.value)


def test_a_distribution_without_components_is_an_error(ring, install_plugin):
    with pytest.raises(LookupError, match="ccl-nothing is not installed, or has no entry points"):
        checks("ccl-nothing")
    install_plugin("ccl-typo", {"ccl_plugins.kernels": {"ring": "ccl_ring:Ring"}})
    with pytest.raises(LookupError, match=r"ccl-typo offers no component: failed: unknown entry"):
        checks("ccl-typo")


def test_an_expected_failure_that_names_nothing_is_an_error(ring):
    ring(ring="Ring")
    with pytest.raises(LookupError, match=r"Did you mean \('kernel/ring', 'is_symm"):
        parametrize_with_checks(
            "ccl-ring", expected_failures={("kernel/ring", "is_symetric"): "a reason"}
        )
    with pytest.raises(
        LookupError, match="examples for kernel/rong, but ccl-ring offers kernel/ring"
    ):
        checks("ccl-ring", examples={"kernel/rong": {}})
    with pytest.raises(LookupError, match="variants for kernel/rong, but ccl-ring offers kernel/"):
        checks("ccl-ring", variants={"kernel/rong": {"wide": {}}})


def test_a_variant_is_checked_beside_its_example(ring):
    ring(ring="Ring")
    found = checks(
        "ccl-ring", {"kernel/ring": {"scale": 2}}, {"kernel/ring": {"wide": {"scale": 9}}}
    )
    of_each = {
        name: [c for c in found if c.component == name]
        for name in ("kernel/ring", "kernel/ring, wide")
    }
    laws = [[each.name for each in its] for its in of_each.values()]
    assert laws[0] == laws[1]
    assert [its[0].subject.build().scale for its in of_each.values()] == [2, 9]
    assert str(of_each["kernel/ring, wide"][0]) == "kernel/ring, wide-has_a_summary"
    reason = {("kernel/ring, wide", "is_symmetric"): "it is as wide as it is long"}
    parametrize_with_checks(
        "ccl-ring", variants={"kernel/ring": {"wide": {}}}, expected_failures=reason
    )


def test_a_variant_has_condition_values_of_its_own(ring):
    ring(ring="Ring")
    its = {"ids": {"scale": 3, "EXAMPLE_CONDITION": [0, 1]}}
    found = [c for c in checks("ccl-ring", variants={"kernel/ring": its}) if "ids" in c.component]
    subject = found[0].subject
    assert subject.params == {"scale": 3}
    for each in (subject, subject.chosen_as(subject.choice)):
        kernel = each.build()
        assert kernel.scale == 3
        ((a, b),) = kernels.values(kernel).values()
        assert {*a.tolist(), *b.tolist()} == {0, 1}
    assert [each.name for each in found if run(each).state == "failed"] == []


def test_a_variant_changes_what_the_files_of_an_example_gave(ring):
    ring(file="FromFile")

    def example(folder):
        (folder / "ring.txt").write_text("2.0")
        return {"path": str(folder / "ring.txt")}

    given = {"kernel/file": example}, {"kernel/file": {"missing": {"path": "no.txt"}}}
    plain, missing = (
        next(c for c in checks("ccl-ring", *given) if str(c) == f"kernel/file{each}-is_symmetric")
        for each in ("", ", missing")
    )
    plain()
    with pytest.raises(AssertionError, match=r"no\.txt"):
        missing()


def test_an_example_makes_its_files(ring):
    def example(folder):
        (folder / "ring.txt").write_text("2.0")
        return {"path": str(folder / "ring.txt")}

    ring(file="FromFile")
    (symmetric,) = [each for each in checks("ccl-ring") if each.name == "is_symmetric"]
    with pytest.raises(SkipTest, match=r'examples=\{"kernel/file": function of a folder\}'):
        symmetric()
    check("ccl-ring", examples={"kernel/file": example})


TEST = """
from ccl_plugins.testing import parametrize_with_checks

LEANS = {("kernel/askew", "is_symmetric"): "it leans"}
WRONG = {**LEANS, ("kernel/ring", "is_symmetric"): "it does not"}

@parametrize_with_checks("ccl-ring", expected_failures=LEANS)
def test_right(check):
    check()

@parametrize_with_checks("ccl-ring", expected_failures=WRONG)
def test_wrong(check):
    check()
"""


@pytest.mark.slow
def test_expected_failures_are_strict_and_have_reasons(ring):
    folder = ring(ring="Ring", askew="Askew")
    (folder / "test_ring.py").write_text(TEST)
    options = [
        "-q",
        "-rxfE",
        "-k",
        "is_symmetric",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
    ]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    found = programs.run("-m", "pytest", "test_ring.py", *options, env=env, cwd=folder).stdout
    assert "1 failed, 1 passed" in found
    assert "2 xfailed" in found
    assert "test_right[kernel/askew-is_symmetric] - it leans" in found
    assert "[XPASS(strict)] it does not" in found


def test_a_component_that_reads_files_writes_those_of_its_example(ring, capsys):
    ring(written="Written")
    assert main(["check", "ccl-ring", "--json"]) == 0
    told = capsys.readouterr().out
    assert {row["state"] for row in json.loads(told)} == {"passed", "skipped"}
    assert "its EXAMPLE names" not in told
    assert main(["info", "kernel", "written"]) == 0


def test_a_file_that_no_example_names_is_no_reason_to_skip(ring, capsys):
    ring(unshipped="Unshipped")
    assert main(["check", "ccl-ring"]) == 1
    told = capsys.readouterr().out
    assert ".radii" in told
    assert "its EXAMPLE names" not in told


def test_the_command_tells_what_failed(ring, capsys):
    ring(ring="Ring", askew="Askew", file="FromFile")
    assert main(["check", "ccl-ring"]) == 1
    lines = capsys.readouterr().out.splitlines()
    law = "A kernel must be symmetric: k(a, b) must equal k(b, a) transposed."
    at = lines.index(f"kernel/askew-is_symmetric failed: {law}")
    assert lines[at + 1].startswith("  for vectors: Tensor-likes are not close!")
    assert any(line.startswith("kernel/file ") and "skipped: its EXAMPLE" in line for line in lines)
    assert lines[-1].startswith("ccl-ring: ")
    assert main(["check", "ccl-nothing"]) == 2
    assert "ccl: ccl-nothing is not installed" in capsys.readouterr().err


def test_the_command_names_a_broken_neighbor_which_is_no_failure(ring, install_plugin, capsys):
    hooks = {"ccl_plugins.hooks": {"main": "ccl_bad"}}
    install_plugin("ccl-bad", hooks, {"ccl_bad.py": "raise RuntimeError('not today')"})
    ring(ring="Ring")
    assert main(["check", "ccl-ring"]) == 0
    named, *_ = capsys.readouterr().out.splitlines()
    assert named == "not checked, but noticed: ccl-bad: failed: RuntimeError: not today"


def test_the_command_as_json(ring, capsys):
    with (ring(ring="Ring") / "ccl_ring.py").open("a") as file:
        file.write("print('a component may print')\n")
    assert main(["check", "ccl-ring", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["state"] for row in rows} == {"passed", "skipped"}
    assert "kernel/ring-pickles" in {row["check"] for row in rows}


def test_a_component_declares_the_laws_that_it_breaks_with_their_reasons(ring, capsys):
    ring(declared="Declared")
    check("ccl-ring")
    assert main(["check", "ccl-ring"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "kernel/declared-is_symmetric failed as expected: it leans" in lines
    assert lines[-1].endswith(", 1 expected")
    marked = [p for p in parametrize_with_checks("ccl-ring").args[1] if p.marks]
    assert [(p.id, p.marks[0].kwargs) for p in marked] == [
        ("kernel/declared-is_symmetric", {"reason": "it leans", "strict": True})
    ]


def test_a_declared_exception_that_names_no_law_or_no_reason_is_refused(ring, capsys):
    ring(misspelled="Misspelled")
    with pytest.raises(
        LookupError, match=r"unknown check 'is_symetric'\. Did you mean 'is_symmetr"
    ):
        checks("ccl-ring")
    assert main(["check", "ccl-ring"]) == 2
    assert "kernel/misspelled has EXPECTED_FAILURES" in capsys.readouterr().err


def test_a_declared_exception_without_a_reason_is_refused(ring):
    ring(silent="Silent")
    with pytest.raises(LookupError, match="'is_symmetric' for no reason"):
        checks("ccl-ring")


def test_a_declared_exception_that_is_none_is_a_failure(ring):
    ring(upright="Upright")
    with pytest.raises(AssertionError, match="it passes: remove it from EXPECTED_FAILURES"):
        check("ccl-ring")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Unbuildable", "it raised TypeError: no such ring (ccl-ring/ccl_ring.py:"),
        ("Stopping", "it raised SystemExit: for 2 rows (ccl-ring/ccl_ring.py:"),
    ],
)
def test_one_cause_is_told_once_whatever_laws_it_breaks(ring, capsys, name, found):
    ring(ring=name)
    assert main(["check", "ccl-ring"]) == 1
    lines = capsys.readouterr().out.splitlines()
    (at,) = [number for number, line in enumerate(lines) if " failed: " in line]
    assert " more (" in lines[at]
    assert lines[at + 1].startswith(f"  {found}")
    with pytest.raises(AssertionError) as caught:
        check("ccl-ring")
    assert str(caught.value).count("it raised") == 1


def test_what_cannot_be_compiled_is_one_line_with_the_place():
    of_objective = checks(ccl.local("objective", Looking))
    (compiles,) = [each for each in of_objective if each.name == "compiles_without_graph_breaks"]
    law, *_, found = run(compiles).reason.splitlines()
    assert law.startswith("loss(pairs) must compile")
    assert "support/broken_objectives.py:" in found
    assert len(found) < 300


class Pairwise(FairInfoNCE):
    """Takes batches of 12 in classes of two."""

    EXAMPLE_BATCH = 12
    EXAMPLE_CONDITION = [i // 2 for i in range(12)]  # noqa: RUF012

    def terms(self, pairs):
        if pairs.keys.shape[1] % 6:
            raise ValueError("batches of 6 or 12")
        return super().terms(pairs)


class OfColors(RBF):
    """Takes colors alone."""

    EXAMPLE_CONDITION = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))

    def __init__(self) -> None:
        super().__init__(1.0)

    def __call__(self, a, b):
        if a.ndim != 2 or a.shape[1] != 3:
            raise ValueError(f"colors are (n, 3), not {tuple(a.shape)}")
        return super().__call__(a, b)


class Large(Uniform):
    """Needs a large data set."""

    EXAMPLE_SIZE, EXAMPLE_BATCH = 120, 40

    def __init__(self, *, size: int, batch_size: int, seed: int) -> None:
        if (size, batch_size) != (120, 40):
            raise ValueError("too small")
        super().__init__(size=size, batch_size=batch_size, seed=seed)


@pytest.mark.parametrize(
    ("kind", "component"), [("objective", Pairwise), ("kernel", OfColors), ("sampler", Large)]
)
def test_a_component_is_checked_on_the_inputs_that_it_gives(kind, component):
    failed = {
        o.check.name for o in map(run, checks(ccl.local(kind, component))) if o.state == "failed"
    }
    assert not failed


def test_a_script_that_a_new_process_imports_checks_nothing(monkeypatch):
    with pytest.raises(LookupError):
        check("ccl-nosuch")
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    assert check("ccl-nosuch") is None
