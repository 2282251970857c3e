"""A component's module that greets too."""

import sys

print("Welcome to the kernel!", file=sys.stdout, flush=True)


class Loud:
    """A kernel that speaks."""
