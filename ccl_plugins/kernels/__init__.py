"""The kernels: how alike two values of the conditioning variable are."""

from ccl_plugins.kernels.cosine import Cosine as Cosine
from ccl_plugins.kernels.laplacian import Laplacian as Laplacian
from ccl_plugins.kernels.linear import Linear as Linear
from ccl_plugins.kernels.polynomial import Polynomial as Polynomial
from ccl_plugins.kernels.rbf import RBF as RBF
