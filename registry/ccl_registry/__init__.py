"""Components by name: found through entry points, chosen with checked parameters, built when needed.

Uses only the standard library and pluggy; the project that uses it defines the kinds.
"""

from .catalog import Namespace as Namespace
from .catalog import Offer as Offer
from .catalog import Registry as Registry
from .choice import Choice as Choice
from .config import check_keys as check_keys
from .config import from_json as from_json
from .config import read_toml as read_toml
from .config import to_json as to_json
from .distributions import Remnant as Remnant
from .errors import AmbiguousName as AmbiguousName
from .errors import InvalidConfig as InvalidConfig
from .errors import InvalidParameter as InvalidParameter
from .errors import InvalidSpec as InvalidSpec
from .errors import Mistake as Mistake
from .errors import PluginFailed as PluginFailed
from .errors import RegistryError as RegistryError
from .errors import UnknownComponent as UnknownComponent
from .errors import did_you_mean as did_you_mean
from .errors import errors_as_failure as errors_as_failure
from .errors import errors_as_warning as errors_as_warning
from .errors import one_line as one_line
from .params import Parameter as Parameter
from .params import Schema as Schema
from .plugin import Failure as Failure
from .plugin import Plugin as Plugin
from .quoting import escaped as escaped
from .quoting import escaped_lines as escaped_lines
from .quoting import pip_install as pip_install
from .quoting import short_repr as short_repr
from .source import Sources as Sources
from .spec import LOCAL as LOCAL
from .spec import ComponentSpec as ComponentSpec
from .spec import Kind as Kind
from .spec import Project as Project
from .spec import import_target as import_target
from .spec import may_reject as may_reject
from .spec import normalize as normalize
