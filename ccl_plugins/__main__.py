"""The command ``ccl``, as ``python -m ccl_plugins``."""

from ccl_plugins.cli import run

if __name__ == "__main__":
    run()
