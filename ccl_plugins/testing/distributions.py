"""The laws of a distribution as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any
from unittest import SkipTest

import ccl_registry as engine
from ccl_plugins.files.requirements import unmet
from ccl_plugins.kinds import HEAVY, registry
from ccl_plugins.testing.assertions import require
from ccl_plugins.testing.subject import Distribution

_LIST = """
import sys
before = {*sys.modules, "ccl_plugins.commands.list"}  # which lists
import ccl_plugins as ccl
str(ccl.list())
print()
print(*(m for m in sys.argv[1:] if m in sys.modules and m not in before))
"""


def check_offers_all_it_declares(distribution: Distribution) -> None:
    """Every entry point and hook of the distribution must be accepted; see ``ccl doctor``."""
    reasons = [f.reason for f in registry().failures if f.plugin == distribution.name]
    require(not reasons, str(reasons))


def check_is_for_the_installed_version(distribution: Distribution) -> None:
    """The installed ccl-plugins must be one that the distribution requires."""
    reasons = [*unmet(distribution.name, of=registry().host)]
    require(not reasons, f"it {'; '.join(reasons)}")


def check_is_listed_without_imports(distribution: Distribution) -> None:
    """``ccl list`` must import neither the components' modules nor slow libraries.

    In a module of hooks, import slow libraries inside the functions that use them, and let it stand beside
    a package that imports its components.
    """
    # Without the other distributions, whose hooks are imported too.
    others = {each.name for each in registry().plugins} - {distribution.name, registry().host}
    modules = {spec.target.partition(":")[0] for spec in distribution.specs}
    done = subprocess.run(
        [sys.executable, "-c", _LIST, *HEAVY, *sorted(modules)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "CCL_DISABLE": ",".join(others),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    require(done.returncode == 0, done.stderr)
    imported = done.stdout.splitlines()[-1]
    require(not imported, f"listing imported {imported}")


def check_hides_no_built_in(distribution: Distribution) -> None:
    """No component may have the name of a built-in of its kind, which a bare name always means."""
    reg = registry()
    if distribution.name == reg.host:
        return
    built_in = {(s.kind, s.name) for s in reg.specs() if s.plugin == reg.host}
    same = [f"{s.kind}/{s.name}" for s in distribution.specs if (s.kind, s.name) in built_in]
    require(not same, f"built-ins have the names of {', '.join(same)}")


def check_hooks_answer_for_a_plain_pipeline(distribution: Distribution) -> None:
    """Hooks must take a pipeline that has nothing of the plug-in and no options for it.

    It is composed and not rejected; callbacks, loggers and symptoms are offered without an error, each of
    its class.  A hook runs for every pipeline of whoever installs the plug-in.
    """
    reg, name = registry(), distribution.name
    (plugin,) = (each for each in reg.plugins if each.name == name)
    if not plugin.has_hooks:
        return

    from pytorch_lightning import Callback
    from pytorch_lightning.loggers import Logger

    from ccl_plugins.experiments.pipeline import Pipeline
    from ccl_plugins.watching import Symptom

    known = len(reg.failures)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pipeline = Pipeline(**PLAIN)
        except engine.RegistryError as error:
            others = [f"plugin {each.name} in " for each in reg.plugins if each.name != name]
            if str(error).startswith((*others,)):
                raise SkipTest(f"no pipeline can be composed: {error}") from error
            raise AssertionError(f"a plain pipeline cannot be composed: {error}") from error
        for hook, cls in (
            ("ccl_callbacks", Callback),
            ("ccl_loggers", Logger),
            ("ccl_symptoms", Symptom),
        ):
            answers = [a for who, a in reg.call(hook, pipeline=pipeline, options={}) if who == name]
            reasons = [each.reason for each in reg.failures[known:] if each.plugin == name]
            require(not reasons, str(reasons))
            for answer in answers:
                right = isinstance(answer, list | tuple) and all(isinstance(x, cls) for x in answer)
                require(right, f"{hook} must return a list of {cls.__name__}, not {answer!r:.80}")


PLAIN: dict[str, Any] = {
    "dataset": "color_digits",
    "backbone": "lenet5",
    "method": "simclr",
    "transform": {"use": "noise"},
    "objective": "infonce",
}
"""A pipeline of built-in components."""
