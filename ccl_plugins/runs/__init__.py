"""Runs: a folder that a pipeline is trained into, read back, evaluated, exported and pictured."""

from ccl_plugins.files.lock import FolderInUse as FolderInUse
from ccl_plugins.runs import figures as figures
from ccl_plugins.runs.layout import Layout as Layout
from ccl_plugins.runs.pipeline import Pipeline as Pipeline
from ccl_plugins.runs.pipeline import Run as Run
from ccl_plugins.runs.pipeline import load as load
from ccl_plugins.runs.train import RunExists as RunExists
from ccl_plugins.runs.train import RunInterrupted as RunInterrupted
