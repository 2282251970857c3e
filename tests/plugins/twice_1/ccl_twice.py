"""One of two versions of a plug-in that are installed at once."""


class Copied:
    """A kernel of version 1."""

    positive_definite = True

    def __call__(self, a, b):
        return a @ b.T
