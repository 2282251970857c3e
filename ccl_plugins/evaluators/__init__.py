"""Evaluators: measurements on frozen features, one file each; only `FineTune` trains a network."""

from ccl_plugins.evaluators.alignment import Alignment as Alignment
from ccl_plugins.evaluators.cka import CKA as CKA
from ccl_plugins.evaluators.clustering import Clustering as Clustering
from ccl_plugins.evaluators.columns import of_known_classes as of_known_classes
from ccl_plugins.evaluators.columns import of_present_samples as of_present_samples
from ccl_plugins.evaluators.conditional_entropy import ConditionalEntropy as ConditionalEntropy
from ccl_plugins.evaluators.cross_retrieval import CrossRetrieval as CrossRetrieval
from ccl_plugins.evaluators.dependence import Dependence as Dependence
from ccl_plugins.evaluators.elsewhere import Elsewhere as Elsewhere
from ccl_plugins.evaluators.fairness import Fairness as Fairness
from ccl_plugins.evaluators.few_shot import FewShot as FewShot
from ccl_plugins.evaluators.fine_tune import FineTune as FineTune
from ccl_plugins.evaluators.gradient_probes import LinearAdam as LinearAdam
from ccl_plugins.evaluators.gradient_probes import LinearSGD as LinearSGD
from ccl_plugins.evaluators.held import Held as Held
from ccl_plugins.evaluators.intervals import estimate as estimate
from ccl_plugins.evaluators.intervals import mean as mean
from ccl_plugins.evaluators.intervals import over_rows as over_rows
from ccl_plugins.evaluators.knn import KNN as KNN
from ccl_plugins.evaluators.linear import LinearProbe as LinearProbe
from ccl_plugins.evaluators.mixing import Mixing as Mixing
from ccl_plugins.evaluators.mlp import MLP as MLP
from ccl_plugins.evaluators.multi_label import MultiLabel as MultiLabel
from ccl_plugins.evaluators.rankme import RankMe as RankMe
from ccl_plugins.evaluators.regression import Regression as Regression
from ccl_plugins.evaluators.retrieval import Retrieval as Retrieval
from ccl_plugins.evaluators.uniformity import Uniformity as Uniformity
from ccl_plugins.evaluators.zero_shot import ZeroShot as ZeroShot

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
