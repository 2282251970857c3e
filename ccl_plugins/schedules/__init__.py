"""Schedules of the learning rate: its factor as a function of the step, one file each."""

from ccl_plugins.schedules.constant import Constant as Constant
from ccl_plugins.schedules.cosine import Cosine as Cosine
from ccl_plugins.schedules.step import Step as Step
from ccl_plugins.schedules.warm_up import WarmUp as WarmUp

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
