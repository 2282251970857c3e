"""A hooks module that takes its time."""

import time

time.sleep(0.3)


class Unhurried:
    """A kernel that comes late."""
