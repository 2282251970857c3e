"""Plug-ins that are really installed, well-behaved and otherwise."""

from __future__ import annotations

import json
from typing import Any

REPORT = """
import json
from ccl_plugins.kinds import registry
found = registry()
print(json.dumps({
    "plugins": {p.name: [p.version, p.state, p.reason] for p in found.plugins},
    "failures": [[f.plugin, f.traceback] for f in found.failures],
    "kernels": [s.id for s in found.specs("kernel") if s.plugin != "ccl-plugins"],
}))
"""


def report(installed_plugins: Any, plugins: str, **variables: str) -> dict[str, Any]:
    return json.loads(installed_plugins.python(REPORT, plugins=plugins, **variables))


def test_a_plugin_offers_what_its_entry_points_and_its_hook_name(installed_plugins):
    found = report(installed_plugins, "good")
    assert found["kernels"] == ["ccl-good/double_ring", "ccl-good/ring"]
    assert found["plugins"]["ccl-good"] == ["1.2", "ok", ""]


def test_no_component_is_imported_to_be_found(installed_plugins):
    found = report(installed_plugins, "broken_component")
    assert found["kernels"] == ["ccl-broken-component/gone"]
    assert not found["failures"]


def test_a_component_that_does_not_import_fails_when_chosen_with_its_cause(installed_plugins):
    code = """
import ccl_plugins as ccl
try:
    ccl.kernel("gone")
except ccl.PluginFailed as error:
    print(error, type(error.__cause__).__name__)
"""
    assert installed_plugins.python(code, plugins="broken_component").strip() == (
        "kernel ccl-broken-component/gone 0.3: cannot import ccl_broken_component:Gone "
        "(ModuleNotFoundError: No module named 'ccl_nosuch_dependency') ModuleNotFoundError"
    )


def test_a_hooks_module_that_raises_costs_its_hooks_alone(installed_plugins):
    found = report(installed_plugins, "broken_import good")
    assert found["plugins"]["ccl-good"][1] == "ok"
    version, state, reason = found["plugins"]["ccl-broken-import"]
    assert (version, state) == ("0.1", "failed")
    assert reason == "ModuleNotFoundError: No module named 'ccl_nosuch_dependency'"
    assert "ccl_broken_import.py" in found["failures"][0][1]
    assert "ccl-broken-import/spare" in found["kernels"]


def test_hooks_are_called_plugin_by_plugin_and_may_take_fewer_arguments(installed_plugins):
    code = """
from ccl_plugins.kinds import registry
print(registry().call("ccl_callbacks", pipeline=None))
print(registry().call("ccl_pipeline_composed", pipeline=None))
for pipeline in "rejected", "ends the program":
    try:
        registry().call("ccl_pipeline_composed", pipeline=pipeline)
    except (ValueError, ImportError) as error:
        print(type(error).__name__, error)
"""
    assert installed_plugins.python(code, plugins="good clash").splitlines() == [
        "[('ccl-good', ['a callback'])]",
        "[]",
        "InvalidConfig plugin ccl-good in ccl_pipeline_composed: ValueError: not this one",
        "PluginFailed plugin ccl-good in ccl_pipeline_composed: SystemExit: 0",
    ]


def test_a_hook_gets_its_options_and_one_that_raises_ends_nothing(installed_plugins):
    code = """
import warnings
from ccl_plugins.kinds import registry
options = registry().read_options({"CCL_good": {"divisor": 0}}, "run.toml: plugins")
with warnings.catch_warnings(record=True) as warned:
    print(registry().call("ccl_callbacks", options, pipeline=None))
print(*(each.message for each in warned))
print(*(failure.reason for failure in registry().failures))
try:
    registry().call("ccl_pipeline_composed", options, pipeline=None)
except ValueError as error:
    print(error)
"""
    error = "in ccl_callbacks: ZeroDivisionError: division by zero"
    assert installed_plugins.python(code, plugins="good clash").splitlines() == [
        "[]",
        f"plugin ccl-good {error}; its result is left out",
        error,
        "plugin ccl-good in ccl_pipeline_composed: ValueError: not with {'divisor': 0}",
    ]
    done = installed_plugins.run("-c", code, plugins="good", CCL_STRICT="1")
    assert f"PluginFailed: plugin ccl-good: {error}" in done.stderr


def test_a_record_with_old_names_loads_with_a_warning_for_each(installed_plugins):
    code = """
import warnings
import ccl_plugins as ccl
from ccl_plugins.testing import checks
from ccl_plugins.testing.suite import run
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    print(ccl._registry().read("kernel", {"use": "kernel:ccl-good/rings", "width": 2.0}).record())
print(*(each.message for each in warned), sep="; ")
print([line for line in str(ccl.info("kernel", "ring")).splitlines() if "old name" in line])
print("rings" in [row["name"] for row in ccl.list("kernel")])
law = "is_found_by_its_old_names"
print([run(check).state for check in checks("ccl-good") if check.name == law])
"""
    assert installed_plugins.python(code, plugins="good").splitlines() == [
        "{'use': 'kernel:ccl-good/ring', 'radius': 2.0}",
        "the kernel 'rings' is called 'ring' now; kernel ccl-good/ring: 'width' is called 'radius' now",
        "['old names: rings', 'width: old name of radius']",
        "False",
        "['passed', 'passed']",
    ]
