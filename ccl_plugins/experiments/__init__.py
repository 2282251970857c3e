"""Experiments: compose a pipeline, check it, train it into a folder, read the run back, compare."""

from ccl_plugins.experiments.composition import Composition as Composition
from ccl_plugins.experiments.curves import curves as curves
from ccl_plugins.experiments.learning_rates import LearningRates as LearningRates
from ccl_plugins.experiments.pipeline import Pipeline as Pipeline
from ccl_plugins.experiments.pipeline import Run as Run
from ccl_plugins.experiments.pipeline import load as load
from ccl_plugins.experiments.results import Group as Group
from ccl_plugins.experiments.results import Paired as Paired
from ccl_plugins.experiments.results import Result as Result
from ccl_plugins.experiments.results import compare_results as compare_results
from ccl_plugins.experiments.results import groups_of as groups_of
from ccl_plugins.experiments.results import judged_by as judged_by
from ccl_plugins.experiments.results import paired as paired
from ccl_plugins.experiments.results import result_of as result_of
from ccl_plugins.experiments.results import spread as spread
from ccl_plugins.experiments.train import RunExists as RunExists
from ccl_plugins.experiments.train import RunInterrupted as RunInterrupted
from ccl_plugins.files.lock import FolderInUse as FolderInUse
from ccl_plugins.files.run_folder import RunFolder as RunFolder

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
