"""Backbones: networks from images to features, one file each; no heads, no losses."""

from ccl_plugins.backbones.lenet5 import LeNet5 as LeNet5
from ccl_plugins.backbones.lora import LoRA as LoRA
from ccl_plugins.backbones.mlp import MLP as MLP
from ccl_plugins.backbones.small_alexnet import SmallAlexNet as SmallAlexNet
from ccl_plugins.backbones.text_transformer import TextTransformer as TextTransformer
from ccl_plugins.backbones.timm import Timm as Timm
from ccl_plugins.backbones.vit_moco_v3 import ViTMoCoV3 as ViTMoCoV3

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
