"""Training: the step, Lightning's loops around it, the tables of conditions and the order of samples.

Lightning is imported when a run starts, not here.
"""

from ccl_plugins.training.features import frozen_features as frozen_features
from ccl_plugins.training.fitting import CannotBegin as CannotBegin
from ccl_plugins.training.fitting import FitResult as FitResult
from ccl_plugins.training.fitting import fit as fit
from ccl_plugins.training.parts import Parts as Parts
from ccl_plugins.training.resume_point import ResumePoint as ResumePoint
from ccl_plugins.training.same_data import OtherData as OtherData
from ccl_plugins.training.same_data import fingerprint as fingerprint
from ccl_plugins.training.settings import FitSettings as FitSettings
