"""Kernels: similarities of condition values, one file each; no images, no embeddings."""

from ccl_plugins.kernels.cosine import Cosine as Cosine
from ccl_plugins.kernels.delta import Delta as Delta
from ccl_plugins.kernels.jaccard import Jaccard as Jaccard
from ccl_plugins.kernels.laplacian import Laplacian as Laplacian
from ccl_plugins.kernels.linear import Linear as Linear
from ccl_plugins.kernels.polynomial import Polynomial as Polynomial
from ccl_plugins.kernels.precomputed import Precomputed as Precomputed
from ccl_plugins.kernels.product import Product as Product
from ccl_plugins.kernels.rbf import RBF as RBF
from ccl_plugins.kernels.sum import Sum as Sum

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
