"""User code named as ``path/to/module.py:name``: target policies, features, problems, rules."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

from saddleback import _registry
from saddleback.errors import InvalidParameter

USER_ERRORS = (Exception, SystemExit)
"""What code of a user may raise; Ctrl-C is not among it."""


def load(spec: str) -> Any:
    """Import a Python file and return the object that ``path/to/module.py:name`` refers to.

    The folder of the file is on ``sys.path`` while it is imported, so it may import its neighbours.
    """
    return _object(spec, _import)


def load_once(spec: str) -> Any:
    """Like `load`, but import a file again only if it has changed: its classes stay the same."""

    def import_file(path: str) -> ModuleType:
        absolute = str(Path(path).resolve())
        with _LOCK:
            _LOADED[absolute] = _import_content(absolute, _digest(path))
            return _LOADED[absolute]

    return _object(spec, import_file)


def file_of(kind: type) -> str | None:
    """Return the absolute path of the file that `load_once` has a class from, if there is one."""
    name = kind.__name__
    return next((path for path, module in _LOADED.items() if vars(module).get(name) is kind), None)


_LOCK = RLock()
_LOADED: dict[str, ModuleType] = {}
"""The latest module of each file that `load_once` imported."""


def _object(spec: str, import_file: Callable[[str], ModuleType]) -> Any:
    path, _, attribute = spec.rpartition(":")
    if not path or not attribute:
        file = spec.rstrip(":")
        raise InvalidParameter(f"{spec!r} names a file but no object in it: write {file}:function.")
    if not Path(path).is_file():
        raise InvalidParameter(f"{path} is not a file: write path/to/module.py:{attribute}.")
    module = import_file(path)
    names = [name for name in vars(module) if not name.startswith("_")]
    return getattr(module, _registry.check_name(f"name in {path}", attribute, names))


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@lru_cache(64)
def _import_content(path: str, digest: str) -> ModuleType:
    return _import(path)


def _import(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise InvalidParameter(f"{path} is not a Python file: write path/to/module.py:name.")
    module = importlib.util.module_from_spec(spec)
    folder = str(Path(path).resolve().parent)
    sys.modules.setdefault(spec.name, module)
    sys.path.insert(0, folder)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # leave the folder as it is
    try:
        spec.loader.exec_module(module)
    except USER_ERRORS as error:
        raise InvalidParameter(
            f"importing {path} failed: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.dont_write_bytecode = written
        sys.path.remove(folder)
    return module
