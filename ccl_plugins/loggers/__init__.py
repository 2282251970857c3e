"""Loggers: where the numbers of a run go, one file each.

Lightning and the services are imported when a run begins, not here.
"""

from ccl_plugins.loggers.csv import CSV as CSV
from ccl_plugins.loggers.mlflow import MLflow as MLflow
from ccl_plugins.loggers.tensorboard import TensorBoard as TensorBoard
from ccl_plugins.loggers.wandb import WandB as WandB

# No modules: `import *` must not hide a package of the same name, such as timm.
__all__ = [n for n, each in vars().items() if n[0] != "_" and not hasattr(each, "__spec__")]
