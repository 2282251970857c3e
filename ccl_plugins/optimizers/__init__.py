"""Optimizers: how gradients change the parameters, one file each."""

from ccl_plugins.optimizers.adam import Adam as Adam
from ccl_plugins.optimizers.adamw import AdamW as AdamW
from ccl_plugins.optimizers.lars import LARS as LARS
from ccl_plugins.optimizers.sgd import SGD as SGD

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
