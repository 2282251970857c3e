"""Each neighbor that misbehaves leaves everything else working, and is named."""

from __future__ import annotations

import json
import shutil

import pytest


def doctor(installed_plugins, plugins, *words, **variables):
    done = installed_plugins.ccl("doctor", "--json", *words, plugins=plugins, **variables)
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["healthy"] else 1)
    return report


def found(report, section, plugin):
    return [finding["text"] for finding in report[section] if finding["plugin"] == plugin]


def kernels(report, plugin):
    # A busy machine may make any hooks slow: that remark is another test's.
    return [text for text in found(report, "remarks", plugin) if text.startswith("kernel ")]


def state(report, plugin):
    return next(p["state"] for p in report["plugins"] if p["name"] == plugin)


NEIGHBOURS = """slow exits prints newer half clash twice_2 twice_1
broken_import broken_component typo_group typo_hook"""


def test_beside_all_of_them_the_rest_goes_on_working(installed_plugins):
    code = """
import ccl_plugins as ccl
print(ccl.create("kernel", "ccl-good/ring", radius=2).radius)
print(ccl.create("kernel", "delta").positive_definite, ccl.kernel.rbf().spec.plugin)
"""
    said = installed_plugins.python(code, plugins=f"{NEIGHBOURS} good").splitlines()
    assert said[-2:] == ["2.0", "True ccl-plugins"]  # below what a C library wrote
    listed = installed_plugins.ccl("list", "kernel", "--json", plugins=f"{NEIGHBOURS} good")
    offered = {(row["name"], row["plugin"]) for row in json.loads(listed.stdout)}
    assert {("rbf", "ccl-plugins"), ("ring", "ccl-good"), ("kept", "ccl-typo-group")} <= offered


def test_the_doctor_names_every_one_of_them(installed_plugins):
    report = doctor(installed_plugins, f"{NEIGHBOURS} good", "--load")
    named = {f["plugin"] for key in ("failures", "problems", "remarks") for f in report[key]}
    installed = {plugin["name"] for plugin in report["plugins"]}
    # ccl-good shares a name with ccl-clash.  A source tree on the path is a second copy of ccl-plugins.
    assert named - {"ccl-plugins"} == installed - {"ccl-plugins"}


def test_a_slow_one_is_named_with_its_time(installed_plugins):
    (text,) = found(doctor(installed_plugins, "slow good"), "remarks", "ccl-slow")
    seconds = float(text.removeprefix("its hooks took ").partition(" s,")[0])
    assert seconds >= 0.3


def test_one_that_ends_the_program_does_not(installed_plugins):
    report = doctor(installed_plugins, "exits")
    assert state(report, "ccl-exits") == "failed"
    (failure,) = report["failures"]
    assert failure["reason"] == "SystemExit: usage: ccl_exits FILE"
    assert 'sys.exit("usage: ccl_exits FILE")' in failure["traceback"]
    chosen = installed_plugins.ccl("info", "kernel", "quitter", plugins="exits")
    assert chosen.returncode == 2
    assert "cannot import ccl_exits_kernel:Quitter (SystemExit: 0)" in chosen.stderr


def test_ctrl_c_passes_and_names_who_was_being_imported(installed_plugins):
    done = installed_plugins.ccl("list", plugins="interrupts")
    assert done.stderr == "ccl: interrupted; plugin ccl-interrupts was being read\n"
    assert done.returncode == 130
    spared = installed_plugins.ccl("list", plugins="interrupts", CCL_DISABLE="ccl-interrupts")
    assert spared.returncode == 0


def test_what_one_prints_stays_out_of_the_output(installed_plugins):
    done = installed_plugins.ccl("list", "kernel", "--json", plugins="prints")
    assert "louder" in {row["name"] for row in json.loads(done.stdout)}
    assert done.stderr == "Welcome from C!\nWelcome to ccl-prints!\nhere is a component\n"
    loaded = doctor(installed_plugins, "prints", "--load")
    assert state(loaded, "ccl-prints") == "ok"
    texts = found(doctor(installed_plugins, "prints"), "remarks", "ccl-prints")
    (text,) = [text for text in texts if "prints" in text]
    assert "prints when imported: 'Welcome to ccl-prints!\\nhere is a component'" in text


@pytest.mark.slow
def test_one_that_leaves_a_thread_keeps_nobody_waiting(installed_plugins):
    done = installed_plugins.ccl("list", "kernel", "--json", plugins="endless")
    assert "endless" in {row["name"] for row in json.loads(done.stdout)}
    assert done.stderr == "ccl: threads that did not end are left: ccl-endless\n"
    assert done.returncode == 0


def test_one_that_imports_torch_to_be_listed_is_told_to_wait(installed_plugins):
    report = doctor(installed_plugins, "eager", anew=True)
    texts = found(report, "remarks", "ccl-eager")
    assert any("its hooks module imports torch at its top" in text for text in texts)
    assert state(report, "ccl-eager") == "ok"


def test_one_that_was_written_for_another_version_says_which(installed_plugins):
    report = doctor(installed_plugins, "newer")
    first, second = found(report, "problems", "ccl-newer")
    assert first.startswith("it needs ccl-plugins>=99, and 0.")
    assert second == "it needs ccl-nosuch-dependency>=2, which is not installed"
    assert not report["healthy"]


def test_of_one_installed_twice_both_places_are_named_and_the_first_counts(installed_plugins):
    report = doctor(installed_plugins, "twice_2 twice_1")
    (text,) = [t for t in found(report, "remarks", "ccl-twice") if "more than once" in t]
    one, two = (installed_plugins.folder(f"twice_{n}").resolve() for n in (1, 2))
    assert text == f"installed more than once, and the first is used: 2.0 in {two}, 1.0 in {one}"
    again = doctor(installed_plugins, "twice_1 twice_1")
    assert not [text for text in found(again, "remarks", "ccl-twice") if "more than once" in text]


def test_one_whose_module_is_gone_is_named_in_the_list_and_by_the_doctor(installed_plugins):
    listed = installed_plugins.ccl("list", "kernel", plugins="half").stdout
    assert "its module ccl_half is missing" in listed
    report = doctor(installed_plugins, "half")
    (text,) = found(report, "problems", "ccl-half")
    assert "kernel half is offered, but its module ccl_half is missing: " in text
    assert "pip install --force-reinstall ccl-half" in text


@pytest.mark.parametrize("lost", ["name", "METADATA"])
def test_what_an_uninstall_left_behind_is_named(installed_plugins, tmp_path, lost):
    shutil.copytree(installed_plugins.folder("half"), tmp_path / "site")
    (metadata,) = (tmp_path / "site").glob("*.dist-info")
    if lost == "name":  # as pip calls what it is about to delete
        metadata = metadata.rename(metadata.with_name(f"~{metadata.name[1:]}"))
        name, reason = "ccl-half", "an uninstall left parts of it"
    else:
        (metadata / "METADATA").unlink()
        name, reason = "a plug-in without a name", "it has no METADATA"
    report = doctor(installed_plugins, "", PYTHONPATH=str(tmp_path / "site"))
    (text,) = found(report, "problems", name)
    assert text == f"{reason}: remove or reinstall {metadata}"
    assert [p["name"] for p in report["plugins"]] == ["ccl-plugins"]


def test_names_that_are_taken_are_named_with_what_to_say(installed_plugins):
    report = doctor(installed_plugins, "clash good")
    assert kernels(report, "ccl-clash") == [
        "kernel rbf is a built-in: say ccl-clash/rbf",
        "kernel ring is offered by ccl-good too: say ccl-clash/ring",
    ]
    assert kernels(report, "ccl-good") == [
        "kernel ring is offered by ccl-clash too: say ccl-good/ring"
    ]
    assert report["healthy"]


def test_a_built_in_is_overridden_in_the_config_that_says_so_alone(installed_plugins):
    code = """
import ccl_plugins as ccl
bare = ccl.objective("fair_cclk", kernel={"use": "rbf"})
theirs = ccl.objective("fair_cclk", kernel={"use": "ccl-clash/rbf"})
print(bare.params["kernel"].spec.id, theirs.params["kernel"].spec.id)
print(ccl.kernel.rbf().spec.id)
"""
    assert installed_plugins.python(code, plugins="clash").splitlines() == [
        "ccl-plugins/rbf ccl-clash/rbf",
        "ccl-plugins/rbf",
    ]


def test_a_disabled_one_is_in_the_report_and_costs_nothing(installed_plugins):
    report = doctor(installed_plugins, "slow exits", CCL_DISABLE="ccl-slow,ccl-exits")
    assert (state(report, "ccl-slow"), state(report, "ccl-exits")) == ("disabled", "disabled")
    assert not found(report, "remarks", "ccl-slow")
    assert report["healthy"]
