"""Replacing TensorFlow functions, each only if its source is known."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

#: Number of hexadecimal digits of a source's hash.
_DIGITS = 12


@dataclass(frozen=True)
class Seam:
    """A TensorFlow function to replace."""

    #: The name of the function's module, relative to ``tensorflow.python``.
    module: str
    #: The function's name in the module, such as ``Class.method``.
    function: str
    #: The hashes of the function's sources for which the replacement was written.
    known: tuple[str, ...]
    #: The purpose of the replacement.
    purpose: str

    @property
    def name(self) -> str:
        """The function's full name."""
        return f"tensorflow.python.{self.module}.{self.function}"


@dataclass(frozen=True)
class SeamStatus:
    """The state of a TensorFlow function to replace."""

    #: The full name of the TensorFlow function.
    name: str
    #: The purpose of the replacement.
    purpose: str
    #: True if the function is currently replaced.
    on: bool
    #: The hash of the function's source; ``None`` if there is no such function.
    found: str | None
    #: The reason why the function can't be replaced; ``None`` if it can.
    refused: str | None


class _Bare(ast.NodeTransformer):
    """A transformer of syntax trees that removes docstrings and annotations."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            if isinstance(first.value.value, str):
                node.body = node.body[1:] or [ast.Pass()]
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node


def source_hash(source: str) -> str:
    """Returns a hash of a function's source, ignoring layout, comments, docstring and annotations.

    >>> source_hash("def f(a: int): return a") == source_hash("def f(a):\\n  return a  # a")
    True
    """
    tree = _Bare().visit(ast.parse(textwrap.dedent(source)))
    return hashlib.sha256("\n".join(_tokens(tree)).encode()).hexdigest()[:_DIGITS]


def _tokens(node: object) -> Iterator[str]:
    """Converts a syntax tree to words that are the same in every version of Python.

    The results of ``ast.unparse`` and ``ast.dump`` differ between versions.
    """
    if isinstance(node, ast.AST):
        yield type(node).__name__
        for name, value in ast.iter_fields(node):
            # Empty fields are skipped, since later versions of Python have additional fields, which
            # are empty for code that also runs in earlier versions.
            if name not in ("ctx", "kind", "type_comment") and value not in (None, []):
                yield name
                yield from _tokens(value)
        yield "."
    elif isinstance(node, list):
        for one in node:
            yield from _tokens(one)
    else:
        yield repr(node)


def _find(seam: Seam) -> tuple[Any, str, Any]:
    """Returns a function's owner (a module or class), the name in its owner, and the function."""
    owner: Any = importlib.import_module(f"tensorflow.python.{seam.module}")
    *outer, name = seam.function.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, name, vars(owner)[name]


class Patches:
    """The installed replacements, which can be reverted."""

    def __init__(self) -> None:
        self._on: dict[Seam, tuple[Any, str, Any, Any, str | None]] = {}

    def check(self, seam: Seam) -> SeamStatus:
        """Returns the state of a function, without replacing it."""

        def status(found: str | None, refused: str | None) -> SeamStatus:
            return SeamStatus(seam.name, seam.purpose, False, found, refused)

        if seam in self._on:
            return SeamStatus(seam.name, seam.purpose, True, self._on[seam][4], None)
        try:
            _, _, function = _find(seam)
        except (ImportError, AttributeError, KeyError):
            return status(None, "this TensorFlow has no such function")
        try:
            found = source_hash(inspect.getsource(function))
        except (OSError, TypeError, SyntaxError):
            return status(None, "its source can't be read")
        if found not in seam.known:
            known = " or ".join(seam.known)
            return status(found, f"its source is unknown: expected {known}")
        return status(found, None)

    def apply(self, seam: Seam, replacement: Callable[[Any], Any]) -> SeamStatus:
        """Replaces a function with ``replacement(function)`` if its source is known."""
        status = self.check(seam)
        if status.refused is None and not status.on:
            owner, name, original = _find(seam)
            ours = replacement(original)
            setattr(owner, name, ours)
            self._on[seam] = (owner, name, original, ours, status.found)
            status = self.check(seam)
        return status

    def revert(self) -> None:
        """Restores the original functions, except those that other code has replaced since."""
        for owner, name, original, ours, _ in self._on.values():
            # If the replacement from other code calls ours, ours has TensorFlow's behavior from now
            # on.
            if vars(owner).get(name) is ours:
                setattr(owner, name, original)
        self._on.clear()
