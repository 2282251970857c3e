"""Information: entropies and mutual information of discrete variables, in bits; no model, no pipeline."""

from ccl_plugins.information.entropies import Information as Information
from ccl_plugins.information.entropies import crossing as crossing
from ccl_plugins.information.entropies import information as information
from ccl_plugins.information.entropies import to_unit as to_unit
from ccl_plugins.information.plane import Point as Point
from ccl_plugins.information.plane import best as best
from ccl_plugins.information.plane import plot as plot
