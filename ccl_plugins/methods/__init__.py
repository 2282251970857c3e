"""The methods: lightly-style models that turn views into pairs."""

from ccl_plugins.methods.simclr import SimCLR as SimCLR
