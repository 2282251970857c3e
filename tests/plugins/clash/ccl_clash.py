"""A plug-in whose names are taken: one by a built-in, one by another plug-in."""


class Rival:
    """A kernel of another author."""
