"""A hooks module that needs what is not installed."""

import ccl_nosuch_dependency  # noqa: F401  (missing on purpose)
