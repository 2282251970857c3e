"""The command line, with plug-ins in every state."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from ccl_plugins.cli import main


def test_list_shows_who_offers_what_and_how_to_say_it(installed_plugins):
    done = installed_plugins.ccl("list", "kernel", plugins="good clash broken_import")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert lines[0] == ["KIND", "NAME", "PLUGIN", "VERSION", "SUMMARY", "NOTE"]
    rows = {(row[1], row[2]): " ".join(row[4:]) for row in lines if row[0] == "kernel"}
    assert rows["rbf", "ccl-clash"] == "A kernel of another author. say ccl-clash/rbf"
    assert not rows["rbf", "ccl-plugins"].endswith("rbf")
    assert rows["ring", "ccl-good"] == "A ring around the origin. ambiguous: say ccl-good/ring"
    assert done.stdout.splitlines()[-1] == (
        "ccl-broken-import 0.1 failed: ModuleNotFoundError: "
        "No module named 'ccl_nosuch_dependency'  (ccl doctor)"
    )


def test_list_as_json(installed_plugins):
    rows = json.loads(installed_plugins.ccl("list", "--json", plugins="good").stdout)
    assert {
        "kind": "kernel",
        "name": "ring",
        "plugin": "ccl-good",
        "version": "1.2",
        "summary": "A ring around the origin.",
        "note": "",
    } in rows


def test_a_disabled_plugin_is_named_below_the_list(installed_plugins):
    done = installed_plugins.ccl("list", "kernel", plugins="good", CCL_DISABLE="ccl-good")
    assert done.stdout.splitlines()[-1] == "ccl-good 1.2 is disabled"
    assert "ring" not in done.stdout


def test_info_of_a_strangers_component(installed_plugins):
    done = installed_plugins.ccl("info", "kernel", "ring", plugins="good")
    assert done.returncode == 0
    for part in ("kernel ring   ccl-good 1.2", "ccl_good.py:8", "radius: float = 1.0", "Above 0."):
        assert part in done.stdout


def test_info_of_a_kind_shows_its_traits_and_its_laws(capsys):
    assert main(["info", "kernel"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert words.startswith(
        "kernel: A similarity on the conditioning variable. protocol: ccl_plugins."
    )
    for part in (
        "one_hot = False True if the kernel treats class ids as one-hot vectors",
        "radial(square) Called with squared",
        "is_symmetric A kernel must be symmetric: `k(a, b)` must equal `k(b, a)` transposed.",
        "pickles A pickled copy must give the same results",
    ):
        assert part in words


def test_info_of_a_kind_without_traits_has_its_laws(capsys):
    assert main(["info", "schedule"]) == 0
    shown = capsys.readouterr().out
    assert "traits" not in shown
    assert "the_warm_up_rises" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("info kernle", "ccl: no kind 'kernle'. Did you mean 'kernel'?"),
        ("list kernels", "ccl: no kind 'kernels'. Did you mean 'kernel'?"),
        ("info kernel rgb", "ccl: no kernel 'rgb'. Did you mean 'rbf'?"),
        ("info kernel ring", "ccl: several plugins offer the kernel 'ring'; say which:"),
        ("info kernel gone", "ccl: kernel ccl-broken-component/gone 0.3: cannot import"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(installed_plugins, words, message):
    done = installed_plugins.ccl(*words.split(), plugins="good clash broken_component")
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert len(done.stderr.splitlines()) == 1


def test_doctor_is_content_when_all_is_well(installed_plugins):
    done = installed_plugins.ccl("doctor", plugins="good")
    assert done.returncode == 0
    for library in ("torch", "torchvision", "lightly", "timm", "pluggy"):
        assert any(line.split()[:1] == [library] for line in done.stdout.splitlines())


def test_doctor_shows_failures_with_tracebacks(installed_plugins):
    done = installed_plugins.ccl("doctor", plugins="good broken_import typo_hook")
    assert done.returncode == 1
    assert "import ccl_nosuch_dependency" in done.stdout
    assert "Did you mean 'ccl_pipeline_composed'?" in done.stdout
    table = done.stdout.split("\n\n")[0].splitlines()
    states = {row[0]: row[-1] for row in map(str.split, table)}
    assert (states["ccl-broken-import"], states["ccl-good"]) == ("failed", "ok")


def test_doctor_imports_components_when_asked(installed_plugins):
    quiet = installed_plugins.ccl("doctor", "--json", plugins="broken_component")
    asked = installed_plugins.ccl("doctor", "--load", "--json", plugins="broken_component")
    assert (quiet.returncode, asked.returncode) == (0, 1)
    (failure,) = json.loads(asked.stdout)["failures"]
    assert failure["plugin"] == "ccl-broken-component"
    assert "import ccl_nosuch_dependency" in failure["traceback"]


@pytest.mark.parametrize("words", ["--help", "list --help", "info --help", "doctor --help"])
def test_help_teaches(installed_plugins, words):
    done = installed_plugins.ccl(*words.split())
    assert done.returncode == 0
    assert ("example:" in done.stdout) or (words == "--help" and "list" in done.stdout)


def test_version(installed_plugins):
    assert installed_plugins.ccl("--version").stdout.split()[0] == "ccl-plugins"


def test_output_into_a_closed_pipe_is_no_error():
    command = [sys.executable, "-m", "ccl_plugins", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


STRANGE = '''
class Ring:
    """Print a ring."""

    def add_arguments(self, parser):
        parser.add_argument("--size", type=int, default=1, help="how large")

    def run(self, arguments):
        print("ring of", arguments.size)


class Ends(Ring):
    """End the program."""

    def run(self, arguments):
        raise SystemExit(0)
'''


@pytest.fixture
def strange(install_plugin):
    """Commands of a plug-in: one that works, one that ends the program, and two that cannot be called."""
    commands = {"big_ring": "ccl_mine:Ring", "train": "ccl_mine:Ring", "ends": "ccl_mine:Ends"}
    commands |= {"gone": "ccl_no_such_module:Gone", "lost": "ccl_mine:Lost"}
    install_plugin("ccl-mine", {"ccl_plugins.command": commands}, {"ccl_mine.py": STRANGE})


def test_a_command_of_a_plug_in_is_called_by_its_name(strange, capsys):
    assert main(["big-ring", "--size", "3"]) == 0
    assert main(["ccl-mine/train"]) == 0
    assert capsys.readouterr().out == "ring of 3\nring of 1\n"
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    help = capsys.readouterr().out
    assert re.search(r"^  big-ring +Print a ring\.$", help, re.MULTILINE)
    assert re.search(r"^  ccl-mine/train +Print a ring\.$", help, re.MULTILINE)


def test_a_broken_command_breaks_no_other(strange, capsys):
    for name in ("gone", "lost"):
        assert main([name]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"command ccl-mine/{name} " in line
    assert main(["ends"]) == 1
    assert "ends the program" in capsys.readouterr().err
    assert main(["list", "command"]) == 0
    assert main(["trian"]) == 2
    assert "no command 'trian'. Did you mean 'train'?" in capsys.readouterr().err


def test_the_module_of_the_command_that_is_called_alone_is_imported():
    code = (
        "import sys; from ccl_plugins.cli import main; main(['list', 'command'])\n"
        "print(*(n for n in sys.modules if n.startswith('ccl_plugins.commands.')), sep='|')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.rpartition(".")[2] for name in done.stdout.splitlines()[-1].split("|")}
    assert loaded == {"base", "tables", "list"}
