"""What ``ccl new`` writes: a complete package around one component, with tests that pass."""

from ccl_plugins.scaffold.package import read_names as read_names
from ccl_plugins.scaffold.package import render as render
from ccl_plugins.scaffold.package import write as write
