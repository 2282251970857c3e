"""The record of a run: plain data that says what was trained, by which plug-ins, in which versions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ccl_registry as engine
from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.kinds import registry


def plugins_of(choices: Iterable[Any]) -> dict[str, str]:
    """The plug-ins that choices, and those nested in them, come from, with their versions."""
    versions = {c.spec.plugin: c.spec.version for c in nested(list(choices))}
    return dict(sorted(versions.items()))


def versions_of(plugins: Iterable[str]) -> dict[str, str]:
    """Installed plug-ins with their versions."""
    installed = {plugin.name: plugin.version for plugin in registry().plugins}
    return {name: installed[name] for name in sorted({*plugins})}


def nested(value: Any) -> Iterator[Any]:
    """The choices in a value, at any depth."""
    if isinstance(value, engine.Choice):
        yield value
        yield from nested(value.params)
    elif isinstance(value, Mapping):
        yield from nested(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from nested(item)


def reading_of(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """How a run read images in files, as `ccl_plugins.files.images.reading` has it.

    Empty: there were none.  None: its data sets read them in several ways.
    """
    way: Mapping[str, Any] | None = record.get("data", {}).get("train", {}).get("reading", {})
    return way


def check_plugins(versions: Mapping[str, str]) -> None:
    """Check that the plug-ins of a record are installed; another version is one warning.

    Raises:
        InvalidConfig: If they are no table of names and versions.
        PluginFailed: For a plug-in that is not installed, saying what to install.
    """
    if not isinstance(versions, Mapping) or not all(isinstance(v, str) for v in versions.values()):
        raise engine.InvalidConfig(
            f"a record's versions must be a table of plug-ins, not {engine.represented(versions)}"
        )
    installed = {plugin.name: plugin.version for plugin in registry().plugins}
    for name, version in versions.items():
        if name == engine.LOCAL:  # who reads a component of a session asks for its object
            continue
        if name not in installed:
            needed = f"this run needs the plug-in {engine.shown(name)} {engine.shown(version)}"
            command = engine.pip_install(name, version)
            raise engine.PluginFailed(
                f"{needed}: {command}"
                if command
                else f"{needed}, which is no name and version of one"
            )
        if installed[name] != version:
            made = f"{name} {engine.shown(version)}"
            warnings.warn(
                f"this run was made with {made}, and {installed[name]} is installed", stacklevel=3
            )


def read_json(path: Path) -> dict[str, Any]:
    """The data of a JSON file.

    Raises:
        InvalidConfig: If it holds no JSON object.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise engine.InvalidConfig(f"{path}: {error}") from error
    return engine.from_json(text, str(path))


def write_json(path: Path, data: Any) -> None:
    """Write data as JSON, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(engine.to_json(data).encode())
