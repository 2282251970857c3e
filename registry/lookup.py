"""What a name means among the components on offer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .distributions import Plugin
from .errors import AmbiguousName, UnknownComponent
from .spec import LOCAL, ComponentSpec, did_you_mean, fold, normalize, with_article


def look_up(
    specs: Sequence[ComponentSpec], kind: str, name: str, host: str, plugins: Sequence[Plugin]
) -> ComponentSpec:
    """The component of a kind that a name means.

    Args:
        specs: All that is on offer.
        kind: The kind wanted.
        name: ``name``, ``plugin/name`` or ``kind:plugin/name``.
        host: The plugin that wins over others.
        plugins: All that is installed; those in trouble are named in the error.

    Raises:
        UnknownComponent: If there is none.
        AmbiguousName: If there are several and none of them is the host's.
    """
    if not isinstance(name, str):
        raise UnknownComponent(f"{with_article(kind)} is found by its name, not by {name!r}")
    said, colon, rest = name.rpartition(":")
    if colon and fold(said) != kind:
        raise UnknownComponent(f"{name!r} is of kind {said!r}, and {with_article(kind)} is wanted")
    plugin, slash, bare = rest.rpartition("/")
    plugin, bare = normalize(plugin), fold(bare)
    fits = [s for s in specs if s.name == bare and (not slash or s.plugin == plugin)]
    found = [spec for spec in fits if spec.kind == kind]
    chosen = found[0] if len(found) == 1 else _of_host(found, host)
    if chosen:
        return chosen
    if found:
        ways = ", ".join(repr(spec.id) for spec in found)
        raise AmbiguousName(f"several plugins offer the {kind} {bare!r}; say which: {ways}")
    parts = [f"no {kind} {name!r}.", _instead(specs, kind, bare)]
    if slash and plugin not in {p.name for p in plugins}:
        parts[1] = (
            f"It is defined in no plugin; in this session, local({kind!r}, ...) would define it."
            if plugin == LOCAL
            else f"{plugin} is not installed: pip install {plugin}"
        )
    elif fits:
        parts.append(f"There is {with_article(fits[0].kind)} of that name.")
    raise UnknownComponent(" ".join(filter(None, [*parts, trouble(plugins, host)])))


def shown(specs: Iterable[ComponentSpec], spec: ComponentSpec, host: str) -> str:
    """The bare name where that finds it, else the qualified one."""
    rivals = [s for s in specs if (s.kind, s.name) == (spec.kind, spec.name)]
    found = rivals[0] if len(rivals) == 1 else _of_host(rivals, host)
    return spec.name if found == spec else spec.id


def trouble(plugins: Sequence[Plugin], host: str) -> str:
    """Which plugins are missing from a look-up, and why; empty where none is."""
    failed = [f"{p.name} ({p.reason})" for p in plugins if p.state == "failed"]
    disabled = [p.name for p in plugins if p.state == "disabled"]
    parts = []
    if host not in {p.name for p in plugins}:
        parts.append(f"{host} is not installed itself: run pip install -e . in its folder.")
    if failed:
        parts.append(f"{len(failed)} plugin{'s' * (len(failed) > 1)} failed: {'; '.join(failed)}.")
    if disabled:
        parts.append(f"Disabled: {', '.join(disabled)}.")
    return " ".join(parts)


def _of_host(specs: Sequence[ComponentSpec], host: str) -> ComponentSpec | None:
    return next((spec for spec in specs if spec.plugin == host), None)


def _instead(specs: Sequence[ComponentSpec], kind: str, bare: str) -> str:
    names = sorted({spec.name for spec in specs if spec.kind == kind})
    near = did_you_mean(bare, names).strip()
    return near or f"There are: {', '.join(names) or 'none'}."
