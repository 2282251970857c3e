"""The command ``ccl``, as ``python -m ccl_plugins``."""

import sys

from ccl_plugins.cli import main

if __name__ == "__main__":
    sys.exit(main())
