"""Enables :mod:`proto_splitter.tensorflow` as soon as TensorFlow is imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from . import enable


class _Loader(importlib.abc.Loader):
    """A loader that loads TensorFlow as usual, and then calls :func:`enable`."""

    def __init__(self, theirs: Any, finder: _Finder) -> None:
        self._theirs, self._finder = theirs, finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._theirs.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._theirs
        self._theirs.exec_module(module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        enable()


class _Finder(importlib.abc.MetaPathFinder):
    """A finder that makes the import of TensorFlow use :class:`_Loader`.

    It stays until TensorFlow is imported, since programs also request a spec without importing
    TensorFlow, to find out whether it is installed.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "tensorflow" or getattr(self._local, "is_asking", False):
            return None
        # While this thread asks all finders, this finder leaves the answer to the others.
        self._local.is_asking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._local.is_asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


if "tensorflow" in sys.modules:
    enable()
else:
    sys.meta_path.insert(0, _Finder())
