"""A folder of results: one file per finished task, complete or absent.

    store/manifest.json        the study, its hash, package versions and the command
    store/shards/NAME.parquet  the rows of one task
    store/SHA256SUMS           the hash of every shard, in the format of ``sha256sum -c``
    store/damaged/             shards that do not match their hash, if any
    store/.lock, .owner        held by the process that writes here, for as long as it lives

A shard is written to a temporary file, flushed to disk and renamed, so it exists complete or not at
all; a second run computes only the missing tasks. A shard that does not match its hash is moved to
``damaged/`` with a warning, and its task is computed again. The shards of a sweep are plain Parquet
files, readable without this package.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shlex
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from saddleback._paths import atomic_write
from saddleback._provenance import versions
from saddleback.errors import Fix, InvalidParameter
from saddleback.sweep.manifest import (
    ANOTHER_FOLDER,
    SCHEMA,
    Manifest,
    check_same_study,
    read_manifest,
    study_hash,
)

logger = logging.getLogger(__name__)

SUMS = "SHA256SUMS"


class Store:
    """Results of one study in a folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.open(Path(folder) / "s", {"name": "squares", "n": 2}, command="") as store:
    ...         for i in range(2):
    ...             store.put(f"task-{i}", parquet_bytes(pa.table({"i": [i], "square": [i * i]})))
    ...         store.has("task-1"), store.table()["square"].to_pylist()
    (True, [0, 1])
    """

    def __init__(
        self, folder: Path, manifest: Mapping[str, Any], lock: FileLock | None = None
    ) -> None:
        self.folder, self.manifest = folder, manifest
        # Shards are listed before hashes are read: another process may be adding both.
        shards = [path.name for path in (folder / "shards").glob(f"*{manifest['suffix']}")]
        self._lock, self._sums = lock, _read_sums(folder / SUMS)
        self._verified: set[str] = set()  # names whose shards matched their hashes
        self._schema: pa.Schema | None = None  # of the shards together, once it is needed
        if shards and not any(name in self._sums for name in shards):
            self.close()
            raise InvalidParameter(
                f"{folder / SUMS} is missing or damaged, so the {len(shards):,} shards cannot be "
                "verified. If you trust them, recreate it: cd "
                f"{shlex.quote(str(folder))} && sha256sum shards/* > {SUMS}; otherwise choose "
                "another folder."
            )

    @classmethod
    def open(
        cls,
        folder: Path,
        study: Mapping[str, Any],
        command: str,
        suffix: Literal[".parquet", ".npz"] = ".parquet",
        fix: Fix = ANOTHER_FOLDER,
    ) -> Self:
        """Open the store of a study for writing; create it if it does not exist.

        Refuses the store of a different study, and one that another process is writing to.
        """
        plain = json.loads(json.dumps(study, allow_nan=False))
        for name in ("shards", "damaged", "manifest.json", SUMS, ".lock", ".owner"):
            if (folder / name).is_symlink():
                raise InvalidParameter(
                    f"{folder / name} is a link: nothing is written outside of a store.",
                    ANOTHER_FOLDER,
                )
        try:
            (folder / "shards").mkdir(parents=True, exist_ok=True)
            lock = _lock_folder(folder)
            try:
                manifest = cls._open_manifest(folder, plain, command, suffix, fix)
            except BaseException:
                _release(lock, folder)
                raise
        except OSError as error:
            raise InvalidParameter(
                f"cannot write into {folder}: {error.strerror}.", ANOTHER_FOLDER
            ) from None
        return cls(folder, manifest, lock)

    @classmethod
    def _open_manifest(
        cls,
        folder: Path,
        study: dict[str, Any],
        command: str,
        suffix: Literal[".parquet", ".npz"],
        fix: Fix,
    ) -> dict[str, Any]:
        """Return the manifest; write it if there is none."""
        path = folder / "manifest.json"
        if path.exists():
            manifest = read_manifest(path)
            check_same_study(folder, manifest["study"], study, fix)
        else:
            manifest = msgspec.structs.asdict(
                Manifest(SCHEMA, study, study_hash(study, suffix), suffix, command, versions())
            )
            atomic_write(path, (json.dumps(manifest, indent=1) + "\n").encode())
        for leftover in (folder / "shards").glob(".*.part"):  # of a process that was killed
            leftover.unlink()
        shutil.rmtree(_removed(folder), ignore_errors=True)
        return manifest

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open a store for reading."""
        try:
            return cls(folder, read_manifest(folder / "manifest.json"))
        except FileNotFoundError:
            raise InvalidParameter(f"{folder} holds no results: {_why_no_store(folder)}") from None
        except OSError as error:
            raise InvalidParameter(f"{folder} holds no results: {error.strerror}.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            _release(self._lock, self.folder)

    def remove(self) -> None:
        """Remove the folder; a process that is killed meanwhile leaves no half of a store."""
        shutil.rmtree(self.folder.rename(_removed(self.folder)))

    @property
    def version_mismatches(self) -> dict[str, tuple[str, str]]:
        """Packages whose version differs from that in the manifest: (manifest, current)."""
        stored, current = self.manifest["versions"], versions()
        return {
            name: (stored.get(name, "none"), current[name])
            for name in current
            if stored.get(name) != current[name]
        }

    def path(self, name: str) -> Path:
        """Return the path of the shard of a task, whether it exists or not."""
        return self.folder / "shards" / f"{name}{self.manifest['suffix']}"

    def has(self, name: str) -> bool:
        """Whether a task is finished; a damaged shard is moved aside and counts as missing."""
        path = self.path(name)
        if not path.exists():
            return False
        if name in self._verified or self._read(path)[1]:
            self._verified.add(name)
            return True
        aside = self.folder / "damaged" / path.name
        aside.parent.mkdir(exist_ok=True)
        count = 1
        while aside.exists():
            count += 1
            aside = aside.with_name(f"{path.name}-{count}")
        path.replace(aside)
        logger.warning("%s was damaged; moved to damaged/ and recomputed.", path.name)
        return False

    def put(self, name: str, content: bytes) -> None:
        """Write the shard of a finished task."""
        path, digest = self.path(name), hashlib.sha256(content).hexdigest()
        try:
            # The hash is written first: every shard on disk has one, even after a crash.
            _append(self.folder / SUMS, f"{digest}  shards/{path.name}\n")
            if path.is_symlink():
                path.unlink()
            atomic_write(path, content)
        except OSError as error:
            raise InvalidParameter(
                f"cannot write {path}: {error.strerror}. Finished tasks are kept; free some space "
                "and run again."
            ) from None
        self._sums[path.name] = digest

    def check_columns(self, content: bytes) -> None:
        """Refuse a shard that no table could hold together with the finished ones."""
        if self._schema is None:
            self._schema = pa.schema([])
            for name in sorted(self._verified):
                self.check_columns(self.path(name).read_bytes())
        schemas = [self._schema, pq.read_schema(pa.BufferReader(content))]
        try:
            self._schema = pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowTypeError as error:
            raise _no_table(error, " Finished tasks are kept.") from None

    def names(self) -> list[str]:
        """Return the names of all finished tasks, sorted; other files are ignored."""
        return [name for name in self._listed() if self.path(name).exists()]

    def _listed(self) -> list[str]:
        """Return the names of all tasks with a hash, sorted."""
        suffix = self.manifest["suffix"]
        return sorted(name.removesuffix(suffix) for name in self._sums if name.endswith(suffix))

    def _unlisted(self) -> list[str]:
        """Return files without a hash whose names differ from those of shards in numbers only."""
        kinds = {re.sub(r"\d", "0", name) for name in self._sums}
        files = (path.name for path in (self.folder / "shards").iterdir())
        return sorted(
            name for name in files if name not in self._sums and re.sub(r"\d", "0", name) in kinds
        )

    def shard(self, name: str) -> pa.Table:
        """Return the rows of one finished task; refuse a shard that does not match its hash."""
        path = self.path(name)
        content, intact = self._read(path)
        if not intact:
            raise InvalidParameter(
                f"{path} is damaged. Run the study again: intact shards are kept, and this one is "
                "recomputed."
            )
        return pq.read_table(pa.BufferReader(content), use_threads=False)

    def _read(self, path: Path) -> tuple[bytes, bool]:
        """Return the content of a shard, and whether it matches its hash."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None
        return content, hashlib.sha256(content).hexdigest() == self._sums.get(path.name)

    def table(self) -> pa.Table:
        """Return the rows of all finished tasks, in the order of their names.

        A store that lost a shard or its hash is refused; one that is not finished is not.
        """
        missing = sorted(set(self._listed()) - set(self.names()))
        unlisted = self._unlisted()
        if missing or unlisted:
            problem = (
                f"lacks {len(missing):,} of {len(self._sums):,} shards with a hash (first: "
                f"{self.path(missing[0]).name})"
                if missing
                else f"lacks the hash of {len(unlisted):,} shards (first: {unlisted[0]})"
            )
            raise InvalidParameter(
                f"{self.folder} {problem}. Run the study again: it computes them, and keeps the "
                "others."
            )
        return join_rows([self.shard(name) for name in self.names()])


def join_rows(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several tables; a column of integers and floats becomes one of floats."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise _no_table(error) from None


def _no_table(error: Exception, note: str = "") -> InvalidParameter:
    reason = str(error).removeprefix("Unable to merge: ").rstrip(".")
    return InvalidParameter(f"results of several types are no table: {reason}.{note}")


def parquet_bytes(rows: pa.Table, metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return rows as the content of a Parquet file, with metadata in its schema as JSON."""
    if metadata is not None:
        rows = rows.replace_schema_metadata({"saddleback": json.dumps(metadata)})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def check_versions(required: Mapping[str, str]) -> None:
    """Refuse to compute with other package versions than required."""
    installed = versions()
    for name, version_ in required.items():
        if installed[name] != version_:
            raise InvalidParameter(
                f"a worker has {name} {installed[name]} instead of {version_}; results would not "
                "be bit-identical. Install the same versions everywhere."
            )


def _lock_folder(folder: Path) -> FileLock:
    """Acquire the lock of a folder, which ends with its process; or name the owner in an error."""
    # Its file stays empty: acquiring may truncate it, and Windows forbids others to read it.
    lock = FileLock(folder / ".lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        owner = "another process"
        with suppress(OSError):
            owner = (folder / ".owner").read_text(encoding="utf-8").strip() or owner
        raise InvalidParameter(
            f"{folder} is being written by {owner}.",
            Fix("Wait for it to finish, or choose another folder", "out"),
        ) from None
    with suppress(OSError):  # on a full disk the lock is held without a name
        (folder / ".owner").write_text(
            f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%c')}",
            encoding="utf-8",
        )
    return lock


def _release(lock: FileLock, folder: Path) -> None:
    """Release the lock of a folder, unless it is released already."""
    if lock.is_locked:
        (folder / ".owner").unlink(missing_ok=True)
        lock.release()


def _removed(folder: Path) -> Path:
    """Return the name of a folder while it is removed."""
    return folder.with_name(f".{folder.name}.removed")


def _why_no_store(folder: Path) -> str:
    """Explain why a folder is not a store, and suggest its parent if that is one."""
    if not folder.exists():
        return "no such file or folder."
    reason = "it has no manifest.json, which saddleback sweep and saddleback paper write."
    hint = f" Did you mean {folder.parent}?" if (folder.parent / "manifest.json").exists() else ""
    return reason + hint


def _append(path: Path, line: str) -> None:
    """Append a line to a file, after ending a line that a killed process left incomplete."""
    with path.open("ab+") as file:
        file.seek(max(0, file.tell() - 1))
        incomplete = file.read(1) not in (b"", b"\n")
        file.write(("\n" if incomplete else "").encode() + line.encode())
        file.flush()
        os.fsync(file.fileno())


def _read_sums(path: Path) -> dict[str, str]:
    """Return the last hash of each shard by file name; malformed lines are skipped."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}.", ANOTHER_FOLDER) from None
    pairs = [line.split("  shards/") for line in lines]
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2 and "/" not in pair[1]}
