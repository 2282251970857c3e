"""The pages of built-in components: what the registry and the docstring say, and what was measured."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import api
import docstrings
import matrices
import references

from ccl_plugins.commands.docstrings import documentation, entries, equation, sections
from ccl_plugins.commands.info import Description, describe
from ccl_plugins.kinds import FOLDERS, registry
from ccl_plugins.protocols import DoesNotApply

ROOT = Path(__file__).parents[2]
WITH_EQUATION = ("objective", "kernel")
"""The kinds whose components must have an equation."""
BATCH = "[The batch](../../notation.md#the-pictures), and how to read them."


def pages() -> Iterator[tuple[str, str]]:
    """The path below ``reference/`` and the text of each page."""
    reg = registry()
    yield "components.md", listing()
    for kind, each in reg.kinds.items():
        specs = [spec for spec in reg.specs(kind) if spec.plugin == reg.host]
        entries = "\n".join(spec.name for spec in specs)
        yield (
            f"components/{kind}/index.md",
            f"# {kind}\n\n{docstrings.prose(each.doc, api.link)} [Its contract](../../kinds.md#{kind}),"
            f" and [all of them](../../components.md#{kind}) with a sentence each.\n\n"
            f"```{{toctree}}\n\n{entries}\n```\n",
        )
        for spec in specs:
            yield f"components/{kind}/{spec.name}.md", page(spec)


def listing() -> str:
    """Every built-in component in a sentence, in a table for each kind."""
    reg = registry()
    parts = [
        "# Components\n\nEvery built-in component by kind, in a sentence. `ccl info KIND NAME` shows a"
        " component in full, those of plug-ins too.\n"
    ]
    for kind in reg.kinds:
        parts.append(f"## {kind}\n\n| name | |\n|---|---|")
        for spec in reg.specs(kind):
            if spec.plugin == reg.host:
                summary = docstrings.prose(reg.summary(spec), api.link)
                parts.append(f"| [`{spec.name}`](components/{kind}/{spec.name}.md) | {summary} |")
        parts.append("")
    pages = "\n".join(f"components/{kind}/index" for kind in reg.kinds)
    return "\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{pages}\n```\n"])


def page(spec: Any) -> str:
    """The page of one component.

    Raises:
        ValueError: For an objective or kernel without an equation.
    """
    target, about = spec.load(), describe(registry(), spec.kind, spec.id)
    formulas = equation(target)
    if spec.kind in WITH_EQUATION and not formulas:
        raise ValueError(f"{spec.label} has no section Equation in its docstring")
    doc = documentation(target)
    summary, _, rest = sections(doc)[""].partition("\n\n")
    text = doc.replace(sections(doc)[""], _without_formula(rest) if formulas else rest, 1)
    kept = docstrings.markdown(text, api.link, leave_out=("Args", "Raises", "Defaults", "Source"))
    parts = [
        f"# {spec.name}",
        docstrings.prose(summary, api.link),
        *(f"$$\n{formula}\n$$" for formula in formulas),
        *(["Letters: [notation](../../notation.md)."] if formulas else []),
        kept,
        _picture(spec, target),
        _facts(spec, about, target),
        "## Parameters",
        api.entry(f"ccl_plugins.{FOLDERS[spec.kind]}.{target.__name__}", target, _parameters(doc)),
        _table("Defaults beside the paper's", defaults(target)),
        _table("Cost", cost(spec.name) if spec.kind == "objective" else "", COST),
        _source(spec, about, sections(doc).get("Source:", "")),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _without_formula(text: str) -> str:
    """A text without a first sentence that is the equation as code alone."""
    return re.sub(r"\A``[^`]+``(?:(?:,| with| and)* ``[^`]+``)*\.\s+", "", text)


def _parameters(doc: str) -> str:
    found = sections(doc)
    text = "\n\n".join(f"\n{t}\n{found[t]}" for t in ("Args:", "Raises:") if t in found)
    return docstrings.markdown(text, api.link)


def _picture(spec: Any, target: Any) -> str:
    if spec.kind not in WITH_EQUATION:
        return ""
    example = dict(getattr(target, "EXAMPLE", {}))
    of = f", with `{', '.join(f'{k}={v!r}' for k, v in example.items())}`" if example else ""
    if spec.kind == "kernel":
        if "matrix" in example:  # of as many samples as the picture has
            example["matrix"] = matrices.COSINES
            of = ""
        kernel = registry().create("kernel", spec.id, **example)
        return (
            f"## On four images\n\n{matrices.kernel_picture(kernel)}\n"
            f"Similarities of the conditions of four images{of}, and the weights of CCL-K's operator with"
            f" a ridge of {matrices.RIDGE}. {BATCH}"
        )
    try:
        drawn = matrices.picture(registry().create("objective", spec.id, **example))
    except DoesNotApply as error:
        return f"## On four images\n\nNo picture: {error}."
    return (
        f"## On four images\n\n{drawn}\nBlue keys attract the anchor of their row, red ones repel it{of}."
        f" {BATCH}"
    )


def _facts(spec: Any, about: Description, target: Any) -> str:
    used = f'`{spec.kind} = {{use = "{spec.name}"}}`'
    if spec.kind == "evaluator":
        used = f'`evaluate = ["{spec.name}"]`'
    elif spec.kind == "logger":
        used = f'`loggers = ["{spec.name}"]`'
    elif spec.kind in ("optimizer", "schedule"):
        used = f'`fit = {{{spec.kind} = "{spec.name}"}}`'
    elif spec.kind == "kernel":
        used = f'`kernel = {{use = "{spec.name}"}}`'
    rows = [("in a file", "" if spec.kind == "figure" else used)]
    rows.append(("in Python", f'`ccl.create("{spec.kind}", "{spec.name}", ...)`'))
    rows.append(("supplied by the pipeline", ", ".join(f"`{name}`" for name in about.supplied)))
    rows += [(name.replace("_", " "), _shown(value)) for name, value in about.declares.items()]
    if about.old_names:
        rows.append(("old names", ", ".join(about.old_names)))
    return "| | |\n|---|---|\n" + "\n".join(f"| {a} | {b} |" for a, b in rows if b)


def _shown(value: Any) -> str:
    """What a component declares, in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "; ".join(f"`{k}`: {_shown(v)}" for k, v in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    return docstrings.prose(str(value), api.link)


COST = (
    "Time / peak memory of forward and backward as ratios to lightly's NTXentLoss;"
    " [how it was measured](../../../evidence/benchmarks/objectives.md)."
)


def _table(title: str, table: str, caption: str = "") -> str:
    return "\n\n".join(filter(None, [f"## {title}", table, caption])) if table else ""


def stated(target: Any) -> dict[str, tuple[str, str, str]]:
    """What the section ``Defaults`` of a docstring says of each number.

    The default of the paper, that of its released code, and a reason; "" where one is not stated.

    Raises:
        ValueError: For an entry that states none of them.
    """
    found = {}
    for name, entry in entries(sections(inspect.getdoc(target) or "").get("Defaults:", "")):
        text = " ".join(entry.partition(":")[2].split())
        parts = dict(re.findall(r"(Paper|Code|Here): (.*?)\.?(?= (?:Paper|Code|Here): |$)", text))
        if not parts:
            raise ValueError(
                f"{target.__name__}: {name} has neither Paper, Code nor Here: {text!r}"
            )
        found[name] = (parts.get("Paper", ""), parts.get("Code", ""), parts.get("Here", ""))
    return found


def defaults(target: Any) -> str:
    """The table of a component's numbers beside those of papers and released code; "" without any."""
    given, rows = inspect.signature(target).parameters, []
    for name, found in stated(target).items():
        paper, code, why = (docstrings.prose(each, api.link) for each in found)
        rows.append(
            f"| `{name}` | {given[name].default} | {paper or '—'} | {code or '—'} | {why} |"
        )
    head = ["| Parameter | Here | Paper | Released code | Why |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows]) if rows else ""


@functools.cache
def _rows(page: str) -> list[tuple[str, str]]:
    """The rows of the tables of a page, each with the head of its table."""
    found, head = [], ""
    for line in (ROOT / "docs" / page).read_text("utf-8").splitlines():
        if line.startswith("|---"):
            found.pop()
        elif line.startswith("| "):
            head = head or line
            found.append((head, line))
        else:
            head = ""
    return found


def cost(name: str) -> str:
    """The rows of an objective on the page of measurements; "" if it was not measured."""
    found = [
        (head, row)
        for head, row in _rows("evidence/benchmarks/objectives.md")
        if re.match(rf"\| {name}(?:[ ,(]|$)", row) and head.startswith("| objective | b = 256")
    ]
    if not found:
        return ""
    head = found[0][0]
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *(row for _, row in found)])


def _source(spec: Any, about: Description, source: str) -> str:
    file, _, line = about.file.rpartition(":")
    path = Path(file).relative_to(ROOT)
    parts = ["## Source"]
    if source:
        source = " ".join(source.split())
        parts.append(docstrings.prose(source, api.link) + references.citations(spec.label, source))
    parts.append(f"Code: [`{path}`](/source/{path}.md), line {line}.")
    return "\n\n".join(parts)
