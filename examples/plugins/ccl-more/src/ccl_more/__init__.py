"""More objectives from the literature, for ccl-plugins."""

from ccl_more.accon import ACCon as ACCon
from ccl_more.balanced_contrastive import BalancedContrastive as BalancedContrastive
from ccl_more.decoupled import DCL as DCL
from ccl_more.decoupled import DHEL as DHEL
from ccl_more.decoupled_uniformity import DecoupledUniformity as DecoupledUniformity
from ccl_more.eps_sup_infonce import EpsSupInfoNCE as EpsSupInfoNCE
from ccl_more.fair_kl import FairKL as FairKL
from ccl_more.fare import FARE as FARE
from ccl_more.fscl import FSCL as FSCL
from ccl_more.gca import GCA as GCA
from ccl_more.hmlc import HMLC as HMLC
from ccl_more.isogclr import ISogCLR as ISogCLR
from ccl_more.kcl import KCL as KCL
from ccl_more.mul_sup_con import MulSupCon as MulSupCon
from ccl_more.paco import PaCo as PaCo
from ccl_more.rank_n_contrast import RankNContrast as RankNContrast
from ccl_more.siglip import SigLIP as SigLIP
from ccl_more.sogclr import SogCLR as SogCLR
from ccl_more.supremix import SupReMix as SupReMix
from ccl_more.tsc import TSC as TSC
