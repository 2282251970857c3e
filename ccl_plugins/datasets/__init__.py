"""The data sets: images with a table of what is known about them."""

from ccl_plugins.datasets.color_digits import ColorDigits as ColorDigits
from ccl_plugins.datasets.in_memory import InMemory as InMemory
