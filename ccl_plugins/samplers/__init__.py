"""The samplers: which samples meet in a batch."""

from ccl_plugins.samplers.conditional_pair import ConditionalPair as ConditionalPair
from ccl_plugins.samplers.imbalanced import Imbalanced as Imbalanced
from ccl_plugins.samplers.same_condition import SameCondition as SameCondition
from ccl_plugins.samplers.uniform import Uniform as Uniform
