"""What each kind of component must satisfy: signatures, shapes and laws; a file for each kind.

A component is an ordinary class, and need not inherit from anything here.  A constructor parameter
hinted with one of these protocols takes a component of that kind.

Letters: ``n`` anchors, ``m`` keys, ``d`` embedding, ``f`` features, ``c`` condition, ``u`` and ``v`` views
of anchors and keys, ``q`` queue, ``N`` samples of a data set.
"""

from ccl_plugins.numerics.kernel_functions import SupportsFeatures as SupportsFeatures
from ccl_plugins.numerics.kernel_functions import SupportsOneHot as SupportsOneHot
from ccl_plugins.numerics.kernel_functions import SupportsRadial as SupportsRadial
from ccl_plugins.numerics.kernel_functions import SupportsRank as SupportsRank
from ccl_plugins.protocols.backbone import Backbone as Backbone
from ccl_plugins.protocols.backbone import SupportsImageSize as SupportsImageSize
from ccl_plugins.protocols.backbone import SupportsLayerNumbers as SupportsLayerNumbers
from ccl_plugins.protocols.backbone import SupportsNoWeightDecay as SupportsNoWeightDecay
from ccl_plugins.protocols.backbone import SupportsTokens as SupportsTokens
from ccl_plugins.protocols.condition import VALUE_TYPES as VALUE_TYPES
from ccl_plugins.protocols.condition import BatchCondition as BatchCondition
from ccl_plugins.protocols.condition import Condition as Condition
from ccl_plugins.protocols.condition import FittedCondition as FittedCondition
from ccl_plugins.protocols.condition import LookUp as LookUp
from ccl_plugins.protocols.condition import Missing as Missing
from ccl_plugins.protocols.condition import ReadsEmbeddings as ReadsEmbeddings
from ccl_plugins.protocols.condition import Refresh as Refresh
from ccl_plugins.protocols.condition import SeveralVariables as SeveralVariables
from ccl_plugins.protocols.condition import SupportsHierarchy as SupportsHierarchy
from ccl_plugins.protocols.condition import SupportsMissing as SupportsMissing
from ccl_plugins.protocols.condition import SupportsReadsEmbeddings as SupportsReadsEmbeddings
from ccl_plugins.protocols.condition import SupportsWithinBatch as SupportsWithinBatch
from ccl_plugins.protocols.condition import Table as Table
from ccl_plugins.protocols.condition import ValueType as ValueType
from ccl_plugins.protocols.dataset import Dataset as Dataset
from ccl_plugins.protocols.dataset import SupportsTexts as SupportsTexts
from ccl_plugins.protocols.embedded import Embedded as Embedded
from ccl_plugins.protocols.evaluator import Direction as Direction
from ccl_plugins.protocols.evaluator import Evaluator as Evaluator
from ccl_plugins.protocols.evaluator import Frozen as Frozen
from ccl_plugins.protocols.evaluator import Images as Images
from ccl_plugins.protocols.evaluator import Measurement as Measurement
from ccl_plugins.protocols.evaluator import Role as Role
from ccl_plugins.protocols.evaluator import SupportsColumns as SupportsColumns
from ccl_plugins.protocols.evaluator import SupportsReadsTowers as SupportsReadsTowers
from ccl_plugins.protocols.evaluator import Towers as Towers
from ccl_plugins.protocols.evaluator import UndefinedMetric as UndefinedMetric
from ccl_plugins.protocols.figure import DoesNotApply as DoesNotApply
from ccl_plugins.protocols.figure import Figure as Figure
from ccl_plugins.protocols.kernel import Kernel as Kernel
from ccl_plugins.protocols.method import Method as Method
from ccl_plugins.protocols.method import SupportsBatchCheck as SupportsBatchCheck
from ccl_plugins.protocols.method import SupportsConditions as SupportsConditions
from ccl_plugins.protocols.method import SupportsKeepStatistics as SupportsKeepStatistics
from ccl_plugins.protocols.method import SupportsKeys as SupportsKeys
from ccl_plugins.protocols.method import SupportsReadConditions as SupportsReadConditions
from ccl_plugins.protocols.method import SupportsTowers as SupportsTowers
from ccl_plugins.protocols.objective import Objective as Objective
from ccl_plugins.protocols.objective import Sizes as Sizes
from ccl_plugins.protocols.objective import StopsGradient as StopsGradient
from ccl_plugins.protocols.objective import SupportsAfterStep as SupportsAfterStep
from ccl_plugins.protocols.objective import SupportsCheckRead as SupportsCheckRead
from ccl_plugins.protocols.objective import SupportsCompiles as SupportsCompiles
from ccl_plugins.protocols.objective import SupportsHierarchies as SupportsHierarchies
from ccl_plugins.protocols.objective import SupportsProgress as SupportsProgress
from ccl_plugins.protocols.objective import SupportsReadsFeatures as SupportsReadsFeatures
from ccl_plugins.protocols.objective import SupportsReadsQueue as SupportsReadsQueue
from ccl_plugins.protocols.objective import SupportsScalars as SupportsScalars
from ccl_plugins.protocols.objective import SupportsSetup as SupportsSetup
from ccl_plugins.protocols.objective import SupportsStatistics as SupportsStatistics
from ccl_plugins.protocols.pipeline import ComposedPipeline as ComposedPipeline
from ccl_plugins.protocols.sampler import Sampler as Sampler
from ccl_plugins.protocols.transform import SupportsCheckValues as SupportsCheckValues
from ccl_plugins.protocols.transform import SupportsFingerprint as SupportsFingerprint
from ccl_plugins.protocols.transform import SupportsModalities as SupportsModalities
from ccl_plugins.protocols.transform import SupportsSource as SupportsSource
from ccl_plugins.protocols.transform import SupportsTransforms as SupportsTransforms
from ccl_plugins.protocols.transform import Transform as Transform
