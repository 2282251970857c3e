"""Prototypical and clustering objectives for ccl-plugins: PCL, SwAV and IDFD."""

from ccl_prototypes.idfd import IDFD as IDFD
from ccl_prototypes.proto_nce import ProtoNCE as ProtoNCE
from ccl_prototypes.queued_simclr import QueuedSimCLR as QueuedSimCLR
from ccl_prototypes.swav import SwAV as SwAV
