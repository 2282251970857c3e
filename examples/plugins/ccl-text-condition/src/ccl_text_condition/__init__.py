"""Captions and tags of images as conditioning variable, for ccl-plugins."""

from ccl_text_condition.hashing import Hashing as Hashing
from ccl_text_condition.text import Text as Text
