"""Conditions: the conditioning variables, one file each; comparing their values is left to kernels."""

from ccl_plugins.conditions.attributes import Attributes as Attributes
from ccl_plugins.conditions.clip import CLIP as CLIP
from ccl_plugins.conditions.clusters import Clusters as Clusters
from ccl_plugins.conditions.column import Column as Column
from ccl_plugins.conditions.embedding import Embedding as Embedding
from ccl_plugins.conditions.encoder import Encoder as Encoder
from ccl_plugins.conditions.instance import Instance as Instance
from ccl_plugins.conditions.label import Label as Label
from ccl_plugins.conditions.original import Original as Original
from ccl_plugins.conditions.saved import Saved as Saved
from ccl_plugins.conditions.shuffled import Shuffled as Shuffled
from ccl_plugins.conditions.synthetic import Synthetic as Synthetic
from ccl_plugins.conditions.wordnet import WordNet as WordNet

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
