"""Evaluators: measurements on frozen features, one file each; no backbone is trained here."""

from ccl_plugins.evaluators.intervals import estimate as estimate
from ccl_plugins.evaluators.intervals import mean as mean
from ccl_plugins.evaluators.knn import KNN as KNN
from ccl_plugins.evaluators.linear import LinearProbe as LinearProbe
from ccl_plugins.evaluators.regression import Regression as Regression
