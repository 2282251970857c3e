"""The requirements of distributions, compared with installed ones; read from metadata without imports."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata


def version_of(distribution: str) -> str:
    """The version of a distribution; empty if it is not installed, or if metadata lack a version."""
    try:
        return metadata.version(distribution) or ""
    except (metadata.PackageNotFoundError, KeyError, UnicodeDecodeError):
        return ""


def unmet(distribution: str, of: str = "") -> Iterator[str]:
    """The requirements of a distribution that are not met: ``"needs torch>=9, and 2.8 is installed"``.

    A version between two releases, such as 0.2.dev0, counts as the next release.

    Args:
        distribution: Its name; a distribution that is not installed has no requirements.
        of: The required distribution; "": any.
    """
    from packaging.markers import UndefinedEnvironmentName
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    try:
        lines = (metadata.requires(distribution) or ()) if version_of(distribution) else ()
    except UnicodeDecodeError as error:
        if not of:
            yield f"has requirements that cannot be read ({error.reason})"
        return
    for line in lines:
        try:
            wanted = Requirement(line)
            applies = not wanted.marker or wanted.marker.evaluate({"extra": ""})
        except (InvalidRequirement, UndefinedEnvironmentName, InvalidVersion):
            if not of:
                yield f"needs {line[:80]!r}, which is no requirement"
            continue
        if not applies or (of and canonicalize_name(wanted.name) != canonicalize_name(of)):
            continue
        version = version_of(wanted.name)
        if not version:
            yield f"needs {wanted}, which is not installed"
            continue
        counts = [version] + [Version(version).base_version] * (".dev" in version)
        if not any(wanted.specifier.contains(each, prereleases=True) for each in counts):
            yield f"needs {wanted.name}{wanted.specifier}, and {version} is installed"
