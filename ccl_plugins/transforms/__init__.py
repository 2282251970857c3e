"""Views: the augmentations of an image, one file each; no data sets, no batches."""

from ccl_plugins.transforms.batched import uniforms as uniforms
from ccl_plugins.transforms.byol import BYOLTransform as BYOLTransform
from ccl_plugins.transforms.column import ColumnTransform as ColumnTransform
from ccl_plugins.transforms.dino import DINOTransform as DINOTransform
from ccl_plugins.transforms.lightly import LightlyTransform as LightlyTransform
from ccl_plugins.transforms.moco_v2 import MoCoV2Transform as MoCoV2Transform
from ccl_plugins.transforms.modalities import Modalities as Modalities
from ccl_plugins.transforms.multi import MultiTransform as MultiTransform
from ccl_plugins.transforms.noise import NoiseTransform as NoiseTransform
from ccl_plugins.transforms.simclr import SimCLRTransform as SimCLRTransform
from ccl_plugins.transforms.tokens import TokenTransform as TokenTransform

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
