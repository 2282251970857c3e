"""Pairs: which embeddings are compared, and what is known of each sample; no loss and no network."""

from ccl_plugins.pairs.pairs import Pairs as Pairs
from ccl_plugins.pairs.pairs import in_batch as in_batch
