"""A plug-in written for a version that is not installed."""


class Tomorrow:
    """A kernel of the future."""
