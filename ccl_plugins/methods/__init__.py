"""The methods: lightly-style models that turn views into pairs; not objectives, not training."""

from ccl_plugins.methods.byol import BYOL as BYOL
from ccl_plugins.methods.dino import DINO as DINO
from ccl_plugins.methods.dual import Dual as Dual
from ccl_plugins.methods.feature_queue import FeatureQueue as FeatureQueue
from ccl_plugins.methods.feature_queue import QueuedLoss as QueuedLoss
from ccl_plugins.methods.feature_queue import WithQueue as WithQueue
from ccl_plugins.methods.heads import mlp_head as mlp_head
from ccl_plugins.methods.ibot import IBOT as IBOT
from ccl_plugins.methods.moco_v2 import MoCoV2 as MoCoV2
from ccl_plugins.methods.moco_v3 import MoCoV3 as MoCoV3
from ccl_plugins.methods.momentum import MomentumEncoder as MomentumEncoder
from ccl_plugins.methods.simclr import SimCLR as SimCLR
from ccl_plugins.methods.simsiam import SimSiam as SimSiam

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
