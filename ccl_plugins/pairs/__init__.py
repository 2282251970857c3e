"""Pairs: the embeddings to compare, with the conditions and the index of each sample."""

from ccl_plugins.pairs.pairs import Pairs as Pairs
from ccl_plugins.pairs.pairs import in_batch as in_batch
from ccl_plugins.pairs.pairs import with_keys as with_keys
