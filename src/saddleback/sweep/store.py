"""A folder of results: one file for each finished task, whole or absent.

    store/manifest.json        what study this is: its choices, their hash, versions, command
    store/shards/NAME.parquet  what one task found
    store/SHA256SUMS           the hash of every shard, as ``sha256sum -c`` reads them
    store/damaged/             shards that were not what was written, if there were any
    store/.lock                held by the process that writes here, as long as it lives

A shard is written aside, flushed to disk and renamed, so it is there whole or not at all; running
again does only what is missing. A shard that is not what was written is set aside and said so, and
its task is done again. Reading needs nothing of ours: the shards of a sweep are plain Parquet, and
nothing else is among them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from saddleback._provenance import versions
from saddleback.errors import InvalidParameter
from saddleback.sweep.file_lock import Lock

SUMS = "SHA256SUMS"

SCHEMA = 2
"""Version of the layout of a store."""

PARTS = {"study": dict, "hash": str, "suffix": str, "command": str, "versions": dict}
"""What a manifest must say, besides its schema."""


class Store:
    """Results of one study in a folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.open(Path(folder) / "s", {"name": "squares", "n": 2}, command="") as store:
    ...         for i in range(2):
    ...             store.put(f"task-{i}", packed(pa.table({"i": [i], "square": [i * i]})))
    ...         store.has("task-1"), store.table()["square"].to_pylist()
    (True, [0, 1])
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], lock: Lock | None = None) -> None:
        self.folder, self.manifest = folder, manifest
        self.set_aside: list[str] = []
        # Shards are listed before hashes are read: another process may be adding both.
        found = [path.name for path in (folder / "shards").glob(f"*{manifest['suffix']}")]
        self._lock, self._sums = lock, _read_sums(folder / SUMS)
        if found and not any(name in self._sums for name in found):
            self.close()
            raise InvalidParameter(
                f"{folder / SUMS} is missing or damaged: nothing says whether the {len(found):,} "
                "shards are whole. If you trust them, write it again: cd "
                f"{shlex.quote(str(folder))} && sha256sum shards/* > {SUMS}; else choose another "
                "folder."
            )

    @classmethod
    def open(
        cls,
        folder: Path,
        study: Mapping[str, Any],
        command: str,
        suffix: str = ".parquet",
        fix: str = "Choose another folder with --out.",
    ) -> Self:
        """Open the store of a study to write, making it if there is none.

        Refused are that of another study, and one that another process is writing to.
        """
        wanted = json.loads(json.dumps(study))
        try:
            (folder / "shards").mkdir(parents=True, exist_ok=True)
            lock = Lock.take(folder)
            try:
                manifest = cls._begin(folder, wanted, command, suffix, fix)
            except BaseException:
                lock.give_back()
                raise
        except OSError as error:
            raise InvalidParameter(
                f"cannot write into {folder}: {error.strerror}. Choose another folder with --out."
            ) from None
        return cls(folder, manifest, lock)

    @classmethod
    def _begin(
        cls, folder: Path, study: Mapping[str, Any], command: str, suffix: str, fix: str
    ) -> dict[str, Any]:
        """Return the manifest, which is written if there is none."""
        path = folder / "manifest.json"
        if path.exists():
            manifest = read_manifest(path)
            same_study(folder, manifest["study"], study, fix)
        else:
            manifest = new_manifest(study, command, suffix)
            write_whole(path, (json.dumps(manifest, indent=1) + "\n").encode())
        for part in (folder / "shards").glob(".*.part"):  # what a dead process left
            part.unlink()
        return manifest

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open a store for reading."""
        try:
            return cls(folder, read_manifest(folder / "manifest.json"))
        except FileNotFoundError:
            raise InvalidParameter(f"{folder} holds no results: {absent(folder)}") from None
        except OSError as error:
            raise InvalidParameter(f"{folder} holds no results: {error.strerror}.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others write here."""
        if self._lock is not None:
            self._lock.give_back()

    @property
    def strangers(self) -> dict[str, tuple[str, str]]:
        """Packages whose versions are not those the store was begun with: then and now."""
        then, now = self.manifest["versions"], versions()
        return {
            name: (then.get(name, "none"), now[name]) for name in now if then.get(name) != now[name]
        }

    def expect(self, part: str, study: Mapping[str, Any]) -> None:
        """Refuse results whose study differs from this in a part."""
        same_study(self.folder, {part: self.manifest["study"].get(part)}, {part: study})

    def path(self, name: str) -> Path:
        """Where the shard of a task is, or will be."""
        return self.folder / "shards" / f"{name}{self.manifest['suffix']}"

    def has(self, name: str) -> bool:
        """Whether a task is finished; a damaged shard is set aside, and counts as not."""
        path = self.path(name)
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None
        if found == self._sums.get(path.name):
            return True
        aside = self.folder / "damaged" / path.name
        aside.parent.mkdir(exist_ok=True)
        count = 1
        while aside.exists():
            count += 1
            aside = aside.with_name(f"{path.name}-{count}")
        path.replace(aside)
        self.set_aside.append(path.name)
        return False

    def put(self, name: str, content: bytes) -> None:
        """Keep what a finished task found."""
        path, found = self.path(name), hashlib.sha256(content).hexdigest()
        try:
            # The hash comes first: a shard that is there has one, whenever we are stopped.
            _append(self.folder / SUMS, f"{found}  shards/{path.name}\n")
            write_whole(path, content)
        except OSError as error:
            raise InvalidParameter(
                f"cannot write {path}: {error.strerror}. What is finished is kept; make room and "
                "run again."
            ) from None
        self._sums[path.name] = found

    def names(self) -> list[str]:
        """Return the names of all finished tasks, in order; other files are not looked at."""
        suffix = self.manifest["suffix"]
        found = (name.removesuffix(suffix) for name in self._sums if name.endswith(suffix))
        return sorted(name for name in found if self.path(name).exists())

    def shard(self, name: str) -> pa.Table:
        """Return the rows of one finished task, refusing what is not what was written."""
        path = self.path(name)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None
        if hashlib.sha256(content).hexdigest() != self._sums.get(path.name):
            raise InvalidParameter(
                f"{path} is damaged. Run the study again: what is whole is kept, and this done "
                "anew."
            )
        return pq.read_table(pa.BufferReader(content), use_threads=False)

    def table(self) -> pa.Table:
        """Return the rows of all finished tasks, in the order of their names."""
        return pa.concat_tables([self.shard(name) for name in self.names()])


def packed(rows: pa.Table, facts: Mapping[str, Any] | None = None) -> bytes:
    """Return rows as a Parquet file, with facts about them in its metadata as JSON."""
    if facts is not None:
        rows = rows.replace_schema_metadata({"saddleback": json.dumps(facts)})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def facts_of(path: Path) -> dict[str, Any]:
    """Return the facts that a shard says of itself."""
    found: dict[str, Any] = json.loads(pq.read_schema(path).metadata[b"saddleback"])
    return found


def same_versions(wanted: Mapping[str, str]) -> None:
    """Refuse to work here with other versions than are wanted."""
    here = versions()
    for name, version_ in wanted.items():
        if here[name] != version_:
            raise InvalidParameter(
                f"a worker has {name} {here[name]}, and {version_} is wanted: results would not be "
                "the same to the bit. Install the same versions everywhere."
            )


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    aside = path.with_name(f".{path.name}.part")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name is on disk too
    finally:
        os.close(folder)


def _append(path: Path, line: str) -> None:
    """Add a line to a file; one that was cut off by the end of a process is ended first."""
    with path.open("ab+") as file:
        file.seek(max(0, file.tell() - 1))
        torn = file.read(1) not in (b"", b"\n")
        file.write(("\n" if torn else "").encode() + line.encode())
        file.flush()
        os.fsync(file.fileno())


def _read_sums(path: Path) -> dict[str, str]:
    """Return the last hash of each shard by its name; lines that are none are passed over."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    pairs = [line.split("  shards/") for line in lines]
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}


def new_manifest(study: Mapping[str, Any], command: str, suffix: str) -> dict[str, Any]:
    """Return the manifest of a store that is begun."""
    return {
        "schema": SCHEMA, "study": study, "hash": digest(study), "suffix": suffix,
        "command": command, "versions": versions(),
    }  # fmt: skip


def read_manifest(path: Path) -> dict[str, Any]:
    """Read what a store says of itself; refuse what is damaged, or of another version."""
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        schema = int(manifest["schema"])
        whole = schema != SCHEMA or (
            all(isinstance(manifest[name], kind) for name, kind in PARTS.items())
            and manifest["hash"] == digest(manifest["study"])
        )
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise InvalidParameter(
            f"{path} is not the manifest of a store, or is damaged. Choose another folder."
        )
    if schema > SCHEMA:
        raise InvalidParameter(
            f"{path} has schema {schema}, written by a newer saddleback; this one reads "
            f"{SCHEMA}. Update it: pip install --upgrade saddleback."
        )
    if schema < SCHEMA:
        raise InvalidParameter(
            f"{path} has schema {schema}; this version reads {SCHEMA}. Run the study again "
            "into another folder."
        )
    return manifest


def digest(study: Mapping[str, Any]) -> str:
    """Hash of what a study chose; its title is no choice."""
    chosen = {name: value for name, value in study.items() if name != "title"}
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16]


def absent(folder: Path) -> str:
    """Say why a folder is no store, and which one may have been meant."""
    if not folder.exists():
        return "there is no such file or folder."
    said = "it has no manifest.json, which saddleback sweep and saddleback paper write."
    return said + (f" Did you mean {folder.parent}?" * (folder.parent / "manifest.json").exists())


def same_study(
    folder: Path,
    there: Mapping[str, Any],
    wanted: Mapping[str, Any],
    fix: str = "Choose another folder with --out.",
) -> None:
    """Refuse to mix studies, naming the first choice in which they differ."""
    same = {"title": None}
    found = _difference({**there, **same}, json.loads(json.dumps({**wanted, **same})))
    if found is not None:
        name, one, other = found
        raise InvalidParameter(
            f"{folder} holds another study: there {name} is {one}, here {other}. Nothing was "
            f"changed. {fix}"
        )


def _difference(there: Any, wanted: Any) -> tuple[str, str, str] | None:
    """Where two studies first differ, and what each says there."""
    for name in sorted(set(there) | set(wanted)):
        one, other = _named(there.get(name)), _named(wanted.get(name))
        if isinstance(one, dict) and isinstance(other, dict):
            inner = _difference(one, other)
            if inner is not None:
                return f"{name}: {inner[0]}", *inner[1:]
            if isinstance(there.get(name), list) and list(one) != list(other):
                return f"the order of {name}", _said(list(one)), _said(list(other))
        elif one != other:
            return name, _said(one), _said(other)
    return None


def _named(value: Any) -> Any:
    """Return a list of tables by their labels or numbers."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {str(each.get("label", k)): each for k, each in enumerate(value)}
    return value


def _said(value: Any) -> str:
    """Put a choice in words."""
    said = repr(value)
    return "nothing" if value is None else said if len(said) <= 60 else f"{said[:57]}..."
