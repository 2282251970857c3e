"""Weakly supervised contrastive learning for ccl-plugins: neighbors in a batch as weak labels."""

from ccl_wcl.neighbor_graph import NeighborGraph as NeighborGraph
from ccl_wcl.wcl import WCL as WCL
