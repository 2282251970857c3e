"""Plug-ins on the path, well-behaved and otherwise."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.imports import ROOT
from support.toy_registry import new_registry, write_metadata

from ccl_plugins.commands.list import listing
from ccl_registry import InvalidConfig, PluginFailed, RegistryError, UnknownComponent, one_line
from ccl_registry.plugin import PRINTED, Failure, Plugin


def test_a_copy_without_components_hides_one_with(tmp_path, monkeypatch):
    write_metadata(tmp_path / "first", "toy_a", "2", "[console_scripts]\nx = m:main\n")
    write_metadata(tmp_path / "second", "toy_a", "1", "[toy.kernel]\nold = m:A\n")
    monkeypatch.syspath_prepend(tmp_path / "second")
    monkeypatch.syspath_prepend(tmp_path / "first")
    assert new_registry().specs() == ()


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


def test_the_variable_names_several_plugins_between_commas(toy, monkeypatch):
    monkeypatch.setenv("TOY_DISABLE", "toy-b,Toy_A")
    assert {spec.plugin for spec in new_registry(None).specs()} == {"toy-host"}


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
    return Plugin("toy-a", "1")


def test_words_go_to_the_standard_error_and_are_noted(capsys):
    watch = new_watch()
    with watch.watching():
        print("hello")
        sys.stdout.writelines(["a", "b"])
    print("after")
    assert capsys.readouterr() == ("after\n", "hello\nab")
    assert watch.printed == "hello\nab"


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_is_raised_passes_and_the_output_is_back(capsys, error):
    with pytest.raises(error), new_watch().watching():
        raise error
    print("back")
    assert capsys.readouterr().out == "back\n"


def test_new_top_level_modules_are_noted(tmp_path, monkeypatch):
    (tmp_path / "toy_brought").mkdir()
    (tmp_path / "toy_brought" / "__init__.py").write_text("from . import part")
    (tmp_path / "toy_brought" / "part.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    watch = new_watch()
    with watch.watching():
        import toy_brought  # noqa: F401  the import is what is watched
    assert watch.modules == ["toy_brought"]
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
    for number in (25, 50, 100):
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
            last = max(str(i) for i in range(number))  # specs are in the order of their names
            assert found.summary(found.specs()[-1]) == f"Component {last}."
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
    assert read["toy_read_once.py"] == 1
    assert max(read.values()) < 5  # metadata too, however many components there are


def test_the_seconds_of_a_plugin_are_those_of_all_that_is_read_of_it(monkeypatch):
    times = iter([10.0, 12.5, 20.0, 21.0])
    monkeypatch.setattr("ccl_registry.plugin.time.perf_counter", lambda: next(times))
    watch = new_watch()
    for _ in range(2):
        with watch.watching():
            pass
    assert watch.seconds == 3.5


HOOK = (
    "import pluggy\nfrom ccl_registry import ComponentSpec\nhook = pluggy.HookimplMarker('toy')\n"
)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes plug-ins, each with its entry points and its modules."""
    monkeypatch.syspath_prepend(tmp_path)
    written = []

    def write(name, entries="", **modules):
        hooks = "".join(f"{each} = {each}\n" for each in modules)
        write_metadata(tmp_path, name, "1.0", f"[toy.hooks]\n{hooks}{entries}")
        for each, body in modules.items():
            written.append(each)
            (tmp_path / f"{each}.py").write_text(HOOK + body + "\n")

    yield write
    for each in written:
        sys.modules.pop(each, None)


OFFERS = "@hook\ndef toy_components():\n    "


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("def toy_told(first): pass", "toy_m: toy_told is not marked with @hookimpl"),
        (
            "@hook\ndef toy_tolt(first): pass",
            "toy_m: there is no hook 'toy_tolt'. Did you mean 'toy_told'?",
        ),
        (
            "@hook\ndef zzz(): pass",
            "toy_m: there is no hook 'zzz'. There are: toy_components, toy_judged, toy_told.",
        ),
        (
            "@hook(wrapper=True)\ndef toy_told(): yield",
            "toy_m: toy_told is a wrapper, and no hook takes one",
        ),
        (
            "@hook(hookwrapper=True)\ndef toy_told(): yield",
            "toy_m: toy_told is a wrapper, and no hook takes one",
        ),
        (f"{OFFERS}return 3", "TypeError: 'int' object is not iterable"),
        (f"{OFFERS}return 'a'", "toy_components must give ComponentSpecs, not 'a'"),
        (
            f"{OFFERS}return [ComponentSpec('kernal', 'a', 'm:A')]",
            "unknown entry-point group 'toy.kernal'. Did you mean 'toy.kernel'? Valid: toy.kernel,"
            " toy.objective, toy.sampler, toy.hooks",
        ),
        (
            f"{OFFERS}return [ComponentSpec('zzzzzz', 'a', 'm:A')]",
            "unknown entry-point group 'toy.zzzzzz'. Valid: toy.kernel, toy.objective,"
            " toy.sampler, toy.hooks",
        ),
        (
            f"{OFFERS}return [ComponentSpec('kernel', 'kept', 'm:A')]",
            "kernel:toy-m/kept is declared twice",
        ),
        (f"{OFFERS}raise SystemExit(3)", "SystemExit: 3"),
        ("import toy_nosuch", "ModuleNotFoundError: No module named 'toy_nosuch'"),
    ],
)
def test_what_a_hooks_module_does_wrong_is_said_in_one_line(write, body, reason):
    write("toy_m", "[toy.kernel]\nkept = m:A\n", toy_m=body)
    found = new_registry()
    (plugin,) = found.plugins
    assert (plugin.state, plugin.reason) == ("failed", reason)
    assert [f.reason for f in found.failures] == [reason]
    assert [s.use for s in found.specs()] == ["kernel:toy-m/kept"]
    sys.modules.pop("toy_m", None)
    with pytest.raises(PluginFailed) as raised:
        new_registry(strict=True).specs()
    assert str(raised.value) == f"plugin toy-m: {reason}"
    assert isinstance(raised.value.__cause__, BaseException)


def test_helpers_in_a_hooks_module_are_no_hooks(write):
    write("toy_m", toy_m="def helper(): raise ValueError\nclass toy_told: pass\ntoy_components = 3")
    (plugin,) = new_registry().plugins
    assert (plugin.state, plugin.reason) == ("ok", "")


def test_all_hooks_modules_of_a_plugin_count(write):
    offer = "return [ComponentSpec('kernel', 'hooked', 'm:A', 'other', '9')]"
    told = "@hook\ndef toy_told(second): return second"
    write("toy_m", "[toy.sampler]\ndeclared = m:B\n", toy_m=OFFERS + offer, toy_n=told)
    found = new_registry()
    assert [(s.use, s.version) for s in found.specs()] == [
        ("kernel:toy-m/hooked", "1.0"),
        ("sampler:toy-m/declared", "1.0"),
    ]
    assert found.call("toy_told", first=1, second=2) == [("toy-m", 2)]


def test_plugins_are_called_by_name_and_errors_name_them(write):
    for name in ("toy_c", "toy_a", "toy_b"):
        body = f"@hook\ndef toy_told(first, second):\n    return second[{name!r}](first)"
        write(name, **{f"{name}_m": body})
    found = new_registry()

    def told(**answers):
        given = {f"toy_{each}": lambda first: None for each in "abc"} | answers
        return found.call("toy_told", first=3, second=given)

    def raising(error):
        def fail(first):
            raise error

        return fail

    assert told() == []
    same = {f"toy_{each}": lambda first, each=each: (each, first) for each in "abc"}
    assert told(**same) == [(f"toy-{each}", (each, 3)) for each in "abc"]
    assert told(toy_b=lambda first: 0) == [("toy-b", 0)]
    with pytest.raises(KeyboardInterrupt):
        told(toy_a=raising(KeyboardInterrupt()))


RAISES = """
@hook
def toy_told(first):
    raise first
@hook
def toy_judged(first):
    raise first
"""


@pytest.mark.parametrize(
    "error", [ValueError("not\nthis"), SystemExit("not this"), RegistryError("no")]
)
def test_a_hook_that_raises_is_named_recorded_and_left_out(write, monkeypatch, error):
    write("toy_a", a_m="@hook\ndef toy_told(): return 1")
    write("toy_b", b_m=RAISES)
    write("toy_c", c_m="@hook\ndef toy_told():\n    yield 3\n    raise KeyError('late')")
    found = new_registry()
    reason = f"in toy_told: {one_line(error)}"
    with pytest.warns(UserWarning, match="its result is left out") as warned:
        assert found.call("toy_told", first=error, second=2) == [("toy-a", 1)]
    assert [str(each.message) for each in warned] == [
        f"plugin toy-b {reason}; its result is left out",
        "plugin toy-c in toy_told: KeyError: 'late'; its result is left out",
    ]
    assert {each.filename for each in warned} == {__file__}
    assert [p.state for p in found.plugins] == ["ok", "failed", "failed"]
    assert [f.reason for f in found.failures] == [reason, "in toy_told: KeyError: 'late'"]
    assert f"{type(error).__name__}: " in found.failures[0].traceback
    with pytest.raises(PluginFailed) as raised:
        new_registry(strict=True).call("toy_told", first=error, second=2)
    assert str(raised.value) == f"plugin toy-b: {reason}"


@pytest.mark.parametrize(
    ("error", "kind"), [(ValueError, InvalidConfig), (SystemExit, PluginFailed)]
)
def test_an_error_of_a_hook_that_may_reject_is_raised_with_the_name_of_its_plugin(
    write, error, kind
):
    write("toy_b", b_m=RAISES)
    found = new_registry()
    with pytest.raises(kind) as raised:
        found.call("toy_judged", first=error("not this"))
    assert str(raised.value) == f"plugin toy-b in toy_judged: {error.__name__}: not this"
    assert isinstance(raised.value.__cause__, error)
    assert found.failures == ()


def test_an_iterators_results_are_a_list(write):
    write("toy_a", a_m="@hook\ndef toy_told(first): yield from first")
    assert new_registry().call("toy_told", first="ab") == [("toy-a", ["a", "b"])]


def test_each_plugin_gets_its_own_options(write):
    for name in ("toy_a", "toy_b"):
        write(
            name,
            **{f"{name}_m": "@hook\ndef toy_told(options, first): return dict(options), first"},
        )
    write("toy_c", c_m="@hook\ndef toy_told(second): return second")
    found = new_registry()
    options = found.read_options({"Toy_B": {"x": 1}}, "run.toml: plugins")
    assert options == {"toy-b": {"x": 1}}
    told = found.call("toy_told", options, first=1, second=2)
    assert told == [("toy-a", ({}, 1)), ("toy-b", ({"x": 1}, 1)), ("toy-c", 2)]
    assert found.call("toy_told", first=1, second=2)[:2] == [("toy-a", ({}, 1)), ("toy-b", ({}, 1))]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"toy-bb": {}}, "plugins: no plugin 'toy-bb'. Did you mean 'toy-b'?"),
        ({"x": {}}, "plugins: no plugin 'x'. Installed: toy-b, toy-c."),
        ({"toy-b": {}, "toy_b": {}}, "plugins: toy-b is given twice"),
        ({"toy-b": 3}, "plugins.toy-b: must be a table, not 3"),
        ({"toy_c": {"x": 1}}, "plugins.toy_c: no hook of toy-c takes options"),
        ([1], "plugins: must be a table of plugins, not [1]"),
    ],
)
def test_options_that_nobody_reads_are_refused(write, data, message):
    write("toy_b", b_m="@hook\ndef toy_told(options): return options")
    write("toy_c", c_m="@hook\ndef toy_told(second): return second")
    with pytest.raises(InvalidConfig) as raised:
        new_registry().read_options(data, "plugins")
    assert str(raised.value) == message
    assert new_registry(["toy-c"]).read_options({"toy-c": {"x": 1}}, "plugins") == {
        "toy-c": {"x": 1}
    }


def test_a_disabled_plugin_is_not_called_and_neither_imported(write):
    write("toy_m", "[toy.kernel]\na = m:A\n", toy_m="@hook\ndef toy_told(): return 1")
    found = new_registry(["toy_m"])
    assert found.call("toy_told") == []
    assert found.specs() == ()
    assert "toy_m" not in sys.modules
    assert new_registry(["toy_k", " Toy_M "]).plugins[0].state == "disabled"


def test_a_plugin_without_hooks_is_called_with_none(write):
    write("toy_m", "[toy.kernel]\na = m:A\n")
    assert new_registry().call("toy_told", first=1, second=2) == []


def test_what_comes_before_an_error_of_a_hook_stays_on_offer(write):
    a, b = (f"yield ComponentSpec('kernel', {name!r}, 'm:A')\n    " for name in "ab")
    write("toy_m", toy_m=f"{OFFERS}{a}yield 3\n    {b}raise ValueError('late')")
    found = new_registry()
    assert [s.name for s in found.specs()] == ["a", "b"]
    assert found.plugins[0].reason == (
        "ValueError: late; toy_components must give ComponentSpecs, not 3"
    )


def test_what_reading_a_plugin_does_is_on_record(write, capsys):
    body = "import sys\nprint('\\thello\\n\\x1b there\\n')\nsys.path.append('/nowhere')\n"
    write("toy_m", toy_m=body)
    write("toy_n", "[toy.kernel]\na = m:A\n")
    before = [*sys.path]
    try:
        plugin, quiet = new_registry().plugins
    finally:
        sys.path[:] = before
    assert (plugin.name, plugin.version, plugin.state) == ("toy-m", "1.0", "ok")
    assert plugin.printed == "\thello\n\x1b there\n\n"
    assert plugin.modules == ["toy_m"]
    assert plugin.changes == ["sys.path"]
    assert 0 < plugin.seconds < 10
    assert (quiet.printed, quiet.modules, quiet.changes, quiet.copies) == ("", [], [], ())
    assert capsys.readouterr().out == ""


def test_the_traceback_of_a_failure_is_printable():
    failure = Failure.of("toy-a", "1", ValueError("x\x1b"))
    assert (failure.plugin, failure.version) == ("toy-a", "1")
    assert failure.reason == "ValueError: x\\x1b"
    assert failure.traceback == "ValueError: x\\x1b\n"


def test_ctrl_c_while_a_plugin_is_read_says_which():
    with pytest.raises(KeyboardInterrupt) as raised, new_watch().recording():
        raise KeyboardInterrupt
    assert raised.value.__notes__ == ["plugin toy-a was being read"]


def handler(*_):
    """Does nothing."""


CHANGES = {
    "sys.path": (lambda: sys.path.append("/nowhere"), lambda: "/nowhere" in sys.path, True),
    "warning filters": (
        lambda: warnings.simplefilter("error"),
        lambda: warnings.filters[0][0] == "error",
        False,
    ),
    "the working directory": (lambda: os.chdir("/"), lambda: os.getcwd() == "/", False),
    "the recursion limit": (
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 7),
        lambda: sys.getrecursionlimit() % 10 == 7,
        False,
    ),
    "the handler of Ctrl-C": (
        lambda: signal.signal(signal.SIGINT, handler),
        lambda: signal.getsignal(signal.SIGINT) is handler,
        False,
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_that_a_plugin_changes_is_named_and_restored_if_others_need_it(
    tmp_path, monkeypatch, name
):
    change, changed, kept = CHANGES[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(warnings, "filters", [("default", None, Warning, None, 0)])
    limit, before = sys.getrecursionlimit(), signal.getsignal(signal.SIGINT)
    try:
        sys.setrecursionlimit(5000)
        watch = new_watch()
        with watch.watching():
            change()
            assert changed()
        assert changed() is kept
        with watch.watching():
            pass
        assert watch.changes == [name]
    finally:
        sys.setrecursionlimit(limit)
        signal.signal(signal.SIGINT, before)


def test_settings_that_cannot_be_restored_are_left(tmp_path, monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    watches = [new_watch(), new_watch()]

    def change(watch):
        with watch.watching():
            monkeypatch.setattr(signal, "getsignal", lambda _: handler)

    try:
        with ThreadPoolExecutor() as pool:  # only the main thread may set a handler
            pool.submit(change, watches[0]).result()
        monkeypatch.setattr(signal, "getsignal", lambda _: None)  # as of a handler written in C
        change(watches[1])
    finally:
        signal.signal(signal.SIGINT, before)
    assert [watch.changes for watch in watches] == [["the handler of Ctrl-C"]] * 2


def test_a_working_folder_that_is_gone_is_no_error(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    watch = new_watch()
    with watch.watching():
        os.chdir(tmp_path)
    assert watch.changes == ["the working directory"]
    with watch.watching():
        pass
    assert watch.changes == ["the working directory"]
    for _ in range(2):
        with watch.watching():
            os.chdir("/")
        os.chdir(tmp_path)
    assert watch.changes == ["the working directory"]


def test_the_output_that_a_plugin_sees_is_the_standard_error(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    watch = new_watch()
    with watch.watching():
        assert sys.stdout.write("abc") == 3
        print("d", flush=True)
        assert sys.stdout.isatty() is False
    assert stream.getvalue() == watch.printed == "abcd\n"
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw
    with watch.watching():
        assert sys.stdout.write("x" * 300) == 300
    assert len(watch.printed) == PRINTED


def test_a_plugin_that_fails_is_failed_and_one_that_is_not_read_is_disabled():
    plugin = new_watch()
    assert (plugin.state, plugin.reason) == ("ok", "")
    plugin.disabled = True
    assert plugin.state == "disabled"
    with plugin.recording():
        raise ValueError("a")
    assert (plugin.state, plugin.reason) == ("failed", "ValueError: a")
