"""What goes wrong in runs: one file for each symptom, and the table of all."""

from ccl_plugins.watching.symptoms.batches_of_one_class import BatchesOfOneClass
from ccl_plugins.watching.symptoms.collapse import Collapse
from ccl_plugins.watching.symptoms.conditions import UnfitCondition
from ccl_plugins.watching.symptoms.kernel import BlindKernel
from ccl_plugins.watching.symptoms.keys import OldKeys
from ccl_plugins.watching.symptoms.line import Line
from ccl_plugins.watching.symptoms.rising_loss import RisingLoss
from ccl_plugins.watching.symptoms.symptom import Symptom
from ccl_plugins.watching.symptoms.temperature import WrongTemperature
from ccl_plugins.watching.symptoms.unmoved_loss import UnmovedLoss

SYMPTOMS: tuple[type[Symptom], ...] = (
    WrongTemperature,
    UnfitCondition,
    OldKeys,
    BlindKernel,
    BatchesOfOneClass,
    Collapse,
    Line,
    RisingLoss,
    UnmovedLoss,
)
"""Those that every run looks for, in the order in which they are looked for: causes before what follows."""
