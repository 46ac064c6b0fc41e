"""Real text and real results for made up threads: the documentation and the source of Python's standard library.

None of it is in the dictionary that the journal compresses with, so what is measured here is not what was learned.
"""

from __future__ import annotations

import ast
import inspect
import sysconfig
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from .journal_threads import Source, Tool

__all__ = ["standard_library"]

_MODULES: Final = (
    "argparse", "ast", "bdb", "calendar", "codecs", "configparser", "contextlib", "csv", "dataclasses", "datetime",
    "difflib", "doctest", "enum", "fractions", "ftplib", "functools", "heapq", "imaplib", "inspect", "ipaddress",
    "locale", "mailbox", "optparse", "pathlib", "pdb", "pickle", "random", "shutil", "smtplib", "socket", "statistics",
    "string", "subprocess", "tarfile", "textwrap", "threading", "traceback", "types", "typing", "uuid", "zipfile",
)  # fmt: skip

_CHARS: Final = (60, 900)
"""A paragraph that is shorter says too little, and of one that is longer this much is taken."""


class _Definition(NamedTuple):
    """A class or a function: where it is, how it is called, what is said about it."""

    module: str
    name: str
    kind: str
    line: int
    arguments: list[str]
    summary: str


class _Module(NamedTuple):
    """A module's source, and what is defined in it."""

    name: str
    lines: list[str]
    definitions: list[_Definition]


def standard_library() -> Source:
    """Return paragraphs from docstrings, and tools that look into the library's source."""
    folder = Path(sysconfig.get_path("stdlib"))
    prose: list[str] = []
    modules: list[_Module] = []
    for name in _MODULES:
        path = folder / f"{name}.py"
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        definitions: list[_Definition] = []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                said = ast.get_docstring(node) or ""
                prose += [
                    part[: _CHARS[1]] for part in said.split("\n\n") if len(part) >= _CHARS[0] and part[0].isalpha()
                ]
                if not isinstance(node, ast.Module):
                    definitions.append(_definition(name, node, said))
        if definitions:
            modules.append(_Module(name, text.splitlines(), definitions))
    return Source(prose, _tools(modules))


def _definition(module: str, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, said: str) -> _Definition:
    kind = "class" if isinstance(node, ast.ClassDef) else "function"
    arguments = [] if isinstance(node, ast.ClassDef) else [argument.arg for argument in node.args.args]
    return _Definition(module, node.name, kind, node.lineno, arguments, inspect.cleandoc(said).split("\n\n")[0])


def _tools(modules: list[_Module]) -> dict[str, Tool]:
    def describe(random: Random) -> tuple[dict[str, Any], Any]:
        found = random.choice(random.choice(modules).definitions)
        return {"qualified_name": f"{found.module}.{found.name}"}, found._asdict()

    def list_members(random: Random) -> tuple[dict[str, Any], Any]:
        module = random.choice(modules)
        first = random.randrange(len(module.definitions))
        rows = [
            {"name": found.name, "kind": found.kind, "line": found.line}
            for found in module.definitions[first : first + random.randint(3, 20)]
        ]
        return {"module": module.name, "offset": first}, {"members": rows, "total": len(module.definitions)}

    def read_source(random: Random) -> tuple[dict[str, Any], Any]:
        module = random.choice(modules)
        first = random.randrange(max(1, len(module.lines) - 40))
        text = "\n".join(module.lines[first : first + random.randint(5, 40)])
        return {"path": f"{module.name}.py", "first_line": first + 1}, text

    def measure(random: Random) -> tuple[dict[str, Any], Any]:
        rows = [[number * 60, round(random.gauss(21, 4), 2), random.randint(0, 900)] for number in range(24)]
        return {"sensor": f"s-{random.randint(1, 400)}"}, {"columns": ["second", "celsius", "lux"], "rows": rows}

    return {"describe": describe, "list_members": list_members, "read_source": read_source, "measure": measure}
