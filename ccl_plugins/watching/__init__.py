"""Watching a run while it trains: what it learns and costs, why it does not learn, and its loggers.

A plug-in brings a `Symptom` of its own through the hook ``ccl_symptoms``.
"""

from ccl_plugins.training.findings import Finding as Finding
from ccl_plugins.watching.symptoms import Observation as Observation
from ccl_plugins.watching.symptoms import Symptom as Symptom

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
