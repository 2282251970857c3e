"""What ``ccl new`` writes, a complete package around one component; and a first pipeline, by ``ccl init``.

The parts of the latter are imported from their files, since they need torch, and ``ccl new`` does not.
"""

from ccl_plugins.start.package import read_names as read_names
from ccl_plugins.start.package import render as render
from ccl_plugins.start.package import write as write
