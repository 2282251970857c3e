"""A hooks module that greets whoever imports it."""

import os

from ccl_plugins import ComponentSpec, hookimpl

os.write(1, b"Welcome from C!\n")
print("Welcome to ccl-prints!")


@hookimpl
def ccl_components():
    print("here is a component")
    yield ComponentSpec("kernel", "louder", "ccl_prints_kernel:Loud")
