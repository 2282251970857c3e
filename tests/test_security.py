"""Files and names are data: nothing in them runs, and no name becomes a path or a command."""

from __future__ import annotations

import re

import pytest
from support.code_scan import unsafe
from support.imports import ROOT

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments.record import check_plugins
from ccl_plugins.testing.assertions import what_it_opens

SOURCES = sorted(
    path
    for package in ("registry", "ccl_plugins")
    for path in (ROOT / package).rglob("*.py")
    # The kit pickles and reads again what it has just built, and starts Python to look at a listing.
    if "testing" not in path.parts
)

OPENS_MODULES = {
    "registry/ccl_registry/spec.py": "the class of a component that was chosen",
    "registry/ccl_registry/discovery.py": "the module of a plug-in's hooks",
    "ccl_plugins/__init__.py": "a part of the face",
    "ccl_plugins/sweep/__init__.py": "a part of the face of sweeps",
}
"""Where a name becomes a module; none of them comes from a config or a record."""


STARTS = {
    "ccl_plugins/experiments/jobs.py": r"\[sys.executable, \"-m\", \"ccl_plugins\", \"train\", "
}
"""Where a process is started, and with what: this Python, with words and without a shell."""


def test_the_packages_read_no_pickle_and_run_no_text():
    assert len(SOURCES) > 100
    texts = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in SOURCES}
    found = {path: [*unsafe(text)] for path, text in texts.items()}
    wrong = {path: places for path, places in found.items() if places}
    assert wrong.keys() == STARTS.keys()
    for path, command in STARTS.items():
        assert len(wrong[path]) == texts[path].count("subprocess.Popen(") == 1
        assert re.search(command, texts[path])
        assert "shell=" not in texts[path]


def test_names_become_modules_in_few_places():
    found = {str(p.relative_to(ROOT)) for p in SOURCES if "import_module(" in p.read_text("utf-8")}
    assert found == OPENS_MODULES.keys()


@pytest.mark.parametrize(
    "code",
    [
        "import torch; torch.load(f)",
        "import torch; torch.load(f, weights_only=False)",
        "import torch; torch.load(f, map_location='cpu')",
        "import numpy as np; np.load(f)",
        "np.load(f, allow_pickle=True)",
        "import pickle",
        "from joblib import load",
        "import yaml",
        "eval(text)",
        "exec(text)",
        "import os; os.system(text)",
        "import subprocess; subprocess.run(text, shell=True)",
        "torch.hub.load(repository, name)",
    ],
)
def test_the_scan_finds(code):
    assert [*unsafe(code)]


def test_the_scan_lets_pass_what_is_safe():
    assert not [
        *unsafe("torch.load(f, weights_only=True); np.load(f, allow_pickle=False); m.eval()")
    ]


HOSTILE = [
    "../../outside",
    "/outside/evil",
    "kernel:../outside/rbf",
    "ccl-plugins/../outside",
    "outside.module:Class",
    "$(touch outside)",
    "; touch outside",
    "outside\n",
    "outside\x00",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_in_a_config_opens_nothing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ccl.list()  # what is installed is read once, whatever is asked

    def look():
        for data in (name, {"use": name}):
            with pytest.raises(ccl.RegistryError):
                ccl.objective("fair_cclk", kernel=data)
        with pytest.raises(ccl.RegistryError):
            ccl.Pipeline(dataset="color_digits", backbone="lenet5", objective=name)
        with pytest.raises(ccl.RegistryError):
            ccl.info("kernel", name)
        with pytest.raises(ccl.RegistryError):
            ccl.list(name)
        with pytest.raises(ccl.RegistryError):
            check_plugins({name: "1.0"})

    assert not [event for event in what_it_opens(look) if "outside" in event]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("evil; touch outside", "1.0"),
        ("evil", "1.0 --index-url=https://example.org"),
        ("--index-url=https://example.org", "1.0"),
        ("\x1b[2Jevil", "1.0"),
        ("evil", "\u202e0.1"),
        ("evil\npip install worse", "1.0"),
        ("e" * 10_000, "1.0"),
    ],
)
def test_only_a_valid_name_and_version_of_a_record_are_printed_as_a_command(name, version):
    with pytest.raises(ccl.PluginFailed) as raised:
        check_plugins({name: version})
    message = str(raised.value)
    assert f"pip install {name}" not in message
    assert message.endswith("which is no name and version of one")
    assert message.isprintable()
    assert len(message) < 500
    with pytest.raises(ccl.PluginFailed, match=r"1\.0: pip install ccl-nosuch==1\.0$"):
        check_plugins({"ccl-nosuch": "1.0"})


@pytest.mark.parametrize("plugins", [[], None, "x", {"a": 1}, {"a": None}, [["a", "1"]]])
def test_a_record_whose_plugins_are_no_table_is_refused_in_one_line(plugins):
    with pytest.raises(ccl.InvalidConfig, match="versions must be a table of plug-ins, not"):
        check_plugins(plugins)


@pytest.mark.parametrize(
    "text",
    [
        '"\\u001b[2J" = 1\n',
        'dataset = "\\u001b[2J"\nbackbone = "lenet5"\nobjective = "infonce"\n',
        'dataset = {use = "color_digits", "\\u202e" = 1}\nbackbone = "lenet5"\nobjective = "infonce"\n',
        'dataset = {"\\u001b[2J" = 1}\nbackbone = "lenet5"\nobjective = "infonce"\n',
        f'dataset = "{"x" * 100_000}"\nbackbone = "lenet5"\nobjective = "infonce"\n',
        "a = \x1b[2J",
    ],
)
def test_what_is_quoted_from_a_file_is_printed_escaped(text, tmp_path, capsys):
    file = tmp_path / "evil.toml"
    file.write_text(text, "utf-8")
    assert main(["train", str(file), "--out", str(tmp_path / "runs")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ccl: {file}: ")
    assert line.isprintable()
    assert len(line) < 3500


def test_a_condition_s_name_is_a_key_and_no_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "../../outside"
    pipeline = ccl.Pipeline(
        dataset="color_digits",
        backbone="lenet5",
        transform=ccl.transform("simclr", size=32, min_scale=1.0, jitter=0.0, gray=0.0, blur=0.0),
        method=ccl.method("simclr", hidden=8, dim=4),
        objective=ccl.objective("cl_infonce", on=name),
        conditions={name: "label"},
        evaluate=[],
    )
    pipeline.fit(epochs=1, batch_size=512, workers=0, out=tmp_path / "a/b/run", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    assert not [path for path in tmp_path.rglob("*") if "outside" in path.name]


def test_a_pickle_in_place_of_weights_is_refused(tmp_path):
    import pickle

    from ccl_plugins.files.checkpoints import read_checkpoint

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "outside"), "w"))

    path = tmp_path / "weights.pt"
    path.write_bytes(pickle.dumps(Evil(), protocol=2))
    with pytest.raises(ValueError, match=str(path)):
        read_checkpoint(path)
    assert not (tmp_path / "outside").exists()


def test_a_config_cannot_name_code(tmp_path, capsys):
    file = tmp_path / "evil.toml"
    file.write_text('dataset = "os:system"\nbackbone = "lenet5"\nobjective = "infonce"\n')
    assert main(["train", str(file), "--out", str(tmp_path / "runs")]) == 2
    assert "'os:system'" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
