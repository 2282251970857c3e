"""Objectives: losses on pairs of embeddings, one file each; no networks, no queues, no data sets."""

from ccl_plugins.objectives.align_uniform import AlignUniform as AlignUniform
from ccl_plugins.objectives.base import ContrastiveObjective as ContrastiveObjective
from ccl_plugins.objectives.base import Exclude as Exclude
from ccl_plugins.objectives.cacr import CACR as CACR
from ccl_plugins.objectives.cacr_moco_v3 import CACRMoCoV3 as CACRMoCoV3
from ccl_plugins.objectives.cl_infonce import ClInfoNCE as ClInfoNCE
from ccl_plugins.objectives.cluster_cross_entropy import ClusterCrossEntropy as ClusterCrossEntropy
from ccl_plugins.objectives.cmc import CMC as CMC
from ccl_plugins.objectives.fair_cclk import FairCCLK as FairCCLK
from ccl_plugins.objectives.fair_infonce import FairInfoNCE as FairInfoNCE
from ccl_plugins.objectives.hardneg_cclk import HardNegCCLK as HardNegCCLK
from ccl_plugins.objectives.hardneg_infonce import HardNegInfoNCE as HardNegInfoNCE
from ccl_plugins.objectives.hcl import HCL as HCL
from ccl_plugins.objectives.hscl import HSCL as HSCL
from ccl_plugins.objectives.hucl import HUCL as HUCL
from ccl_plugins.objectives.infonce import InfoNCE as InfoNCE
from ccl_plugins.objectives.mixture import Mixture as Mixture
from ccl_plugins.objectives.nt_xent import NTXent as NTXent
from ccl_plugins.objectives.scalars import Scalar as Scalar
from ccl_plugins.objectives.scalars import ScalarAttribute as ScalarAttribute
from ccl_plugins.objectives.scl import SCL as SCL
from ccl_plugins.objectives.soft_infonce import SoftInfoNCE as SoftInfoNCE
from ccl_plugins.objectives.supcon import SupCon as SupCon
from ccl_plugins.objectives.ucl import UCL as UCL
from ccl_plugins.objectives.weaklysup_cclk import WeaklySupCCLK as WeaklySupCCLK
from ccl_plugins.objectives.weaklysup_infonce import WeaklySupInfoNCE as WeaklySupInfoNCE
