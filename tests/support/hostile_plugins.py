"""Packages that fail in the ways that leave the process alive, written as ``.dist-info`` folders."""

from __future__ import annotations

from pathlib import Path

PANIC = "class PanicException(BaseException):\n    pass\n"

RAISED = {
    "exits": "raise SystemExit(0)",
    "generator": "raise GeneratorExit('gone')",
    "cancelled": "import asyncio\nraise asyncio.CancelledError('late')",
    "skipped": "class Skipped(BaseException):\n    pass\nraise Skipped('not here')",
    "panics": f"{PANIC}raise PanicException('a panic of Rust')",
    "recursion": "def f():\n    return f()\nf()",
    "memory": "raise MemoryError('all of it')",
    "stops": "raise StopIteration('over')",
    "nameless_key": "raise KeyError",
    "group": "raise BaseExceptionGroup('two', [SystemExit(1), ValueError('x')])",
    "escapes": r"raise ValueError('\x1b[31mred\x1b[0m\r\nnew line \u202e reversed')",
    "endless": "raise ValueError('x' * 1_000_000)",
    "registry_error": "import ccl_plugins\nraise ccl_plugins.UnknownComponent('mine')",
    "deep_source": "a = " + "(" * 5000 + ")" * 5000,
    "no_source": "def f(:\n",
    "null": "a = 1\0",
}
"""What a module does when it is imported."""

HOOKS = {
    "hook_panics": f"""
{PANIC}
@hookimpl
def ccl_components():
    yield ComponentSpec("kernel", "hook_panics_first", "ccl_hostile_good:Good")
    raise PanicException("in the hook")
""",
    "hook_exits": "@hookimpl\ndef ccl_components():\n    raise SystemExit(0)\n",
    "hook_text": "@hookimpl\ndef ccl_components():\n    return '\\x1b[2J'\n",
    "hook_number": "@hookimpl\ndef ccl_components():\n    return 3\n",
    "hook_wrapper": "@hookimpl(wrapper=True)\ndef ccl_components():\n    return (yield)\n",
}
"""What a hook does when it is called."""

CHANGES = {
    "stays_in_folder": "import os, tempfile\nos.chdir(tempfile.gettempdir())",
    "filters": "import warnings\nwarnings.simplefilter('error')",
    "path": "import sys\nsys.path.insert(0, '/nowhere')",
    "limit": "import sys\nsys.setrecursionlimit(sys.getrecursionlimit() - 1)",
    "deaf": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "closes": "import sys\nsys.stdout.close()\nprint('closed')",
    "prints": r"print('\x1b[2Jhello')",
}
"""What a hooks module changes; it is no failure."""

COMPONENTS = {
    "constructor": """
class Hostile:
    '''A kernel.'''
    @property
    def positive_definite(self):
        return True
    def __init__(self) -> None:
        raise PanicException("not built")
    def __call__(self, a, b):
        return a
""",
    "attribute": """
class Hostile:
    '''A kernel.'''
    @property
    def positive_definite(self):
        raise PanicException("not known")
    def __call__(self, a, b):
        return a
""",
    "lazy": "def __getattr__(name):\n    raise PanicException(name)\n",
}
"""A component's module, which imports."""

METADATA: dict[str, dict[str, str | None]] = {
    "latin": {"METADATA": "Metadata-Version: 2.1\nName: {name}\nVersion: 1\nAuthor: Jos\xe9\n"},
    "no_version": {"METADATA": "Metadata-Version: 2.1\nName: {name}\n\nVersion: 7\n"},
    "odd_version": {"METADATA": "Name: {name}\nVersion: 1; rm -rf ~\n"},
    "no_name": {"METADATA": "Metadata-Version: 2.1\nVersion: 1\n"},
    "odd_name": {"METADATA": "Name: \x1b[31mred\nVersion: 1\n"},
    "other_name": {"METADATA": "Name: ccl-hostile-another\nVersion: 1\n"},
    "no_metadata": {"METADATA": None},
    "empty": {"METADATA": ""},
    "twice": {"entry_points.txt": "[ccl_plugins.kernel]\ntwice = m:K\ntwice = m:L\n"},
    "escaping_entries": {
        "entry_points.txt": "[ccl_plugins.kernel]\n\x1b[31mred = m:K\nfar = m:\x1b[2J\n",
    },
}
"""Files of a ``.dist-info`` folder, in latin-1, in place of good ones."""

UNREADABLE: dict[str, dict[str, str | None]] = {
    "bad_line": {"entry_points.txt": "[ccl_plugins.kernel]\nbad line\n"},
    "latin_entries": {
        "entry_points.txt": "[ccl_plugins.kernel]\nol\xe9 = m:K\n",
    },
    "binary": {"entry_points.txt": "\xff\xfe\x00\x01"},
}
"""As `METADATA`; torch itself, which reads all entry points, cannot be imported beside these."""


def write(root: Path) -> dict[str, list[str]]:
    """Write all packages into a folder; returns their names by group."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "ccl_hostile_good.py").write_text(
        "class Good:\n    '''A kernel that works.'''\n    positive_definite = True\n"
        "    def __call__(self, a, b):\n        return a @ b.T\n"
    )
    _write(root, "good", "kernel", "hostile_good", "ccl_hostile_good:Good")
    hook = "from ccl_plugins import ComponentSpec, hookimpl\n"
    for name, body in {**RAISED, **CHANGES, **HOOKS}.items():
        _write(root, name, "hooks", "main", f"ccl_hostile_{name}", body=hook + body + "\n")
    for name, body in RAISED.items():
        target = f"ccl_hostile_import_{name}:Hostile"
        _write(root, f"import_{name}", "kernel", f"import_{name}", target, body=body + "\n")
    for name, body in COMPONENTS.items():
        target = f"ccl_hostile_{name}:Hostile"
        _write(root, name, "kernel", f"hostile_{name}", target, body=PANIC + body)
    for name, files in METADATA.items():
        _write(root, name, "kernel", f"hostile_{name}", "ccl_hostile_good:Good", files=files)
    return {
        "raised": [*RAISED],
        "hooks": [*HOOKS],
        "changes": [*CHANGES],
        "components": [*(f"import_{name}" for name in RAISED), *COMPONENTS],
        "metadata": [*METADATA],
    }


def write_unreadable(root: Path) -> list[str]:
    """Write the packages whose entry points cannot be read into a folder; returns their names."""
    root.mkdir(parents=True, exist_ok=True)
    for name, files in UNREADABLE.items():
        _write(root, name, "kernel", f"hostile_{name}", "ccl_hostile_good:Good", files=files)
    return [*UNREADABLE]


def distribution(name: str) -> str:
    """The normalized name of a package."""
    return f"ccl-hostile-{name.replace('_', '-')}"


def _write(
    root: Path,
    name: str,
    group: str,
    entry: str,
    target: str,
    body: str | None = None,
    files: dict[str, str | None] | None = None,
) -> None:
    package = f"ccl_hostile_{name}"
    info = root / f"{package}-1.dist-info"
    info.mkdir()
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n",
        "entry_points.txt": f"[ccl_plugins.{group}]\n{entry} = {target}\n",
        **{k: v and v.replace("{name}", package) for k, v in (files or {}).items()},
    }
    for file, text in texts.items():
        if text is not None:
            (info / file).write_bytes(text.encode("latin-1"))
    if body is not None:
        (root / f"{package}.py").write_text(body, encoding="utf-8")
