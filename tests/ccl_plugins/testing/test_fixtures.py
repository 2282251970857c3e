"""The pytest fixtures of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ccl_plugins as ccl

RING = '''
class Ring:
    """A ring."""

    positive_definite = False

    def __init__(self, radius: float = {RADIUS}) -> None:
        self.radius = radius

    def __call__(self, a, b):
        return a @ b.T
'''


def install(install_plugin, radius):
    points = {"ccl_plugins.kernel": {"ring": "ccl_fixture_ring:Ring"}}
    source = RING.replace("{RADIUS}", str(radius))
    return install_plugin("ccl-fixture-ring", points, {"ccl_fixture_ring.py": source}, "1.5")


def test_what_is_installed_is_found_by_every_registry(ccl_registry, install_plugin):
    install(install_plugin, 1.0)
    assert ccl_registry.create("kernel", "ring").radius == 1.0
    assert ccl.create("kernel", "ccl-fixture-ring/ring").radius == 1.0
    assert ccl_registry.find("kernel", "ring").version == "1.5"


def test_it_is_gone_in_the_next_test_and_another_of_its_name_takes_its_place(
    ccl_registry, install_plugin
):
    with pytest.raises(ccl.UnknownComponent):
        ccl.create("kernel", "ccl-fixture-ring/ring")
    install(install_plugin, 2.0)
    assert ccl_registry.create("kernel", "ring").radius == 2.0


def test_the_isolated_registry_knows_no_other_s_definitions(ccl_registry):
    @ccl.local("kernel")
    class OnlyHere:
        """A kernel."""

    with pytest.raises(ccl.UnknownComponent):
        ccl_registry.find("kernel", "local/onlyhere")
    assert {plugin.name for plugin in ccl_registry.plugins if plugin.state == "ok"} == {
        "ccl-plugins"
    }


def test_a_package_is_installed_from_its_sources(install_plugin, ccl_registry, tmp_path):
    source = tmp_path / "ccl-source"
    source.mkdir()
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "ccl-source"\nversion = "3"\n'
        '[project.entry-points."ccl_plugins.kernel"]\nring = "ccl_source:Ring"\n'
        '[tool.setuptools]\npy-modules = ["ccl_source"]\n'
    )
    (source / "ccl_source.py").write_text(RING.replace("{RADIUS}", "3.0"))
    install_plugin.package(source)
    assert ccl_registry.create("kernel", "ccl-source/ring").radius == 3.0


def test_pytest_starts_without_torch(tmp_path):
    code = (
        "import sys, pytest; pytest.main(['--version']);"
        "import ccl_plugins.testing, ccl_plugins.testing.fixtures;"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 0
