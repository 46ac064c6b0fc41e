"""The repository keeps its own promises: its layout, the examples in its words, and what it never names."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from itertools import chain
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("journal", "projections", "actors", "adapters", "examples")

# What exists only inside a Worker: a module that needs it is tested there.
ELSEWHERE = {"js", "pyodide", "workers"}


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(["clew", *parts]).removesuffix(".__init__")


MODULES = sorted(
    module_name(file)
    for file in chain.from_iterable((ROOT / folder).rglob("*.py") for folder in FOLDERS)
    if file.stem != "__main__"
)


def run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_is_imported_by_a_bare_name() -> None:
    """A second copy of a module would be a second copy of each of its classes."""
    assert set(FOLDERS[:-1]).isdisjoint(sys.modules)


def test_every_package_is_in_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    packages = {module_name(file) for folder in FOLDERS for file in (ROOT / folder).rglob("__init__.py")}

    assert set(project["tool"]["setuptools"]["packages"]) == packages


@pytest.mark.parametrize("folder", FOLDERS)
def test_types_are_shipped(folder: str) -> None:
    assert (ROOT / folder / "py.typed").is_file()


@pytest.mark.parametrize("name", ["clew.journal", "clew.projections", "clew.actors.decider", "clew.actors.thread"])
def test_waking_an_actor_for_a_read_imports_nothing_heavy(name: str) -> None:
    heavy = ["lmdb", "pydantic", "pydantic_ai", "pykka", "sqlite3", "zstandard"]
    program = f"import json, sys, {name}; print(json.dumps([n for n in {heavy} if n in sys.modules]))"

    assert json.loads(run(sys.executable, "-c", program)) == []


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_and_its_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name in ELSEWHERE:
            pytest.skip(f"{name} needs {missing.name}")
        raise

    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0


def python_blocks(document: Path) -> list[tuple[int, str]]:
    """The fenced Python of a document, each with the number of its first line."""
    text = document.read_text(encoding="utf-8")
    fences = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, fence.start(1)), fence[1]) for fence in fences]


PAGES = [
    "README.md",
    "docs/agents.md",
    "docs/approvals.md",
    "docs/code-mode.md",
    "docs/durability.md",
    "docs/journal.md",
    "docs/testing.md",
    "docs/threads.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its blocks run in order, as one module would; those that begin with `# not run` are only compiled."""
    blocks = python_blocks(ROOT / page)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.chdir(tmp_path)

    for line, source in blocks:
        # The empty lines let a traceback name the line in the page.
        code = compile("\n" * line + source, page, "exec", dont_inherit=True)
        if not source.startswith("# not run"):
            exec(code, module.__dict__)  # noqa: S102  (they are our own pages)

    assert blocks


def tracked_files() -> dict[str, str]:
    """The text of all that git knows, or would if it were added."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    files = [ROOT / name for name in listed]
    return {str(file.relative_to(ROOT)): file.read_text(errors="replace") for file in files if file.is_file()}


def registry_hosts() -> set[str]:
    """Where this machine's installers fetch from, asked of themselves so that we need not name it."""
    configured = run(sys.executable, "-m", "pip", "config", "list")
    built_in = run(sys.executable, "-m", "pip", "install", "--help")
    addresses: list[str] = re.findall(r"https?://\S+", configured)
    addresses += re.findall(r"\(default\s+(https?://[^)\s]+)", built_in)
    if shutil.which("npm"):
        addresses.append(run("npm", "--logs-max=0", "config", "get", "registry").strip())

    hosts = {urlsplit(address.strip("'\"")).hostname for address in addresses}
    return {host for host in hosts if host and not host.startswith(("localhost", "127."))}


def test_no_file_names_a_package_registry() -> None:
    hosts = registry_hosts()

    assert [(name, host) for name, text in tracked_files().items() for host in hosts if host in text] == []


def test_no_file_names_a_path_of_this_machine() -> None:
    parent = ROOT.parent
    if parent in {Path(parent.anchor), Path(tempfile.gettempdir())}:
        pytest.skip(f"{parent} is a path of every machine")

    assert [name for name, text in tracked_files().items() if f"{parent}{os.sep}" in text] == []


def test_every_id_is_listed_once() -> None:
    ids = re.findall(r"^- (\S+)", (ROOT / "docs" / "ids.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert len(ids) == len(set(ids))


def claims_of(test_file: str, folder: Path) -> tuple[int, dict[str, dict[str, list[str]]]]:
    """Run a test file with our plugin; returns the exit code and what the plugin wrote."""
    (folder / "test_it.py").write_text(test_file, encoding="utf-8")
    options = [
        "-p",
        "tests.plugins.claims",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(folder),
    ]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        *options,
        "--claims",
        str(folder / "claims.json"),
        str(folder),
    ]
    code = subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode
    return code, json.loads((folder / "claims.json").read_text(encoding="utf-8"))


def test_only_a_passing_test_claims_its_ids(tmp_path: Path) -> None:
    source = """
import pytest

pytestmark = pytest.mark.scenario("HIT-01")

@pytest.mark.requirement("L-DEF-1")
@pytest.mark.parametrize("n", [1, 2])
def test_passes(n): pass

@pytest.mark.requirement("L-DEF-2")
@pytest.mark.parametrize("n", [1, 2])
def test_fails_once(n): assert n == 1

@pytest.mark.requirement("L-DEF-3")
@pytest.mark.skip
def test_is_skipped(): pass

@pytest.mark.requirement("L-DEF-4")
@pytest.mark.xfail
def test_passes_unexpectedly(): pass
"""

    _, found = claims_of(source, tmp_path)

    assert found == {
        "claims": {"L-DEF-1": ["test_it.py::test_passes"], "HIT-01": ["test_it.py::test_passes"]},
        "unknown": {},
    }


def test_an_id_that_does_not_exist_stops_the_run(tmp_path: Path) -> None:
    source = "import pytest\n@pytest.mark.scenario('XYZ-1')\ndef test_it(): pass\n"

    code, found = claims_of(source, tmp_path)

    assert code == pytest.ExitCode.USAGE_ERROR
    assert found["unknown"] == {"XYZ-1": ["test_it.py::test_it"]}
