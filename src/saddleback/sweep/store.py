"""A folder of results: one Parquet shard for each finished task, whole or absent.

    store/manifest.json        what study this is: its choices, their hash, versions, command
    store/shards/NAME.parquet  the rows of one task

A shard is written aside, flushed to disk and renamed, so it is there whole or not at all; running
again does only what is missing. A shard that cannot be read is set aside under another name and
said so, and its task is done again. Reading needs nothing of ours: the shards are plain Parquet.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from saddleback.errors import InvalidParameter

SCHEMA = 1
"""Version of the layout of a store."""


PACKAGES = ("saddleback", "numpy", "scipy", "numba", "pyarrow")
"""Whose versions a manifest names."""


class Store:
    """Results of one study in a folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store.open(Path(folder) / "s", {"name": "squares", "n": 2}, command="")
    ...     for i in range(2):
    ...         store.put(f"task-{i}", pa.table({"i": [i], "square": [i * i]}))
    ...     store.has("task-1"), store.table()["square"].to_pylist()
    (True, [0, 1])
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        self.set_aside: list[str] = []

    @classmethod
    def open(cls, folder: Path, study: Mapping[str, Any], command: str) -> Self:
        """Open the store of a study, making it if there is none; refuse that of another study."""
        wanted = json.loads(json.dumps(study))
        path = folder / "manifest.json"
        try:
            if path.exists():
                manifest = cls._read(path)
                _same_study(folder, manifest["study"], wanted)
                return cls(folder, manifest)
            (folder / "shards").mkdir(parents=True, exist_ok=True)
            manifest = {
                "schema": SCHEMA,
                "study": wanted,
                "hash": digest(wanted),
                "command": command,
                "versions": {
                    "python": platform.python_version(),
                    **{name: version(name) for name in PACKAGES},
                },
            }
            write_whole(path, (json.dumps(manifest, indent=1) + "\n").encode())
        except OSError as error:
            raise InvalidParameter(
                f"cannot write into {folder}: {error.strerror}. Choose another folder with --out."
            ) from None
        return cls(folder, manifest)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open a store for reading."""
        try:
            return cls(folder, cls._read(folder / "manifest.json"))
        except OSError as error:
            raise InvalidParameter(f"{folder} holds no results: {error.strerror}.") from None

    @staticmethod
    def _read(path: Path) -> dict[str, Any]:
        try:
            manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            schema = manifest["schema"]
        except (ValueError, KeyError, TypeError):
            raise InvalidParameter(
                f"{path} is not the manifest of a store, or is damaged. Choose another folder."
            ) from None
        if schema != SCHEMA:
            raise InvalidParameter(f"{path} has schema {schema}; this version reads {SCHEMA}.")
        return manifest

    def expect(self, part: str, study: Mapping[str, Any]) -> None:
        """Refuse results whose study differs from this in a part."""
        _same_study(self.folder, {part: self.manifest["study"].get(part)}, {part: study})

    def _shard(self, name: str) -> Path:
        return self.folder / "shards" / f"{name}.parquet"

    def has(self, name: str) -> bool:
        """Whether a task is finished; a damaged shard is set aside, and counts as not."""
        path = self._shard(name)
        if not path.exists():
            return False
        try:
            pq.read_table(path)
        except (OSError, pa.ArrowException):
            path.replace(path.with_suffix(".damaged"))
            self.set_aside.append(path.name)
            return False
        return True

    def put(self, name: str, rows: pa.Table) -> None:
        """Keep the rows of a finished task."""
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd")
        try:
            write_whole(self._shard(name), sink.getvalue().to_pybytes())
        except OSError as error:
            raise InvalidParameter(
                f"cannot write {self._shard(name)}: {error.strerror}. What is finished is kept; "
                "make room and run again."
            ) from None

    def shard(self, name: str) -> pa.Table:
        """Return the rows of one finished task."""
        return pq.read_table(self._shard(name))

    def table(self) -> pa.Table:
        """Return the rows of all finished tasks, in the order of their names."""
        paths = sorted((self.folder / "shards").glob("*.parquet"))
        return pa.concat_tables([pq.read_table(path) for path in paths])


def digest(study: Mapping[str, Any]) -> str:
    """Hash of what a study chose."""
    return hashlib.sha256(json.dumps(study, sort_keys=True).encode()).hexdigest()[:16]


def _same_study(folder: Path, there: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse to mix studies, naming the first choice in which they differ."""
    found = _difference(there, json.loads(json.dumps(wanted)))
    if found is not None:
        name, one, other = found
        raise InvalidParameter(
            f"{folder} holds another study: there {name} is {one}, here {other}. Nothing was "
            "changed; choose another folder with --out."
        )


def _difference(there: Any, wanted: Any) -> tuple[str, str, str] | None:
    """Where two studies first differ, and what each says there."""
    for name in sorted(set(there) | set(wanted)):
        one, other = there.get(name), wanted.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            inner = _difference(one, other)
            if inner is not None:
                return f"{name}: {inner[0]}", *inner[1:]
        elif one != other:
            return name, _said(one), _said(other)
    return None


def _said(value: Any) -> str:
    """Put a choice in words."""
    return "nothing" if value is None else repr(value)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    aside = path.with_name(f".{path.name}.part")
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
