"""A hooks module that ends the program, as a script without a main guard does."""

import sys

sys.exit("usage: ccl_exits FILE")
