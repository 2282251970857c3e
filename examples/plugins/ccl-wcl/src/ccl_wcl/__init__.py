"""Weakly supervised contrastive learning for ccl-plugins: nearest neighbors in the batch give weak labels."""

from ccl_wcl.neighbor_graph import NeighborGraph as NeighborGraph
from ccl_wcl.wcl import WCL as WCL
