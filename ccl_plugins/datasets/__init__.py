"""Data sets: images with a table of metadata, one file each; no augmentations, no batches."""

from ccl_plugins.datasets.annotated import Annotated as Annotated
from ccl_plugins.datasets.annotated import InMemory as InMemory
from ccl_plugins.datasets.color_digits import ColorDigits as ColorDigits
from ccl_plugins.datasets.color_mnist import ColorMNIST as ColorMNIST
from ccl_plugins.datasets.features import Features as Features
from ccl_plugins.datasets.fonts import Fonts as Fonts
from ccl_plugins.datasets.grating_digits import GratingDigits as GratingDigits
from ccl_plugins.datasets.hf import HuggingFace as HuggingFace
from ccl_plugins.datasets.image_folder import ImageFolder as ImageFolder
from ccl_plugins.datasets.image_table import ImageTable as ImageTable
from ccl_plugins.datasets.mixed import Mixed as Mixed
from ccl_plugins.datasets.plates import Plates as Plates
from ccl_plugins.datasets.sprites import Sprites as Sprites
from ccl_plugins.datasets.subset import Subset as Subset
from ccl_plugins.datasets.torch import TorchDataset as TorchDataset
from ccl_plugins.datasets.torchvision import TorchVision as TorchVision

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
