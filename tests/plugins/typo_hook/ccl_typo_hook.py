"""A plug-in with a misspelt hook."""

from ccl_plugins import hookimpl


@hookimpl
def ccl_pipelin_built(pipeline):
    raise AssertionError("never called")
