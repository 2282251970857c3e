"""The contract of each kind of component: signatures, shapes and laws; a file for each kind.

A component is an ordinary class, and need not inherit from anything here. Required members are in
its kind's protocol, such as `Kernel`; optional members are in its kind's traits, such as
`KernelTraits`, and `trait` reads one. A constructor parameter hinted with one of these protocols
takes a component of that kind.

Letters: ``n`` anchors, ``m`` keys, ``d`` embedding, ``f`` features, ``c`` condition, ``u`` and ``v`` views
of anchors and keys, ``q`` queue, ``N`` samples of a data set.
"""

from ccl_plugins.protocols.backbone import Backbone as Backbone
from ccl_plugins.protocols.backbone import BackboneTraits as BackboneTraits
from ccl_plugins.protocols.command import Command as Command
from ccl_plugins.protocols.command import CommandTraits as CommandTraits
from ccl_plugins.protocols.condition import VALUE_TYPES as VALUE_TYPES
from ccl_plugins.protocols.condition import BatchCondition as BatchCondition
from ccl_plugins.protocols.condition import Condition as Condition
from ccl_plugins.protocols.condition import ConditionTraits as ConditionTraits
from ccl_plugins.protocols.condition import Embedder as Embedder
from ccl_plugins.protocols.condition import FittedCondition as FittedCondition
from ccl_plugins.protocols.condition import LookUp as LookUp
from ccl_plugins.protocols.condition import Missing as Missing
from ccl_plugins.protocols.condition import ReadsEmbeddings as ReadsEmbeddings
from ccl_plugins.protocols.condition import Refresh as Refresh
from ccl_plugins.protocols.condition import SeveralVariables as SeveralVariables
from ccl_plugins.protocols.condition import Table as Table
from ccl_plugins.protocols.condition import ValueType as ValueType
from ccl_plugins.protocols.dataset import Dataset as Dataset
from ccl_plugins.protocols.dataset import DatasetTraits as DatasetTraits
from ccl_plugins.protocols.embedded import Embedded as Embedded
from ccl_plugins.protocols.evaluator import Direction as Direction
from ccl_plugins.protocols.evaluator import Evaluator as Evaluator
from ccl_plugins.protocols.evaluator import EvaluatorTraits as EvaluatorTraits
from ccl_plugins.protocols.evaluator import Frozen as Frozen
from ccl_plugins.protocols.evaluator import Images as Images
from ccl_plugins.protocols.evaluator import Measurement as Measurement
from ccl_plugins.protocols.evaluator import Role as Role
from ccl_plugins.protocols.evaluator import Towers as Towers
from ccl_plugins.protocols.evaluator import UndefinedMetric as UndefinedMetric
from ccl_plugins.protocols.figure import DoesNotApply as DoesNotApply
from ccl_plugins.protocols.figure import Figure as Figure
from ccl_plugins.protocols.figure import FigureTraits as FigureTraits
from ccl_plugins.protocols.kernel import Kernel as Kernel
from ccl_plugins.protocols.kernel import KernelTraits as KernelTraits
from ccl_plugins.protocols.logger import Logger as Logger
from ccl_plugins.protocols.logger import LoggerTraits as LoggerTraits
from ccl_plugins.protocols.method import Masking as Masking
from ccl_plugins.protocols.method import Method as Method
from ccl_plugins.protocols.method import MethodTraits as MethodTraits
from ccl_plugins.protocols.objective import Objective as Objective
from ccl_plugins.protocols.objective import ObjectiveTraits as ObjectiveTraits
from ccl_plugins.protocols.objective import Sizes as Sizes
from ccl_plugins.protocols.optimizer import Optimizer as Optimizer
from ccl_plugins.protocols.pipeline import ComposedPipeline as ComposedPipeline
from ccl_plugins.protocols.sampler import Sampler as Sampler
from ccl_plugins.protocols.sampler import SamplerTraits as SamplerTraits
from ccl_plugins.protocols.schedule import Length as Length
from ccl_plugins.protocols.schedule import Schedule as Schedule
from ccl_plugins.protocols.traits import TRAITS as TRAITS
from ccl_plugins.protocols.traits import trait as trait
from ccl_plugins.protocols.transform import Transform as Transform
from ccl_plugins.protocols.transform import TransformTraits as TransformTraits

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
