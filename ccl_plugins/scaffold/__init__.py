"""A plug-in to begin with: what ``ccl new`` writes."""

from ccl_plugins.scaffold.naming import Names as Names
from ccl_plugins.scaffold.naming import read_names as read_names
from ccl_plugins.scaffold.package import render as render
from ccl_plugins.scaffold.package import write as write
