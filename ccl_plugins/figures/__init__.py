"""Figures of runs.  Each function returns a matplotlib figure; `save` writes it as SVG and PNG."""

from ccl_plugins.figures.anchors import anchor as anchor
from ccl_plugins.figures.charts import bars as bars
from ccl_plugins.figures.charts import curves as curves
from ccl_plugins.figures.charts import information_plane as information_plane
from ccl_plugins.figures.charts import kept_and_leaked as kept_and_leaked
from ccl_plugins.figures.maps import embedding_map as embedding_map
from ccl_plugins.figures.matrices import kernel_matrix as kernel_matrix
from ccl_plugins.figures.matrices import similarity as similarity
from ccl_plugins.figures.style import save as save
from ccl_plugins.figures.style import svg as svg
