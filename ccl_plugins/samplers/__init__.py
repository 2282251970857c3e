"""Samplers: which samples form a batch, and how partners are drawn; no images are read here."""

from ccl_plugins.samplers.conditional_pair import ConditionalPair as ConditionalPair
from ccl_plugins.samplers.imbalanced import Imbalanced as Imbalanced
from ccl_plugins.samplers.m_per_class import MPerClass as MPerClass
from ccl_plugins.samplers.same_condition import SameCondition as SameCondition
from ccl_plugins.samplers.uniform import Uniform as Uniform
from ccl_plugins.samplers.weighted import Weighted as Weighted

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
