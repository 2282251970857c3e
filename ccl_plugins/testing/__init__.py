"""The conformance kit: the laws of each kind, as checks that a plug-in's tests run.

```python
from ccl_plugins.testing import parametrize_with_checks


@parametrize_with_checks("ccl-ring")
def test_conformance(check):
    check()
```

Importing this package imports no torch, so that pytest starts quickly wherever it is installed.
"""

from ccl_plugins.testing.equality import equals as equals
from ccl_plugins.testing.suite import Check as Check
from ccl_plugins.testing.suite import check as check
from ccl_plugins.testing.suite import checks as checks
from ccl_plugins.testing.suite import parametrize_with_checks as parametrize_with_checks
from ccl_plugins.testing.two_ranks import on_two_ranks as on_two_ranks

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
