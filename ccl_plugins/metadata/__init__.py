"""Metadata: a data set's columns and a condition's tables, one row per sample; no images, no networks."""

from ccl_plugins.files.tables import choose as choose
from ccl_plugins.metadata.columns import Encoded as Encoded
from ccl_plugins.metadata.columns import class_ids as class_ids
from ccl_plugins.metadata.columns import encode as encode
from ccl_plugins.metadata.columns import factorize as factorize
from ccl_plugins.metadata.columns import tensor_columns as tensor_columns
from ccl_plugins.metadata.fitted import variables as variables
from ccl_plugins.metadata.matching import match_rows as match_rows
from ccl_plugins.metadata.matching import read_rows as read_rows
from ccl_plugins.metadata.matching import sample_names as sample_names
from ccl_plugins.metadata.variable import Variable as Variable

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
