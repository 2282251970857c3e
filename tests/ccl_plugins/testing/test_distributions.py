"""Distributions that break a law as a whole."""

from __future__ import annotations

import pytest
from support.broken import law_names

from ccl_plugins.testing import checks, distributions
from ccl_plugins.testing.suite import run

MODULE = '''
class Ring:
    """A ring."""
'''

HOOK = """
from ccl_plugins import hookimpl

@hookimpl
def ccl_callbacks(pipeline):
"""

BROKEN = {
    "sound": ({"ccl_plugins.kernel": {"ring": "ring:Ring"}}, {}, set()),
    "half failed": (
        {"ccl_plugins.kernel": {"ring": "ring:Ring", "Bad Name": "ring:Ring"}},
        {},
        {"offers_all_it_declares"},
    ),
    "slow hooks": (
        {"ccl_plugins.kernel": {"ring": "ring:Ring"}, "ccl_plugins.hooks": {"ring": "hooks"}},
        {"hooks.py": "import matplotlib"},
        {"is_listed_without_imports"},
    ),
    "a hook that raises": (
        {"ccl_plugins.kernel": {"ring": "ring:Ring"}, "ccl_plugins.hooks": {"ring": "raising"}},
        {"raising.py": f"{HOOK}    return [pipeline.nothing]"},
        {"hooks_answer_for_a_plain_pipeline"},
    ),
    "a hook that answers wrongly": (
        {"ccl_plugins.kernel": {"ring": "ring:Ring"}, "ccl_plugins.hooks": {"ring": "wrong"}},
        {"wrong.py": f"{HOOK}    return [pipeline]"},
        {"hooks_answer_for_a_plain_pipeline"},
    ),
    "a hook that rejects every pipeline": (
        {"ccl_plugins.kernel": {"ring": "ring:Ring"}, "ccl_plugins.hooks": {"ring": "rejecting"}},
        {
            "rejecting.py": HOOK.replace("ccl_callbacks", "ccl_pipeline_composed")
            + "    raise ValueError"
        },
        {"hooks_answer_for_a_plain_pipeline"},
    ),
    "a hook that is right": (
        {"ccl_plugins.kernel": {"ring": "ring:Ring"}, "ccl_plugins.hooks": {"ring": "right"}},
        {"right.py": f"{HOOK}    from pytorch_lightning import Callback\n    return [Callback()]"},
        set(),
    ),
    "for a later version": (
        {"ccl_plugins.kernel": {"ring": "ring:Ring"}},
        {
            "ccl_broken-0.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: ccl-broken\n"
            "Version: 0.1\nRequires-Dist: CCL_plugins>=9\n"
        },
        {"is_for_the_installed_version"},
    ),
    "of a built-in's name": (
        {"ccl_plugins.kernel": {"rbf": "ring:Ring"}},
        {},
        {"hides_no_built_in"},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_law_that_is_broken_is_named(name, install_plugin):
    entry_points, files, expected = BROKEN[name]
    install_plugin("ccl-broken", entry_points, {"ring.py": MODULE, **files})
    todo = [each for each in checks("ccl-broken") if each.component == "plugin"]
    assert {each.name for each in todo if run(each).state == "failed"} == expected


@pytest.mark.parametrize("name", ["slow hooks", "a hook that rejects every pipeline"])
def test_what_a_neighbor_breaks_is_not_blamed_on_a_sound_one(name, install_plugin):
    _, files, (law,) = BROKEN[name]
    (module,) = (file.removesuffix(".py") for file in files)
    install_plugin("ccl-neighbor", {"ccl_plugins.hooks": {"main": module}}, files)
    entry_points, files, _ = BROKEN["a hook that is right"]
    install_plugin("ccl-sound", entry_points, {"ring.py": MODULE, **files})
    todo = [each for each in checks("ccl-sound") if each.component == "plugin"]
    outcomes = {each.name: run(each) for each in todo}
    assert not [each.reason for each in outcomes.values() if each.state == "failed"]
    if outcomes[law].state == "skipped":
        assert "plugin ccl-neighbor in ccl_pipeline_composed" in outcomes[law].reason


def test_every_law_is_broken_once():
    found = set().union(*(expected for *_, expected in BROKEN.values()))
    assert found == law_names(distributions)
