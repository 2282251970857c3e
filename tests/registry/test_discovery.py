"""Plug-ins that are really installed, well-behaved and otherwise."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.imports import ROOT
from support.toy_registry import new_registry, write_metadata

from ccl_plugins.cli.list import listing
from registry import PluginFailed, UnknownComponent
from registry.discovery import PRINTED, Watch
from registry.distributions import Installed

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


def test_a_plugin_that_failed_is_named_when_a_name_is_not_found(installed_plugins):
    code = """
import ccl_plugins as ccl
try:
    ccl.kernel("rgb")
except KeyError as error:
    print(error)
"""
    assert installed_plugins.python(code, plugins="broken_import").strip() == (
        "no kernel 'rgb'. Did you mean 'rbf'? 1 plugin failed: ccl-broken-import "
        "(ModuleNotFoundError: No module named 'ccl_nosuch_dependency')."
    )


def test_a_misspelt_group_and_a_bad_name_are_reported_and_the_rest_is_kept(installed_plugins):
    found = report(installed_plugins, "typo_group")
    reason = found["plugins"]["ccl-typo-group"][2]
    assert "unknown entry-point group 'ccl_plugins.kernell'" in reason
    assert "Did you mean 'ccl_plugins.kernel'?" in reason
    assert "ccl_plugins.objective, ccl_plugins.kernel," in reason
    assert "'Bad-Name' is not valid" in reason
    assert "'bad_name'" in reason
    assert found["kernels"] == ["ccl-typo-group/kept"]


def test_a_misspelt_hook_is_named(installed_plugins):
    reason = report(installed_plugins, "typo_hook")["plugins"]["ccl-typo-hook"][2]
    assert reason == (
        "ccl_typo_hook: there is no hook 'ccl_pipelin_built'. Did you mean 'ccl_pipeline_composed'?"
    )


def test_a_disabled_plugin_is_not_imported(installed_plugins):
    found = report(installed_plugins, "broken_import good", CCL_DISABLE="CCL_Broken.Import, other")
    assert found["plugins"]["ccl-broken-import"][1] == "disabled"
    assert found["plugins"]["ccl-good"][1] == "ok"
    assert not found["failures"]


def test_a_star_disables_all_but_the_host(installed_plugins):
    found = report(installed_plugins, "broken_import good", CCL_DISABLE="*")
    states = {name: state for name, (_, state, _) in found["plugins"].items()}
    assert states == {
        "ccl-broken-import": "disabled",
        "ccl-good": "disabled",
        "ccl-plugins": "ok",
    }


def test_strictness_raises_what_would_be_recorded(installed_plugins):
    done = installed_plugins.run("-c", REPORT, plugins="broken_import", CCL_STRICT="1")
    assert done.returncode == 1
    assert "PluginFailed: plugin ccl-broken-import: ModuleNotFoundError" in done.stderr


def test_hooks_are_called_plugin_by_plugin_and_may_take_fewer_arguments(installed_plugins):
    code = """
from ccl_plugins.kinds import registry
print(registry().call("ccl_callbacks", pipeline=None))
print(registry().call("ccl_pipeline_composed", pipeline=None))
try:
    registry().call("ccl_pipeline_composed", pipeline="rejected")
except ValueError as error:
    print(error, error.__notes__)
try:
    registry().call("ccl_pipeline_composed", pipeline="ends the program")
except ImportError as error:
    print(error)
"""
    assert installed_plugins.python(code, plugins="good clash").splitlines() == [
        "[('ccl-good', ['a callback'])]",
        "[]",
        "not this one ['raised by plugin ccl-good in ccl_pipeline_composed']",
        "plugin ccl-good in ccl_pipeline_composed: SystemExit: 0",
    ]


def test_of_two_copies_on_the_path_the_first_counts(tmp_path, monkeypatch):
    write_metadata(tmp_path / "first", "toy_a", "2", "[toy.kernel]\nnew = m:A\n")
    write_metadata(tmp_path / "second", "toy_a", "1", "[toy.kernel]\nold = m:A\n")
    monkeypatch.syspath_prepend(tmp_path / "second")
    monkeypatch.syspath_prepend(tmp_path / "first")
    assert [(s.id, s.version) for s in new_registry().specs()] == [("toy-a/new", "2")]


def test_a_copy_without_components_hides_one_with(tmp_path, monkeypatch):
    write_metadata(tmp_path / "first", "toy_a", "2", "[console_scripts]\nx = m:main\n")
    write_metadata(tmp_path / "second", "toy_a", "1", "[toy.kernel]\nold = m:A\n")
    monkeypatch.syspath_prepend(tmp_path / "second")
    monkeypatch.syspath_prepend(tmp_path / "first")
    assert new_registry().specs() == ()


def test_what_a_broken_uninstall_left_behind_is_no_plugin(tmp_path, monkeypatch):
    write_metadata(tmp_path, "~toy_a", "1", "[toy.kernel]\nold = m:A\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert new_registry().plugins == ()


def test_entry_points_that_cannot_be_read_cost_their_plugin_alone(tmp_path, monkeypatch):
    write_metadata(tmp_path, "toy_a", "1", "[toy.kernel]\nno assignment\n")
    write_metadata(tmp_path, "toy_b", "1", "[toy.kernel]\none = m:A\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = new_registry()
    assert [(p.name, p.state) for p in found.plugins] == [("toy-a", "failed"), ("toy-b", "ok")]
    assert [s.id for s in found.specs()] == ["toy-b/one"]


def test_a_file_that_is_no_text_costs_its_distribution_alone(tmp_path, monkeypatch):
    for name, file in (("toy_a", "entry_points.txt"), ("toy_b", "METADATA"), ("toy_c", "")):
        write_metadata(tmp_path, name, "1", "[toy.kernel]\none = m:A\n")
        if file:
            (tmp_path / f"{name}-1.dist-info" / file).write_bytes(b"\xff\xfe\x00")
    monkeypatch.syspath_prepend(tmp_path)
    found = new_registry()
    assert [s.id for s in found.specs()] == ["toy-c/one"]
    assert [(p.name, p.state) for p in found.plugins] == [("toy-a", "failed"), ("toy-c", "ok")]
    assert found.plugins[0].reason.startswith("its entry_points.txt is not UTF-8; line 1 of its")
    (remnant,) = found.remnants
    assert remnant.folder == str(tmp_path / "toy_b-1.dist-info")


def test_order_is_that_of_names_whatever_the_path(tmp_path, monkeypatch):
    for name in ("toy_b", "toy_a", "toy_c"):
        write_metadata(tmp_path / name, name, "1", "[toy.kernel]\none = m:A\n")
        monkeypatch.syspath_prepend(tmp_path / name)
    assert [p.name for p in new_registry().plugins] == ["toy-a", "toy-b", "toy-c"]
    assert [s.plugin for s in new_registry().specs()] == ["toy-a", "toy-b", "toy-c"]


def test_what_is_installed_later_is_seen_after_a_refresh(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    found = new_registry()
    assert found.plugins == ()
    write_metadata(tmp_path, "toy_a", "1", "[toy.kernel]\none = m:A\n")
    assert found.plugins == ()
    found.refresh()
    assert [p.name for p in found.plugins] == ["toy-a"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def toy_components(): pass", "toy_hooks: toy_components is not marked with @hookimpl"),
        (
            "import pluggy\nhook = pluggy.HookimplMarker('toy')\n@hook\ndef toy_components(x): pass",
            "Argument(s) {'x'} are declared in the hookimpl but can not be found in the hookspec",
        ),
        (
            "import pluggy\nhook = pluggy.HookimplMarker('toy')\n@hook\ndef toy_components(): return [3]",
            "toy_components must give ComponentSpecs, not 3",
        ),
        (
            "import pluggy, registry\nhook = pluggy.HookimplMarker('toy')\n@hook\ndef toy_components():\n"
            "    yield registry.ComponentSpec('kernel', 'one', 'm:A')",
            "kernel:toy-a/one is declared twice",
        ),
    ],
)
def test_what_a_hooks_module_does_wrong_is_on_record(tmp_path, monkeypatch, body, reason):
    entries = "[toy.hooks]\nmain = toy_hooks\n[toy.kernel]\none = m:A\n"
    write_metadata(tmp_path, "toy_a", "1", entries)
    (tmp_path / "toy_hooks.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toy_hooks", raising=False)
    found = new_registry()
    assert reason in found.failures[0].reason
    assert [s.id for s in found.specs()] == ["toy-a/one"]
    sys.modules.pop("toy_hooks", None)
    with pytest.raises(PluginFailed, match="plugin toy-a: "):
        new_registry(strict=True).specs()


@pytest.mark.parametrize(
    ("disable", "offered"),
    [
        (["Toy_A"], {"toy-host", "toy-b"}),
        (["toy-a", "toy.b"], {"toy-host"}),
        (["*"], {"toy-host"}),
        ([], {"toy-host", "toy-a", "toy-b"}),
        (None, {"toy-host", "toy-a"}),
    ],
)
def test_a_registry_leaves_out_what_it_is_told_to(toy, monkeypatch, disable, offered):
    monkeypatch.setenv("TOY_DISABLE", "toy-b")  # what is said in the call counts, if anything is
    found = new_registry(disable=disable)
    assert {spec.plugin for spec in found.specs()} == offered
    disabled = {plugin.name for plugin in found.plugins if plugin.state == "disabled"}
    assert disabled == {"toy-host", "toy-a", "toy-b"} - offered


@pytest.mark.parametrize(("value", "strict"), [("1", True), ("0", False), ("", False)])
def test_a_registry_is_strict_by_its_variable(tmp_path, monkeypatch, value, strict):
    write_metadata(tmp_path, "toy_a", "1", "[toy.kernell]\none = m:A\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TOY_STRICT", value)
    found = new_registry()
    if strict:
        with pytest.raises(PluginFailed, match="plugin toy-a: unknown entry-point group"):
            found.specs()
    else:
        assert [p.state for p in found.plugins] == ["failed"]


def test_a_host_that_is_not_installed_says_so():
    with pytest.raises(UnknownComponent, match="toy-host is not installed itself: run pip"):
        new_registry().find("kernel", "rbf")


def test_a_plugin_that_asks_while_it_is_read_fails_alone(tmp_path, monkeypatch):
    write_metadata(tmp_path, "toy_a", "1", "[toy.hooks]\nmain = toy_asks\n")
    (tmp_path / "toy_asks.py").write_text("import toy_asked\ntoy_asked.found.specs()\n")
    (tmp_path / "toy_asked.py").write_text("found = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    import toy_asked

    toy_asked.found = found = new_registry()
    assert found.failures[0].reason == "plugins are still being read; ask for components later"


def new_watch():
    return Watch(Installed("toy-a", "1"), strict=False)


def test_words_go_to_the_standard_error_and_are_noted(capsys):
    watch = new_watch()
    with watch.watching():
        print("hello")
        sys.stdout.writelines(["a", "b"])
    print("after")
    assert capsys.readouterr() == ("after\n", "hello\nab")
    assert watch.printed == "hello\n"


def test_of_a_long_speech_the_beginning_is_kept(capsys):
    watch = new_watch()
    with watch.watching():
        print("x" * 10 * PRINTED)
    assert watch.printed == "x" * PRINTED
    assert len(capsys.readouterr().err) == 10 * PRINTED + 1


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_is_raised_passes_and_the_output_is_back(capsys, error):
    with pytest.raises(error), new_watch().watching():
        raise error
    print("back")
    assert capsys.readouterr().out == "back\n"


def test_without_a_standard_error_words_are_noted_alone(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    watch = new_watch()
    with watch.watching():
        print("unheard", flush=True)
    assert watch.printed == "unheard\n"


def test_new_top_level_modules_are_noted(tmp_path, monkeypatch):
    (tmp_path / "toy_brought").mkdir()
    (tmp_path / "toy_brought" / "__init__.py").write_text("from . import part")
    (tmp_path / "toy_brought" / "part.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    watch = new_watch()
    with watch.watching():
        import toy_brought  # noqa: F401  the import is what is watched
    assert watch.modules == {"toy_brought"}
    for name in ("toy_brought", "toy_brought.part"):
        del sys.modules[name]


def test_threads_that_look_up_at_once_bring_the_output_back(tmp_path, monkeypatch):
    for name in ("toy_a", "toy_b"):
        write_metadata(tmp_path, name, "1", f"[toy.hooks]\nmain = {name}_naps\n")
        (tmp_path / f"{name}_naps.py").write_text("import time\ntime.sleep(0.05)\n")
        monkeypatch.delitem(sys.modules, f"{name}_naps", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    output, registries = sys.stdout, [new_registry(), new_registry(["toy-a"])]
    threads = [threading.Thread(target=each.specs) for each in registries * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert sys.stdout is output
    assert [len(each.plugins) for each in registries] == [2, 2]


def lines_of_listing(registry):
    """The number of lines of this project's code that a listing runs."""
    lines = 0

    def count(frame, event, arg):
        nonlocal lines
        lines += event == "line"
        return count

    def begin(frame, event, arg):
        return count if Path(frame.f_code.co_filename).is_relative_to(ROOT) else None

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        listing(registry)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("spread", ["one plug-in", "many plug-ins"])
def test_listing_is_linear_in_the_number_of_components(tmp_path, monkeypatch, spread):
    lines = []
    for number in (100, 200, 400):
        folder = tmp_path / str(number)
        modules = [
            f"toy_many{number}_{i if spread == 'many plug-ins' else 0}" for i in range(number)
        ]
        entries = [f"c{i} = {module}:C{i}\n" for i, module in enumerate(modules)]
        if spread == "one plug-in":
            write_metadata(folder, "toy_many", "1", f"[toy.kernel]\n{''.join(entries)}")
        else:
            for i, entry in enumerate(entries):
                write_metadata(folder, f"toy_many{i}", "1", f"[toy.kernel]\n{entry}")
        for i, module in enumerate(modules):
            with open(folder / f"{module}.py", "a") as file:
                file.write(f'class C{i}:\n    """Component {i}."""\n')
        with monkeypatch.context() as patched:
            patched.syspath_prepend(folder)
            found = new_registry()
            lines.append(lines_of_listing(found))
            assert len(found.specs()) == number
            assert found.summary(found.specs()[-1]) == "Component 99."
    first, second = lines[1] - lines[0], lines[2] - lines[1]
    assert second < 2.2 * first, lines


def test_each_file_of_a_plugin_is_read_once_for_a_listing(tmp_path, monkeypatch):
    entries = "".join(f"c{i} = toy_read_once:C{i}\n" for i in range(50))
    write_metadata(tmp_path, "toy_many", "1", f"[toy.kernel]\n{entries}")
    text = "".join(f"class C{i}:\n    'Component {i}.'\n" for i in range(50))
    (tmp_path / "toy_read_once.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    read = Counter()
    original = Path.read_text

    def counting(path, *given, **named):
        read[path.name] += tmp_path in path.parents
        return original(path, *given, **named)

    monkeypatch.setattr(Path, "read_text", counting)
    rows = listing(new_registry())
    assert [row["summary"] for row in rows][:2] == ["Component 0.", "Component 1."]
    assert {name: times for name, times in read.items() if times} == {
        "entry_points.txt": 1,
        "METADATA": 1,
        "toy_read_once.py": 1,
    }


def test_the_seconds_of_a_plugin_are_those_of_all_that_is_read_of_it(monkeypatch):
    times = iter([10.0, 12.5, 20.0, 21.0])
    monkeypatch.setattr("registry.discovery.time.perf_counter", lambda: next(times))
    watch = new_watch()
    for _ in range(2):
        with watch.watching():
            pass
    assert watch.report(disabled=False).seconds == 3.5


@pytest.mark.parametrize("left", [None, "a stream of the plug-in"])
def test_a_standard_error_that_a_plugin_replaces_is_named_and_restored(monkeypatch, left):
    stream = sys.stderr
    monkeypatch.setattr(sys, "stderr", stream)  # put back whatever the watch does
    watch = new_watch()
    with watch.watching():
        sys.stderr = left
    assert sys.stderr is stream
    assert list(watch.changes) == ["the standard error"]


def test_of_a_long_line_that_is_no_entry_point_80_characters_are_quoted(tmp_path, monkeypatch):
    write_metadata(tmp_path, "toy_long", "1", f"[toy.kernel]\n{'x' * 500}\n")
    monkeypatch.syspath_prepend(tmp_path)
    (plugin,) = new_registry().plugins
    assert len(plugin.reason.partition("must be name = module:Class: ")[2]) == 80


def test_a_working_folder_that_a_plugin_leaves_is_named_and_restored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    watch = new_watch()
    with watch.watching():
        os.chdir("elsewhere")
    assert Path.cwd() == tmp_path.resolve()
    assert list(watch.changes) == ["the working directory"]


def test_an_entry_point_group_that_is_almost_right_gets_what_would_be_right(tmp_path, monkeypatch):
    write_metadata(tmp_path, "toy_near", "1", "[toy.kernal]\na = m:A\n")
    monkeypatch.syspath_prepend(tmp_path)
    (plugin,) = new_registry().plugins
    assert "unknown entry-point group 'toy.kernal'. Did you mean 'toy.kernel'? " in plugin.reason


def test_an_unknown_name_says_which_plugins_are_disabled(toy):
    with pytest.raises(UnknownComponent, match=r"Disabled: toy-a, toy-b\."):
        new_registry(["toy-a", "toy-b"]).find("kernel", "ring")


def test_metadata_without_a_valid_name_is_listed_without_a_name(tmp_path, monkeypatch):
    write_metadata(tmp_path, "toy_odd", "1", "[toy.kernel]\na = m:A\n")
    (tmp_path / "toy_odd-1.dist-info" / "METADATA").write_text("Name: not a name\nVersion: 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    (remnant,) = new_registry().remnants
    assert remnant.name == ""
    assert remnant.reason == "its METADATA has no valid Name, 'not a name'"
