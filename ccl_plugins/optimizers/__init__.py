"""Optimizers: how gradients change the parameters, one file each."""

from ccl_plugins.optimizers.adam import Adam as Adam
from ccl_plugins.optimizers.adamw import AdamW as AdamW
from ccl_plugins.optimizers.lars import LARS as LARS
from ccl_plugins.optimizers.sgd import SGD as SGD
