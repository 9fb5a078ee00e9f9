"""The places in TensorFlow that are changed, each only while its source is the one that is known."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: How many hexadecimal digits of a hash are compared.
_DIGITS = 12


@dataclass(frozen=True)
class Seam:
    """A function of TensorFlow that is replaced."""

    #: Its module, below ``tensorflow.python``.
    module: str
    #: Its name in that module, as ``Class.method``.
    function: str
    #: The hash of the source that our replacement was written for.
    known: str
    #: What the replacement is for.
    purpose: str

    @property
    def name(self) -> str:
        """The full name."""
        return f"tensorflow.python.{self.module}.{self.function}"


@dataclass(frozen=True)
class SeamStatus:
    """What has become of a seam."""

    #: The function of TensorFlow, by its full name.
    name: str
    #: What its replacement is for.
    purpose: str
    #: Whether it is replaced at the moment.
    on: bool
    #: The hash of its source; ``None`` if there is no such function.
    found: str | None
    #: Why it can't be replaced; ``None`` if it can.
    refused: str | None


class _Bare(ast.NodeTransformer):
    """Leaves out what doesn't change what a function does: docstrings and annotations."""

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
    """The hash of a function's source, whatever its layout, comments, docstring and annotations.

    >>> source_hash("def f(a: int): return a") == source_hash("def f(a):\\n  return a  # a")
    True
    """
    tree = _Bare().visit(ast.parse(textwrap.dedent(source)))
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:_DIGITS]


def _find(seam: Seam) -> tuple[Any, str, Any]:
    """What holds the function, the name it has there, and the function."""
    owner: Any = importlib.import_module(f"tensorflow.python.{seam.module}")
    *outer, name = seam.function.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, name, vars(owner)[name]


class Patches:
    """Replacements that are in place, and how to take them back."""

    def __init__(self) -> None:
        self._on: dict[Seam, tuple[Any, str, Any, Any]] = {}

    def check(self, seam: Seam) -> SeamStatus:
        """What there is at a seam; changes nothing."""

        def status(found: str | None, refused: str | None) -> SeamStatus:
            return SeamStatus(seam.name, seam.purpose, False, found, refused)

        if seam in self._on:
            return SeamStatus(seam.name, seam.purpose, True, seam.known, None)
        try:
            _, _, function = _find(seam)
        except (ImportError, AttributeError, KeyError):
            return status(None, "this TensorFlow has no such function")
        try:
            found = source_hash(inspect.getsource(function))
        except (OSError, TypeError, SyntaxError):
            return status(None, "its source can't be read")
        if found != seam.known:
            return status(found, f"its source is unknown here: expected {seam.known}")
        return status(found, None)

    def apply(self, seam: Seam, replacement: Callable[[Any], Any]) -> SeamStatus:
        """Replaces a function by what ``replacement(function)`` gives, if its source is known."""
        status = self.check(seam)
        if status.refused is None and not status.on:
            owner, name, original = _find(seam)
            ours = replacement(original)
            setattr(owner, name, ours)
            self._on[seam] = (owner, name, original, ours)
            status = self.check(seam)
        return status

    def revert(self) -> None:
        """Puts every function back, but for those that someone else has replaced meanwhile."""
        for owner, name, original, ours in self._on.values():
            # Whoever calls ours from theirs gets TensorFlow's behaviour: it is off by then.
            if vars(owner).get(name) is ours:
                setattr(owner, name, original)
        self._on.clear()
