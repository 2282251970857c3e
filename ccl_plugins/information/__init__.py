"""Information: entropies and mutual information of discrete variables, in bits; no model, no pipeline."""

from ccl_plugins.information.entropies import Entropies as Entropies
from ccl_plugins.information.entropies import crossing as crossing
from ccl_plugins.information.entropies import information as information
from ccl_plugins.information.entropies import to_unit as to_unit
from ccl_plugins.information.plane import Point as Point
from ccl_plugins.information.plane import best as best
from ccl_plugins.information.plane import plot as plot

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
