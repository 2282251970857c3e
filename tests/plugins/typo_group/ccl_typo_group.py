"""A plug-in with a misspelt group and a name that is none."""


class Lost:
    """A kernel."""
