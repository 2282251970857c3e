"""Pairs: the embeddings to compare, the facts about their samples, and the queue."""

from ccl_plugins.pairs.pairs import Pairs as Pairs
from ccl_plugins.pairs.pairs import in_batch as in_batch
from ccl_plugins.pairs.pairs import with_keys as with_keys
from ccl_plugins.pairs.patches import Masks as Masks
from ccl_plugins.pairs.patches import PatchScores as PatchScores
from ccl_plugins.pairs.queue import Queue as Queue
from ccl_plugins.pairs.samples import Samples as Samples

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
