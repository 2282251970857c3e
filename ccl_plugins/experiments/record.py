"""The record of a run: plain data that describes the training, its plug-ins and versions, and its data."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ccl_registry as engine
from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.differences import differences
from ccl_plugins.files.requirements import unmet
from ccl_plugins.kinds import registry
from ccl_plugins.training.settings import PLAIN

DATA = "data"
"""The table that identifies the data, which is compared separately."""

WATCHING = ("callbacks", "loggers", "monitor", "plugins")
"""The tables of parts that watch a run, which do not affect training."""

ABOUT = ("schema", "versions", "callbacks", DATA)
"""The entries of a record that are not tables of a configuration."""

_SETTINGS = {f"fit.{each.name}": each for each in PLAIN}

FREE = {place for place, each in _SETTINGS.items() if each.metadata["free"]}
"""Settings that may change when a run is resumed, because they do not affect the result."""

MORE = {place: words for place, each in _SETTINGS.items() if (words := each.metadata["more"])}
"""Settings that may grow when a run is resumed: it is trained longer."""

ENDLESS = {place for place in MORE if _SETTINGS[place].default is None}
"""The settings of `MORE` that set no limit if they are None."""


class Record(dict[str, Any]):
    """The training as data: a configuration's tables with every parameter, and the entries in `ABOUT`."""

    @property
    def tables(self) -> dict[str, Any]:
        """The tables of the configuration."""
        return {key: each for key, each in self.items() if key not in ABOUT}

    @property
    def data(self) -> Mapping[str, Mapping[str, Any]]:
        """The identity of each split."""
        splits: Mapping[str, Mapping[str, Any]] = self.get(DATA, {})
        return splits

    @property
    def digests(self) -> dict[str, str]:
        """A short digest of each split, which differs for other data."""
        return {split: each["digest"][:8] for split, each in self.data.items()}

    @property
    def reading(self) -> Mapping[str, Any] | None:
        """How the run read image files; see `ccl_plugins.files.images.reading`.

        Empty: no image files. None: its data sets read them in several ways.
        """
        return self.data.get("train", {}).get("reading", {})

    @property
    def trained(self) -> dict[str, Any]:
        """The record without data, watching parts, and settings that may change when a run is resumed."""
        kept = {key: each for key, each in self.items() if key not in (*WATCHING, DATA)}
        if isinstance(fit := kept.get("fit"), Mapping):
            kept["fit"] = {name: each for name, each in fit.items() if f"fit.{name}" not in FREE}
        return kept

    @property
    def configuration(self) -> dict[str, Any]:
        """The part of the record that is equal in runs which differ only in the seed."""
        kept = self.trained
        if "fit" in kept:
            kept["fit"] = {name: each for name, each in kept["fit"].items() if name != "seed"}
        return {**kept, DATA: self.digests}

    def is_on_data_of(self, other: Mapping[str, Any]) -> bool:
        """Whether the runs of two records had the same data set, with the same content as far as known."""
        mine, its = self.digests, Record(other).digests
        same = self.get("dataset") == other.get("dataset")
        return same and all(mine[split] == its[split] for split in mine.keys() & its.keys())

    def refusals(self, now: Mapping[str, Any]) -> list[str]:
        """The differences that keep the run from being resumed by another record, in words.

        Settings in `FREE` and tables in `WATCHING` may differ, and there may be more epochs and steps.
        """
        # A record that was not read from a file may have tuples, which JSON does not.
        both = (json.loads(json.dumps(Record(each).trained)) for each in (self, now))
        refused = []
        for difference in differences(*both):
            before, after = difference.values
            if difference.place not in MORE:
                refused.append(str(difference))
            elif not (
                (after is None and difference.place in ENDLESS)
                or (type(before) is type(after) is int and after >= before >= 0)
            ):
                refused.append(
                    f"{difference} (there may be more {MORE[difference.place]}, not fewer)"
                )
        return refused

    def to_toml(self) -> str:
        """The configuration as the text of a TOML file with every parameter, which `ccl train` takes.

        TOML has no None: parameters that are None are left out, because None is their default in
        almost every component.
        """
        lines: list[str] = []
        tables: list[tuple[str, Mapping[str, Any]]] = []
        for key, value in self.tables.items():
            if value in (None, {}, ""):
                continue
            if key == "evaluate" and value:
                tables += [("[[evaluate]]", each) for each in value]
            elif key == "conditions":
                tables += [(f"[conditions.{_key(name)}]", each) for name, each in value.items()]
            elif isinstance(value, Mapping):
                tables.append((f"[{key}]", value))
            else:
                lines.append(f"{key} = {toml_of(value)}")
        for head, table in tables:
            lines += ["", head] if lines else [head]
            lines += [f"{_key(k)} = {toml_of(v)}" for k, v in table.items() if v is not None]
        return "\n".join(lines) + "\n"


def differing(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The settings in which records differ, seeds aside, with the text of each record's value."""
    found = differences(*(Record(each).configuration for each in records), deep=True)
    return [
        {"setting": place, "values": [_word(each, place) for each in values]}
        for place, values in found
    ]


def _word(value: Any, place: str) -> str | None:
    """A value as text: a component as its name, without kind and library; None stays."""
    if not isinstance(value, str):
        return None if value is None else json.dumps(value)
    name = value.partition(":")[2].removeprefix("ccl-plugins/") if place.endswith("use") else ""
    return name or value


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


def check_plugins(versions: Mapping[str, str]) -> None:
    """Check that the plug-ins of a record are installed; other versions give one warning.

    Raises:
        InvalidConfig: If they are not a table of names and versions.
        PluginFailed: For a plug-in that is not installed; the message says what to install.
    """
    if not isinstance(versions, Mapping) or not all(isinstance(v, str) for v in versions.values()):
        raise engine.InvalidConfig(
            f"a record's versions must be a table of plug-ins, not {engine.short_repr(versions)}"
        )
    installed = {plugin.name: plugin.version for plugin in registry().plugins}
    for name, version in versions.items():
        if name == engine.LOCAL:  # who reads a component of a session asks for its object
            continue
        if name not in installed:
            needed = f"this run needs the plug-in {engine.escaped(name)} {engine.escaped(version)}"
            command = engine.pip_install(name, version)
            raise engine.PluginFailed(
                f"{needed}: {command}"
                if command
                else f"{needed}, which is no name and version of one"
            )
        if installed[name] != version:
            made = f"{name} {engine.escaped(version)}"
            warnings.warn(
                f"this run was made with {made}, but {installed[name]} is installed", stacklevel=3
            )


def warn_of_unmet(plugins: Iterable[str]) -> None:
    """A line for each plug-in that needs another version of ccl-plugins than the installed one."""
    for text in _unmet(plugins):
        warnings.warn(text, stacklevel=4)


@contextmanager
def naming_unmet() -> Iterator[None]:
    """Add the same to the error of a plug-in whose component cannot be imported."""
    try:
        yield
    except engine.PluginFailed as error:
        for text in _unmet([error.name] if error.name else []):
            error.add_note(text)
        raise


def _unmet(plugins: Iterable[str]) -> Iterator[str]:
    for name in sorted({*plugins} - {engine.LOCAL}):
        for text in unmet(name, of=registry().host):
            yield f"the plug-in {name} {text}: install another version of one of them"


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


def _key(name: str) -> str:
    bare = name.replace("_", "").replace("-", "")
    return name if bare.isascii() and bare.isalnum() else _text(name)


def toml_of(value: Any) -> str:
    """A value of a record as TOML on one line; entries that are None are left out of tables."""
    if isinstance(value, Mapping):
        items = (f"{_key(k)} = {toml_of(v)}" for k, v in value.items() if v is not None)
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_of, value))}]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return repr(value)  # "inf" and "nan" are TOML's words too
    return json.dumps(value)


def _text(text: str) -> str:
    # A basic string of TOML is one of JSON, but for DEL and lone surrogates.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
