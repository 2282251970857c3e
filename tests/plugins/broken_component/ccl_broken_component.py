"""A component whose module does not import."""

import ccl_nosuch_dependency


class Gone:
    """A kernel that needs what is not installed."""

    dependency = ccl_nosuch_dependency
