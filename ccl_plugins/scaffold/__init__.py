"""What ``ccl new`` writes, a complete package around one component, and ``ccl init``, a first pipeline."""

from ccl_plugins.scaffold.found import Found as Found
from ccl_plugins.scaffold.found import Variable as Variable
from ccl_plugins.scaffold.found import look as look
from ccl_plugins.scaffold.package import read_names as read_names
from ccl_plugins.scaffold.package import render as render
from ccl_plugins.scaffold.package import write as write
from ccl_plugins.scaffold.pipeline import first_pipeline as first_pipeline
from ccl_plugins.scaffold.wishes import Wishes as Wishes
