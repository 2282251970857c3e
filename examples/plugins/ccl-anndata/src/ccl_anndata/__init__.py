"""Single cells in AnnData files, for ccl-plugins."""

# The command reads this file, and its help must not wait for torch: data set and transform are not here.
from ccl_anndata.obsm import write_obsm as write_obsm
