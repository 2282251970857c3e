"""The backbones: from images to features."""

from ccl_plugins.backbones.lenet5 import LeNet5 as LeNet5
from ccl_plugins.backbones.mlp import MLP as MLP
from ccl_plugins.backbones.timm import Timm as Timm
