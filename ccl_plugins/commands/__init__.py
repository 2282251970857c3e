"""The commands of ``ccl``, one file each, and what they share."""

from ccl_plugins.commands.base import Failed as Failed
from ccl_plugins.commands.base import add_format as add_format
from ccl_plugins.commands.base import add_json as add_json
from ccl_plugins.commands.base import add_runs as add_runs
from ccl_plugins.commands.base import add_set as add_set
from ccl_plugins.commands.base import reporting_mistakes as reporting_mistakes
from ccl_plugins.commands.base import show as show
from ccl_plugins.commands.tables import TextTable as TextTable

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
