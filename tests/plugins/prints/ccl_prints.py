"""A hooks module that greets whoever imports it."""

from ccl_plugins import ComponentSpec, hookimpl

print("Welcome to ccl-prints!")


@hookimpl
def ccl_components():
    print("here is a component")
    yield ComponentSpec("kernel", "louder", "ccl_prints_kernel:Loud")
