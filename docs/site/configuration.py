"""The page of the configuration: every key of a TOML file, and the pipeline and the run in Python."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from ccl_plugins.commands.docstrings import documentation
from ccl_plugins.experiments import Run
from ccl_plugins.experiments.composition import Composition
from ccl_plugins.experiments.configuration import SINGLE, TABLES
from ccl_plugins.training.settings import COMPONENTS, FitSettings
from ccl_plugins.watching.settings import MonitorSettings

HEAD = """# The configuration of a pipeline

A TOML file for `ccl train` has the tables below. A table of a component has `use`, the component's name,
and its parameters, as in `objective = {use = "infonce", temperature = 0.5}`; a component without parameters
can be given by its name, as in `objective = "infonce"`. [Components](components.md) has the parameters of
each, with types, defaults and ranges; `ccl info KIND NAME` shows those of plug-ins, too. `Pipeline(...)`
takes the same keys. A key that does not exist is an error that names the nearest one.
`ccl train --set KEY=VALUE` replaces a value, as in `--set objective.temperature=0.2`.

A default of *none* cannot be written in TOML: leave the key out.
"""
FIT = """## fit

The settings of training. [Train at scale](../how-to/train-at-scale.md) and
[train with a paper's recipe](../how-to/recipes.md) show their use;
[when it does not learn](../how-to/when-it-does-not-learn.md) says which to change.
"""
WRITTEN = {
    "dataset": "a component",
    "condition": "a component",
    "conditions": "a table of components, by name",
    "evaluate": 'a list of components: `["linear", "knn"]`, or `[[evaluate]]` tables',
    "fit": "a table",
    "monitor": 'a table, or `"off"`',
    "loggers": 'a list of components: `["csv"]`; [log elsewhere](../how-to/watch-a-run.md#log-elsewhere)',
    "plugins": "a table of options for each plug-in",
}
MONITOR = """## monitor

What is measured while a run trains; [watch a run](../how-to/watch-a-run.md) says what the numbers mean.
`monitor = "off"` measures nothing.
"""
PYTHON = """## In Python

{py:obj}`Pipeline <ccl_plugins.Pipeline>` takes the keys above and trains with `fit`;
{py:obj}`load <ccl_plugins.load>` gives the `Run` of a folder, and `fit` that of its own.
"""


def render() -> str:
    """The page."""
    return "\n".join([HEAD, *_tables(), "", *_fit(), "", *_monitor(), "", *_python()])


def _tables() -> Iterator[str]:
    parameters = inspect.signature(Composition.__init__).parameters
    words = _arguments(Composition)
    yield "## The tables\n\n| key | written as | default | |\n|---|---|---|---|"
    for key in TABLES:
        default = parameters[key].default
        shown = "required" if default is inspect.Parameter.empty else _value(default)
        written = WRITTEN["dataset"] if key in SINGLE else WRITTEN[key]
        yield f"| `{key}` | {written} | {shown} | {words[key]} |"


def _fit() -> Iterator[str]:
    words = _arguments(FitSettings)
    yield FIT
    yield "| key | type | default | range | |\n|---|---|---|---|---|"
    for each in dataclasses.fields(FitSettings):
        default = COMPONENTS.get(each.name) or getattr(FitSettings(), each.name)
        kind = str(each.type).replace(" | None", "").replace(" | ", " or ")
        kind = "component" if each.name in COMPONENTS else kind
        known = f"{'an' if each.name[0] in 'aeiou' else 'a'} [{each.name}](components.md)"
        rule = each.metadata.get("range", known)
        yield f"| `{each.name}` | {kind} | {_value(default)} | {rule} | {words[each.name]} |"


def _monitor() -> Iterator[str]:
    words = _arguments(MonitorSettings)
    yield MONITOR
    yield "| key | type | default | range | |\n|---|---|---|---|---|"
    for each in dataclasses.fields(MonitorSettings):
        kind = "list" if each.name == "evaluate" else "int"
        default = _value(getattr(MonitorSettings(), each.name))
        rule = "as `evaluate` of a pipeline" if kind == "list" else "1 or more"
        yield f"| `{each.name}` | {kind} | {default} | {rule} | {words[each.name]} |"


def _python() -> Iterator[str]:
    yield PYTHON
    yield f"### Run\n\n```text\n{documentation(Run)}\n```\n\n| attribute | |\n|---|---|"
    for name, found in vars(Run).items():
        if isinstance(found, cached_property) and name[0] != "_":
            yield f"| `{name}` | {(inspect.getdoc(found) or '').splitlines()[0]} |"
    yield ""
    for name in ("encode", "evaluate"):
        yield _entry(f"Run.{name}", getattr(Run, name))


def _entry(title: str, function: Any) -> str:
    signature = re.sub(r"^\(self(, )?", "(", _signature(function))
    document = inspect.getdoc(function)
    return f"### {title}\n\n```text\n{title.rpartition('.')[2]}{signature}\n\n{document}\n```\n"


def _signature(function: Any) -> str:
    text = str(inspect.signature(function)).partition(" -> ")[0]
    return re.sub(r": '([^']*)'", r": \1", text)  # the hints are strings


def _arguments(cls: type) -> dict[str, str]:
    """The description of each argument in the ``Args`` of a class, on one line."""
    doc = inspect.getdoc(cls) or ""
    section = re.search(r"(?ms)^Args:\n(.*?)(?=^\S|\Z)", doc)
    entries = re.findall(r"(?ms)^ {4}(\w+): (.*?)(?=^ {4}\w|\Z)", section[1] if section else "")
    return {
        name: " ".join(text.split()).replace("``", "`").replace("|", "\\|")
        for name, text in entries
    }


def _value(value: Any) -> str:
    if value is None:
        return "*none*"
    if isinstance(value, Mapping):
        return "`{" + ", ".join(f"{k} = {json.dumps(v)}" for k, v in value.items()) + "}`"
    return f"`{json.dumps(value)}`"
