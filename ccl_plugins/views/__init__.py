"""Views: the augmentations of an image, one file each; no data sets, no batches."""

from ccl_plugins.views.byol import BYOLViews as BYOLViews
from ccl_plugins.views.column import ColumnViews as ColumnViews
from ccl_plugins.views.lightly_views import LightlyViews as LightlyViews
from ccl_plugins.views.moco_v2 import MoCoV2Views as MoCoV2Views
from ccl_plugins.views.modalities import Modalities as Modalities
from ccl_plugins.views.multi import MultiViews as MultiViews
from ccl_plugins.views.noise import NoiseViews as NoiseViews
from ccl_plugins.views.simclr import SimCLRViews as SimCLRViews
from ccl_plugins.views.tokens import TokenViews as TokenViews
