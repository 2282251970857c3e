"""Prototypical contrastive learning for ccl-plugins: clusters' centroids as prototypes."""

from ccl_prototypes.proto_nce import ProtoNCE as ProtoNCE
