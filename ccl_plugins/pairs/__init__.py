"""Pairs: which embeddings are compared, and what is known of each sample; no loss, no network."""

from ccl_plugins.pairs.pairs import Pairs as Pairs
from ccl_plugins.pairs.pairs import in_batch as in_batch
from ccl_plugins.pairs.samples import Samples as Samples
