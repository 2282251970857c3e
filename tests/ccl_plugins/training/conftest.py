"""Puts this folder's ``training_fakes`` on the path, which pytest's importlib mode does not do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
