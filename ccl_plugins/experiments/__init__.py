"""Experiments: compose a pipeline, check it, train it into a folder, read the run back, compare, sweep."""

from ccl_plugins.experiments.composition import Composition as Composition
from ccl_plugins.experiments.layout import Layout as Layout
from ccl_plugins.experiments.pipeline import Pipeline as Pipeline
from ccl_plugins.experiments.pipeline import Run as Run
from ccl_plugins.experiments.pipeline import load as load
from ccl_plugins.experiments.train import RunExists as RunExists
from ccl_plugins.experiments.train import RunInterrupted as RunInterrupted
from ccl_plugins.files.lock import FolderInUse as FolderInUse
