"""Build the site: python docs/site/build.py [TARGET], by default build/site.

The pages in docs/, those in examples/ and the generated ones become one folder of sources beside the
target, with links between the files of the repository made links between pages; Sphinx does the rest.
With NOTEBOOKS=off in the environment, the notebooks of the gallery are shown and not run.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import api
import commandline
import components
import configuration
import contracts
from sphinx.cmd.build import build_main

ROOT = Path(__file__).parents[2]
GALLERY = "examples/gallery"
BUILT = {
    "ccl_plugins/kinds.py": "reference/components.md",
    "ccl_plugins/training/settings.py": "reference/configuration.md",
}
"""Files to which a link leads to a page of the reference, beside those of components and public modules."""
EXTENDED = {contracts.PAGE: contracts.with_tables, commandline.PAGE: commandline.with_help}
"""What is added in the site to a page of the repository."""
PARTS = {
    "tutorial/": "Tutorials",
    "how-to/": "How to",
    "reference/": "Reference",
    "plugins.md": "Reference",
    "explanation/": "Background",
    "evidence/": "Evidence",
    "decisions/": "Decisions",
}
"""The part of the site with the pages that docs/index.md does not name, by the beginning of their paths."""
KEYWORDS = {
    "how-to/write-a-component": "add, can, custom, loss, new, plug-in, use",
    "how-to/train-at-scale": "GPUs, run, two",
    "how-to/keep-and-suppress": "batch, confounder, effect, hide, plates, remove, sites",
    "how-to/resume": "continue, interrupted, killed, restart",
    "how-to/measure": "metrics, numbers, results, where",
}
"""Words by which the search finds a page that may not have them, by the beginning of its path."""
PAPERS = """# Papers

Those that components name as their source.

```{bibliography}
```
"""
PROJECT = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    ".github/GOVERNANCE.md",
    ".github/CODE_OF_CONDUCT.md",
    ".github/SECURITY.md",
)
"""Pages of the project outside docs/; in the site no folder is hidden."""
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
CODE = re.compile(r"(^(?:```|~~~)[^\n]*\n.*?^(?:```|~~~))", re.MULTILINE | re.DOTALL)
SHOWN = {".py": "python", ".toml": "toml", ".sh": "bash", ".cff": "yaml"}
"""The files that a link shows on a page of the site, and their language; others are downloaded."""


def generated() -> dict[str, str]:
    """The text of each generated page, by its path in the site."""
    pages = {f"reference/{path}": text for path, text in (*components.pages(), *api.pages())}
    pages["reference/configuration.md"] = configuration.render()
    pages["decisions/index.md"] = _decisions(written())
    pages["reference/papers.md"] = PAPERS
    return pages


def written() -> dict[str, Path]:
    """The pages that are files of the repository, by their path in the site."""
    files = sorted((ROOT / "docs").rglob("*.md"))
    pages = {str(f.relative_to(ROOT / "docs")): f for f in files}
    for file in sorted((ROOT / "examples").rglob("*.md")):
        pages[str(file.relative_to(ROOT))] = file
    pages |= {str(f.relative_to(ROOT)): f for f in sorted((ROOT / GALLERY).glob("*.ipynb"))}
    return pages | {name.lstrip("."): ROOT / name for name in PROJECT}


class Site:
    """The sources of a site.

    Args:
        folder: Where they are written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = written()
        self.generated = generated()
        self.place = {file: path for path, file in self.written.items()}
        self.of_code = _component_pages() | _module_pages()
        self.of_code |= {ROOT / file: [page] for file, page in BUILT.items()}
        self.names = set[str]()
        """The files that were written, by their path in the site."""
        self.shown = set[Path]()
        """The files that pages link to, which get a page themselves."""

    def write(self) -> None:
        """Write the sources; a file that did not change keeps its time, and one that is gone is deleted."""
        for name, file in self.written.items():
            text = self.linked(file.read_text("utf-8"), file)
            text = _keywords(name) + EXTENDED.get(name, str)(text)
            self._write(name, self.in_its_folder(name, text) + self.toctree(name))
        for name, text in self.generated.items():
            self._write(name, text)
            for path in re.findall(r"\(/source/(.*?)\.md\)", text):
                self.shown.add(ROOT / path)
        for file in self.shown:
            self._write(f"source/{file.relative_to(ROOT)}.md", _source_page(file))
        for file in self.folder.rglob("*"):
            if file.is_file() and str(file.relative_to(self.folder)) not in self.names:
                file.unlink()

    def linked(self, text: str, file: Path) -> str:
        """The text of a page, with links to files of the repository made links within the site."""
        here = Path(self.place[file]).parent

        def moved(match: re.Match[str]) -> str:
            target, anchor = (file.parent / match[1]).resolve(), match[2] or ""
            if not target.exists():
                raise SystemExit(f"{file}: the link to {match[1]} leads to no file")
            label = re.search(r"\[`?([\w-]+)`?\]\($", match.string[: match.start()])
            page = self.page_of(target, label[1] if label else "")
            return os.path.relpath(page, here) + anchor

        parts = CODE.split(text)
        return "".join(part if i % 2 else LINK.sub(moved, part) for i, part in enumerate(parts))

    def in_its_folder(self, name: str, text: str) -> str:
        """A notebook of the gallery, which runs in a folder of its own where ``examples/`` is."""
        if not name.startswith(f"{GALLERY}/") or "```{code-cell}" not in text:
            return text
        folder = self.folder.with_name("notebooks")
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "examples").exists():
            (folder / "examples").symlink_to(ROOT / "examples")
        moved = f"import os\n\nos.chdir({str(folder)!r})"
        cell = f"```{{code-cell}} python\n:tags: [remove-cell]\n\n{moved}\n```\n\n"
        return text.replace("```{code-cell}", f"{cell}```{{code-cell}}", 1)

    def page_of(self, file: Path, name: str) -> str:
        """What a link to a file of the repository leads to in the site, by its path there.

        Args:
            file: The file.
            name: The text of the link, which tells apart components of one file.
        """
        if file in self.place:
            return self.place[file]
        if file.is_dir():
            for index in (file / "README.md", file / "index.md"):
                if index in self.place:
                    return self.place[index]
            if file == ROOT / "docs/decisions":
                return "decisions/index.md"
            raise SystemExit(
                f"the folder {file.relative_to(ROOT)} has no page: link to a file in it"
            )
        pages = self.of_code.get(file, [])
        for page in pages:
            if len(pages) == 1 or Path(page).stem == name:
                return page
        if file.suffix in SHOWN:
            self.shown.add(file)
            return f"source/{file.relative_to(ROOT)}.md"
        path = str(file.relative_to(ROOT)).removeprefix("docs/")
        self._copy(path, file)
        return path

    def toctree(self, name: str) -> str:
        """What is appended to a page: the pages below it."""
        folder = Path(name).parent
        if name == "index.md":
            return "".join(_toctree(*each) for each in self._contents())
        if Path(name).stem in ("index", "README") and folder != Path("."):
            below = [n for n in self.written if Path(n).parent == folder and n != name]
            return _toctree("", [Path(n).name for n in below])
        return ""

    def _contents(self) -> Iterator[tuple[str, list[str]]]:
        """The parts of the site: a caption and the pages of each item of docs/index.md, in its order.

        A page that no item names is in the part of its folder.
        """
        index = self.linked((ROOT / "docs/index.md").read_text("utf-8"), ROOT / "docs/index.md")
        parts: dict[str, list[str]] = {}
        for item in re.split(r"(?m)^- ", index)[1:]:
            caption = re.match(r"\*\*(.*?)\*\*", item)
            pages = [match[1] for match in LINK.finditer(item)]
            if caption:
                parts.setdefault(caption[1], []).extend(pages)
        named = {page for pages in parts.values() for page in pages}
        found = {*self.written, *(name for name in self.generated if name.count("/") == 1)} - named
        for start, caption in PARTS.items():
            for name in sorted(name for name in found if name.startswith(start)):
                above = str(Path(name).with_name("index.md"))
                if name == above or above not in {*self.written, *self.generated} - {"index.md"}:
                    parts.setdefault(caption, []).append(name)
        yield from ((name, [*dict.fromkeys(pages)]) for name, pages in parts.items() if pages)
        gallery = [name for name in self.written if name.startswith(f"{GALLERY}/")]
        first = [name for name in gallery if Path(name).stem in ("index", "README")]
        yield "Gallery", first or gallery
        yield "Examples", [n for n in self.written if n.startswith("examples/plugins/")]
        yield "Project", [name.lstrip(".") for name in PROJECT]

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        self.names.add(name)
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")

    def _copy(self, name: str, file: Path) -> None:
        path = self.folder / name
        self.names.add(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, path)


def _keywords(name: str) -> str:
    """The front matter of a page with the words by which the search finds it too."""
    words = [value for start, value in KEYWORDS.items() if name.startswith(start)]
    return f"---\nmyst:\n  html_meta:\n    keywords: {words[0]}\n---\n\n" if words else ""


def _toctree(caption: str, pages: list[str]) -> str:
    if not pages:
        return ""
    option = f":caption: {caption}\n" if caption else ""
    listed = "\n".join(f"/{page}" if caption else page for page in pages)
    return f"\n```{{toctree}}\n:hidden:\n{option}\n{listed}\n```\n"


def _source_page(file: Path) -> str:
    """A page with the text of a file, which is in no table of contents and no search."""
    name = file.relative_to(ROOT)
    code = file.read_text("utf-8")
    fence = "`" * 4
    head = "---\norphan: true\nnosearch: true\n---\n"
    return f"{head}\n# {name}\n\n{fence}{SHOWN[file.suffix]}\n{code}\n{fence}\n"


def _decisions(pages: dict[str, Path]) -> str:
    """The page above those of decisions."""
    named = sorted(Path(name).name for name in pages if name.startswith("decisions/"))
    listed = "\n".join(named)
    return f"# Decisions\n\nOne page for each decision.\n\n```{{toctree}}\n\n{listed}\n```\n"


def _component_pages() -> dict[Path, list[str]]:
    """The pages of the components that a file defines."""
    found: dict[Path, list[str]] = {}
    for cls, page in api.components().items():
        found.setdefault(Path(inspect.getsourcefile(cls) or ""), []).append(f"reference/{page}.md")
    return found


def _module_pages() -> dict[Path, list[str]]:
    """The page of each public module, by its file; the package's is the one of all."""
    found = {}
    for name in api.MODULES:
        file = Path(inspect.getsourcefile(importlib.import_module(name)) or "")
        found[file] = [f"reference/api/{api.short(name)}.md"]
    return found | {ROOT / "ccl_plugins/__init__.py": ["reference/api.md"]}


def main(target: Path) -> int:
    """Write the sources beside the target and build the site; the status is that of Sphinx."""
    sources = target.with_name(f"{target.name}-source")
    Site(sources).write()
    options = ["-W", "--keep-going", "-q", "-j", "2", "-c", str(Path(__file__).parent)]
    options += ["-D", f"nb_execution_mode={os.environ.get('NOTEBOOKS', 'cache')}"]
    return build_main(["-b", "html", *options, str(sources), str(target)])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/site").resolve()))
