"""The objectives: what each pair of samples counts for."""

from ccl_plugins.objectives.base import ContrastiveObjective as ContrastiveObjective
from ccl_plugins.objectives.fair_cclk import FairCCLK as FairCCLK
from ccl_plugins.objectives.hardneg_cclk import HardNegCCLK as HardNegCCLK
from ccl_plugins.objectives.infonce import InfoNCE as InfoNCE
from ccl_plugins.objectives.weaklysup_cclk import WeaklySupCCLK as WeaklySupCCLK
