"""Figures of runs; `save` writes a figure as SVG and PNG."""

from ccl_plugins.figures.anchor import Anchor as Anchor
from ccl_plugins.figures.bars import Bars as Bars
from ccl_plugins.figures.curves import Curves as Curves
from ccl_plugins.figures.embedding_map import EmbeddingMap as EmbeddingMap
from ccl_plugins.figures.information_plane import InformationPlane as InformationPlane
from ccl_plugins.figures.kept_and_leaked import KeptAndLeaked as KeptAndLeaked
from ccl_plugins.figures.kernel_matrix import KernelMatrix as KernelMatrix
from ccl_plugins.figures.patches import Patches as Patches
from ccl_plugins.figures.similarity import Similarity as Similarity
from ccl_plugins.figures.style import figure as figure
from ccl_plugins.figures.style import save as save
from ccl_plugins.figures.style import styled as styled
from ccl_plugins.figures.style import svg as svg

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
