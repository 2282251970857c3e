"""Mathematics on tensors that several components share, independent of pairs and components."""

from ccl_plugins.numerics.condition_values import as_vectors as as_vectors
from ccl_plugins.numerics.condition_values import equal as equal
from ccl_plugins.numerics.condition_values import inner as inner
from ccl_plugins.numerics.condition_values import squared_distance as squared_distance
from ccl_plugins.numerics.condition_values import squared_norm as squared_norm
from ccl_plugins.numerics.conditional_operator import conditional_columns as conditional_columns
from ccl_plugins.numerics.conditional_operator import conditional_operator as conditional_operator
from ccl_plugins.numerics.distributed import gather as gather
from ccl_plugins.numerics.gram import RunningGram as RunningGram
from ccl_plugins.numerics.logsumexp import EMPTY as EMPTY
from ccl_plugins.numerics.logsumexp import log_weights as log_weights
from ccl_plugins.numerics.logsumexp import logsumexp as logsumexp
from ccl_plugins.numerics.logsumexp import logsumexp_blocks as logsumexp_blocks
from ccl_plugins.numerics.logsumexp import masked as masked
from ccl_plugins.numerics.precision import at_least_float32 as at_least_float32
from ccl_plugins.numerics.second_derivatives import differentiable_once as differentiable_once
from ccl_plugins.numerics.sinkhorn import sinkhorn as sinkhorn
from ccl_plugins.numerics.streaming import queue_logsumexp as queue_logsumexp

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
