"""User code named as ``path/to/module.py:name``: target policies, features, problems."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from saddleback import _registry
from saddleback.errors import InvalidParameter


def load(spec: str) -> Any:
    """Import a Python file and return the object that ``path/to/module.py:name`` refers to.

    The folder of the file is on ``sys.path`` while it is imported, so it may import its neighbours.
    """
    path, _, attribute = spec.rpartition(":")
    if not path or not attribute:
        file = spec.rstrip(":")
        raise InvalidParameter(f"{spec!r} names a file but no object in it: write {file}:function.")
    if not Path(path).is_file():
        raise InvalidParameter(f"{path} is not a file: write path/to/module.py:{attribute}.")
    module_spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if module_spec is None or module_spec.loader is None:
        raise InvalidParameter(f"{path} is not a Python file: write path/to/module.py:{attribute}.")
    module = importlib.util.module_from_spec(module_spec)
    folder = str(Path(path).resolve().parent)
    sys.modules.setdefault(module_spec.name, module)
    sys.path.insert(0, folder)
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:
        raise InvalidParameter(
            f"importing {path} failed: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(folder)
    names = [name for name in vars(module) if not name.startswith("_")]
    return getattr(module, _registry.check_name(f"name in {path}", attribute, names))
