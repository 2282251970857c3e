"""Objectives: losses on pairs of embeddings, one file each; no networks, no queues, no data sets.

``ccl list objective`` prints a line on each.
"""

from ccl_plugins.objectives.align_uniform import AlignUniform as AlignUniform
from ccl_plugins.objectives.base import ContrastiveObjective as ContrastiveObjective
from ccl_plugins.objectives.base import Exclude as Exclude
from ccl_plugins.objectives.cacr import CACR as CACR
from ccl_plugins.objectives.cacr_moco_v3 import CACRMoCoV3 as CACRMoCoV3
from ccl_plugins.objectives.cclk import FairCCLK as FairCCLK
from ccl_plugins.objectives.cclk import HardNegCCLK as HardNegCCLK
from ccl_plugins.objectives.cclk import WeaklySupCCLK as WeaklySupCCLK
from ccl_plugins.objectives.classification import Classification as Classification
from ccl_plugins.objectives.cluster_cross_entropy import ClusterCrossEntropy as ClusterCrossEntropy
from ccl_plugins.objectives.distillation import Distillation as Distillation
from ccl_plugins.objectives.guide import Guide as Guide
from ccl_plugins.objectives.guide_head import GuideHead as GuideHead
from ccl_plugins.objectives.guided import Guided as Guided
from ccl_plugins.objectives.hsic import HSIC as HSIC
from ccl_plugins.objectives.infonce import CMC as CMC
from ccl_plugins.objectives.infonce import FairInfoNCE as FairInfoNCE
from ccl_plugins.objectives.infonce import HardNegInfoNCE as HardNegInfoNCE
from ccl_plugins.objectives.infonce import InfoNCE as InfoNCE
from ccl_plugins.objectives.infonce import NTXent as NTXent
from ccl_plugins.objectives.infonce import WeaklySupInfoNCE as WeaklySupInfoNCE
from ccl_plugins.objectives.koleo import KoLeo as KoLeo
from ccl_plugins.objectives.lightly import Lightly as Lightly
from ccl_plugins.objectives.mixture import Mixture as Mixture
from ccl_plugins.objectives.prototypes import Prototypes as Prototypes
from ccl_plugins.objectives.regression import Regression as Regression
from ccl_plugins.objectives.scalars import Scalar as Scalar
from ccl_plugins.objectives.scalars import ScalarAttribute as ScalarAttribute
from ccl_plugins.objectives.scalars import count_epochs as count_epochs
from ccl_plugins.objectives.self_distillation import DINOLoss as DINOLoss
from ccl_plugins.objectives.self_distillation import IBOTLoss as IBOTLoss
from ccl_plugins.objectives.soft_infonce import SoftInfoNCE as SoftInfoNCE
from ccl_plugins.objectives.supcon import ClInfoNCE as ClInfoNCE
from ccl_plugins.objectives.supcon import SupCon as SupCon
from ccl_plugins.objectives.ucl import HCL as HCL
from ccl_plugins.objectives.ucl import HSCL as HSCL
from ccl_plugins.objectives.ucl import HUCL as HUCL
from ccl_plugins.objectives.ucl import SCL as SCL
from ccl_plugins.objectives.ucl import UCL as UCL
from ccl_plugins.objectives.ucl import Debiased as Debiased

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
