"""A user's own ``registry`` and ours live side by side."""

from __future__ import annotations

import pytest

# A logger, whose module imports no torch.
USE = "import ccl_plugins as ccl; assert ccl.logger('csv').spec.id == 'ccl-plugins/csv'; "
THEIRS = "import registry; assert registry.mine == 1; "
PRIVATE = "import sys; print('_ccl_registry' in sys.modules)"


@pytest.fixture
def run(installed_plugins, tmp_path):
    """Runs a script beside files of the user's; says whether our engine has its private name."""

    def run(script, name="train.py", **files):
        for file, text in files.items():
            (tmp_path / f"{file}.py").write_text(text)
        (tmp_path / name).write_text(script + PRIVATE)
        done = installed_plugins.run(name, cwd=tmp_path, anew=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip() == "True"

    return run


def test_without_a_clash_ours_is_registry(run):
    assert not run(USE + "import registry; assert registry.Registry; ")


def test_theirs_imported_first(run):
    assert run(THEIRS + USE, registry="mine = 1")


def test_theirs_imported_after(run):
    assert run(USE + THEIRS, registry="mine = 1")


def test_theirs_imports_ours(run):
    assert run(THEIRS + USE, registry="import ccl_plugins\nmine = 1\nccl_plugins.list('kernel')")


def test_a_script_that_is_named_registry(run):
    assert run(USE, name="registry.py")


def test_an_empty_folder_named_registry(run, tmp_path):
    (tmp_path / "registry").mkdir()
    run(USE)  # a folder without a module gives way to ours where that is on the path itself


@pytest.mark.parametrize(
    "strange", ["types.SimpleNamespace(mine=1)", "types.ModuleType('registry')"]
)
def test_something_without_a_spec_in_its_place(run, strange):
    place = f"import sys, types; sys.modules['registry'] = {strange}; "
    assert run(place + USE + "assert not hasattr(sys.modules['registry'], 'Registry'); ")


def test_errors_are_caught_as_the_face_names_them_under_either_name(run):
    caught = "\ntry:\n    ccl.logger('cvs')\nexcept ccl.UnknownComponent: pass\n"
    assert run(USE + caught, registry="mine = 1")
