"""A component's module that ends the program, with the status of success."""

import sys

sys.exit(0)


class Quitter:
    """A kernel that is never reached."""
