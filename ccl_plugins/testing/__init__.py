"""The conformance kit: the laws of each kind, as checks that a plug-in's tests run.

```python
from ccl_plugins.testing import parametrize_with_checks


@parametrize_with_checks("ccl-ring")
def test_conformance(check):
    check()
```

Importing this imports no torch, so that pytest starts quickly where it is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccl_plugins.testing.parametrize import parametrize_with_checks as parametrize_with_checks
from ccl_plugins.testing.suite import Check as Check
from ccl_plugins.testing.suite import check as check
from ccl_plugins.testing.suite import checks as checks

if TYPE_CHECKING:
    from ccl_plugins.testing.equality import equals as equals

__all__ = ["Check", "check", "checks", "equals", "parametrize_with_checks"]


def __getattr__(name: str) -> Any:
    if name == "equals":  # it needs torch
        from ccl_plugins.testing.equality import equals

        return equals
    raise AttributeError(f"module 'ccl_plugins.testing' has no attribute {name!r}")
