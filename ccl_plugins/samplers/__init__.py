"""The samplers: which samples meet in a batch."""

from ccl_plugins.samplers.uniform import Uniform as Uniform
