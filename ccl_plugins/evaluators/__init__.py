"""The evaluators: measurements on frozen features."""

from ccl_plugins.evaluators.knn import KNN as KNN
from ccl_plugins.evaluators.linear import LinearProbe as LinearProbe
from ccl_plugins.evaluators.regression import Regression as Regression
