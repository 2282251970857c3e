"""What must hold for a distribution as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from ccl_plugins.kinds import HEAVY, registry
from ccl_plugins.testing.laws import hold
from ccl_plugins.testing.subject import Distribution

_LIST = """
import sys
before = set(sys.modules)
import ccl_plugins as ccl
str(ccl.list())
print()
print(*(m for m in sys.argv[1:] if m in sys.modules and m not in before))
"""


def check_offers_all_it_declares(plugin: Distribution) -> None:
    """Nothing that a distribution declares failed."""
    reasons = [f.reason for f in registry().failures if f.plugin == plugin.name]
    hold("every entry point and hook must be taken in (ccl doctor)", not reasons, str(reasons))


def check_is_listed_without_imports(plugin: Distribution) -> None:
    """`ccl list` imports neither the modules of components nor what is slow."""
    modules = {spec.target.partition(":")[0] for spec in plugin.specs}
    done = subprocess.run(
        [sys.executable, "-c", _LIST, *HEAVY, *sorted(modules)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
    )
    law = (
        "listing must import no component, and a hooks module nothing slow: import where it is used"
    )
    hold(law, done.returncode == 0, done.stderr)
    imported = done.stdout.splitlines()[-1]
    hold(law, not imported, f"listing imported {imported}")


def check_hides_no_built_in(plugin: Distribution) -> None:
    """A bare name means the built-in, so that a component of the same name is never found by it."""
    found = registry()
    if plugin.name == found.host:
        return
    built_in = {(s.kind, s.name) for s in found.specs() if s.plugin == found.host}
    same = [f"{s.kind}/{s.name}" for s in plugin.specs if (s.kind, s.name) in built_in]
    hold("a component needs a name that no built-in has", not same, f"there are {same}")


CHECKS: list[Callable[[Distribution], None]] = [
    check_offers_all_it_declares,
    check_is_listed_without_imports,
    check_hides_no_built_in,
]
