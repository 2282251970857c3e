"""More objectives from the literature, for ccl-plugins."""

from ccl_more.balanced_contrastive import BalancedContrastive as BalancedContrastive
from ccl_more.decoupled_uniformity import DecoupledUniformity as DecoupledUniformity
from ccl_more.eps_sup_infonce import EpsSupInfoNCE as EpsSupInfoNCE
from ccl_more.fare import FARE as FARE
from ccl_more.fscl import FSCL as FSCL
from ccl_more.mul_sup_con import MulSupCon as MulSupCon
from ccl_more.rank_n_contrast import RankNContrast as RankNContrast
from ccl_more.siglip import SigLIP as SigLIP
from ccl_more.sogclr import SogCLR as SogCLR
