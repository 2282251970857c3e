"""What is installed is there: listed without import, described in full, seen after a refresh."""

from __future__ import annotations

import pytest

import ccl_plugins as ccl


@pytest.mark.slow
def test_a_plugin_installed_meanwhile_is_there_after_a_refresh(installed_plugins):
    folder = str(installed_plugins.folder("good"))
    code = f"""
import sys
import ccl_plugins as ccl
print("ring" in dir(ccl.kernel))
sys.path.append({folder!r})
print("ring" in dir(ccl.kernel))
ccl.refresh()
print("ring" in dir(ccl.kernel), ccl.kernel.ring(radius=2))
"""
    assert installed_plugins.python(code).splitlines() == [
        "False",
        "False",
        "True ring(radius=2.0)",
    ]


def test_listing_and_completing_import_nothing_of_a_plugin(installed_plugins):
    code = """
import sys
import ccl_plugins as ccl
ccl.list()._repr_html_(), str(ccl.list("kernel")), dir(ccl.kernel)
print(*(name for name in sys.modules
        if name.startswith("ccl_") and name.partition(".")[0] not in ("ccl_plugins", "ccl_registry")))
"""
    assert installed_plugins.python(code, plugins="newer clash broken_component").strip() == ""


def test_a_description_says_what_a_strangers_plugin_requires(installed_plugins):
    code = """
import ccl_plugins as ccl
found = ccl.info("kernel", "tomorrow")
print(found.requires)
print(found._repr_html_())
"""
    requires, *page = installed_plugins.python(code, plugins="newer").splitlines()
    assert requires == "('ccl-plugins>=99', 'ccl-nosuch-dependency>=2', 'numpy')"
    assert "ccl-newer requires: ccl-plugins&gt;=99, ccl-nosuch-dependency&gt;=2, numpy" in page


def test_a_description_has_everything_there_is_to_know():
    found = ccl.info("objective", "fair_cclk")
    assert found.file.partition(":")[0].endswith("ccl_plugins/objectives/cclk.py")
    assert found.signature.startswith("FairCCLK(\n")
    assert "    temperature: Scalar = 0.1," in found.signature
    assert "condition" in found.declares["conditions"]
    (summary,) = (row["summary"] for row in ccl.list("objective") if row["name"] == "fair_cclk")
    assert found.doc.startswith(summary)
    assert found.requires == ()
    assert "<pre>objective fair_cclk" in found._repr_html_()


def test_a_saved_pipeline_names_plugins_and_versions_and_what_to_install(
    installed_plugins, tmp_path
):
    make = f"""
import ccl_plugins as ccl
pipeline = ccl.Pipeline(
    dataset="color_digits", backbone="lenet5",
    transform=ccl.transform("simclr", size=32, jitter=0.0, gray=0.0, blur=0.0),
    objective=ccl.objective("soft_infonce", kernel="ccl-twice/copied"),
    condition="label",
)
print(pipeline.to_dict()["versions"])
open({str(tmp_path / "pipeline.json")!r}, "w").write(pipeline.to_json())
"""
    load = f"""
import ccl_plugins as ccl
try:
    ccl.load({str(tmp_path)!r}).pipeline
except ccl.PluginFailed as error:
    print(error)
"""
    made = installed_plugins.python(make, plugins="twice_2")
    assert made.splitlines()[-1].startswith("{'ccl-plugins': '0.")
    assert made.rstrip().endswith("'ccl-twice': '2.0'}")
    assert installed_plugins.python(load).strip() == (
        "this run needs the plug-in ccl-twice 2.0: pip install ccl-twice==2.0"
    )
