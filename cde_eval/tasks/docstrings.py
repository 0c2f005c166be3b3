"""Read the docstrings of an installed package from its source, without importing it.

    "scipy" ──▶ source_files ──▶ ast ──▶ read_docstrings ──▶ Docstring(module, name, text)

The source is parsed and never run. So reading has no side effects, needs no working accelerator
or compiler behind the package, and gives the same text on every machine with the same version.
Only public objects are read: nobody searches for the documentation of `_helper`.
"""

from __future__ import annotations

import ast
import importlib.util
import platform
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

PYTHON = "python"
"""The domain name of the standard library, which is not a package."""

DISTRIBUTIONS = {"sklearn": "scikit-learn"}
"""What to ask a version of, where that is not the package's own name."""

SKIPPED_FOLDERS = frozenset(
    "test tests testing benchmarks externals vendored _vendored _vendor _antlr _external _internal "
    "distutils ensurepip idlelib lib2to3 pydoc_data turtledemo __phello__".split()
)
"""Folders of tests, of copies of other packages, and of generated code."""

ADDERS = frozenset({"add_newdoc", "add_docstr", "_add_docstr", "add_docstr_all"})
"""Functions by which numpy, scipy and torch attach docstrings to objects written in C."""

PLACEHOLDER = re.compile(r"(?<!\{)\{\w+\}(?!\})")


class Docstring(NamedTuple):
    """One docstring as its author wrote it."""

    module: str
    """Dotted module that the text stands in, such as "scipy.stats._stats_py"."""

    name: str
    """Object within that module, such as "Rotation.inv"; empty for the module itself."""

    text: str
    """The raw docstring, indentation included."""


def installed_version(package: str) -> str | None:
    """Version of a package, or of Python for its standard library; None if it is not installed."""
    if package == PYTHON:
        return platform.python_version()
    try:
        version = metadata.version(DISTRIBUTIONS.get(package, package))
    except metadata.PackageNotFoundError:
        return None
    return version if _folder(package) else None


def read_docstrings(package: str) -> Iterator[Docstring]:
    """Give each public docstring of an installed package, in the order of files and lines.

    A file that this Python cannot parse is left out: packages carry templates and code for
    later Pythons.
    """
    for module, path in source_files(package):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # their "\d" is theirs to mend
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        text = ast.get_docstring(tree, clean=False)
        if text and "._" not in f".{module}":
            yield Docstring(module, "", text)
        for name, text in _public_docstrings(tree.body):
            yield Docstring(module, name, text)


def source_files(package: str) -> list[tuple[str, Path]]:
    """Dotted module name and path of each file worth reading, sorted by path."""
    folder = _folder(package)
    if folder is None:
        return []
    paths = {path.relative_to(folder).with_suffix("").parts: path for path in folder.rglob("*.py")}
    prefix = () if package == PYTHON else (package,)
    return [
        (".".join(prefix + (parts[:-1] if parts[-1] == "__init__" else parts)), path)
        for parts, path in sorted(paths.items())
        if _worth_reading(parts)
    ]


def _folder(package: str) -> Path | None:
    if package == PYTHON:
        return Path(sysconfig.get_path("stdlib"))
    spec = importlib.util.find_spec(package)  # of a top-level name: looks, and imports nothing
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def _worth_reading(parts: Sequence[str]) -> bool:
    *folders, file = parts
    if not all(part.isidentifier() for part in parts) or SKIPPED_FOLDERS & set(folders):
        return False  # "site-packages" and "lib-dynload" are no identifiers
    if folders and folders[0].startswith("_") and folders[0] != "_core":
        return False  # internals, such as torch._inductor; numpy keeps its public half in _core
    return not file.startswith(("test_", "_testing", "conftest", "_sysconfigdata", "__hello"))


def _public_docstrings(body: Sequence[ast.stmt], inside: str = "") -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name.startswith("_"):
                continue
            if text := ast.get_docstring(node, clean=False):
                yield inside + node.name, text
            if isinstance(node, ast.ClassDef):
                yield from _public_docstrings(node.body, f"{inside}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _public_docstrings([*node.body, *node.orelse], inside)
        elif isinstance(node, ast.Expr | ast.Assign) and (attached := _attached(node)):
            yield attached


def _attached(node: ast.Expr | ast.Assign) -> tuple[str, str] | None:
    """Read `add_newdoc("numpy", "name", "text")` and `name = add_docstr(torch.name, "text")`."""
    call = node.value
    if not isinstance(call, ast.Call) or _last_name(call.func) not in ADDERS:
        return None
    *owners, last = _flat(call.args) or [call]
    text = _literal(last)
    names = [_last_name(owner) for owner in owners]
    if isinstance(node, ast.Assign):
        names = [_last_name(node.targets[0])]
    elif len(names) > 1 and _last_name(call.func) == "add_newdoc":
        names = names[1:]  # the first one is the module
    if not text or not names or any(not name or name.startswith("_") for name in names):
        return None
    return ".".join(names), text


def _flat(arguments: Sequence[ast.expr]) -> list[ast.expr]:
    return [leaf for node in arguments for leaf in getattr(node, "elts", [node])]


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return _literal(node)


def _literal(node: ast.expr) -> str:
    """The string that an expression of literals spells, or "" if it needs running."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _literal(node.left), _literal(node.right)
        return left + right if left and right else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "format":  # torch fills shared paragraphs in; read the text without
            text = PLACEHOLDER.sub("", _literal(node.func.value))
            return text.replace("{{", "{").replace("}}", "}")
    return ""
