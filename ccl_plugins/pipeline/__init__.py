"""A composition as data: choices, what they require of each other, the record; nothing is trained here."""

from ccl_plugins.pipeline.composition import Composition as Composition
from ccl_plugins.pipeline.information import plane as plane
from ccl_plugins.pipeline.information import sweep as sweep
