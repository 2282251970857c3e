"""Prototypical contrastive learning for ccl-plugins: prototypes are centroids of clusters."""

from ccl_prototypes.proto_nce import ProtoNCE as ProtoNCE
