"""A system on disk: plain arrays in an ``.npz`` file, and its rule in words. Nothing is pickled.

The file holds a hash of all that it says, so that what was changed since is not taken for ours.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from saddleback import _validate, rules
from saddleback._paths import check_writable
from saddleback.engine import Moments
from saddleback.errors import InvalidParameter, SaddlebackError
from saddleback.rules import Rule
from saddleback.system.system import System

SCHEMA = 2
"""Version of the layout of the file."""

Built = TypeVar("Built")

DAMAGE = (
    LookupError, ValueError, TypeError, AttributeError, EOFError, NotImplementedError,
    RecursionError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a damaged file may raise; complaints of our own are among them."""

PARTS = ("trace", "form", "bootstrap", "emphasis")


def save(system: System, path: str | os.PathLike[str]) -> Path:
    """Write a system to an ``.npz`` file, whole or not at all.

    A, b, M, C, standard errors and batches, and the rule; not the problem.

    Examples
    --------
    >>> import tempfile
    >>> from saddleback import GES, problems
    >>> system = System.exact(problems.two_state(gamma=0.9), GES(0.4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(save(system, Path(folder) / "two.npz"))
    System(GES(0.4), p=2, rank=2)
      the semi-gradient update θ + α(Aθ + b) diverges for every α: A has an eigenvalue with real
      part 0.015625.
    """
    _validate.instance("save", "system", system, System)
    target = Path(path)
    if target.suffix != ".npz":
        raise InvalidParameter(f"a system is saved as an .npz file, got {str(path)!r}.")
    arrays: dict[str, Any] = {name: getattr(system, name) for name in ("A", "b", "M", "C")}
    if system.errors is not None:
        arrays |= {f"errors_{n}": a for n, a in system.errors._asdict().items()}
    if system.batches is not None:
        for n in Moments._fields:
            arrays[f"batches_{n}"] = np.array([getattr(each, n) for each in system.batches])
        arrays["batch_steps"] = np.array(system.batch_steps)
    write(target, {"schema": SCHEMA, "rule": rule_words(system.rule)}, arrays)
    return target


def write(path: Path, words: dict[str, Any], arrays: dict[str, Any], squeeze: bool = True) -> None:
    """Write arrays and what is said of them, whole or not at all."""
    check_writable(path)
    aside = path.with_name(f".{path.name}.part")
    try:
        with aside.open("w+b") as file:
            pack(file, words, arrays, squeeze)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise InvalidParameter(
            f"cannot write {path}: {error.strerror}. Choose another place, or make room."
        ) from None


def pack(
    file: IO[bytes], words: dict[str, Any], arrays: dict[str, Any], squeeze: bool = True
) -> None:
    """Write arrays and what is said of them to an open file, which is read again for its hash."""
    save = np.savez_compressed if squeeze else np.savez
    save(file, words=np.array(json.dumps(words)), **arrays)
    with zipfile.ZipFile(file, "a") as whole:
        text = io.BytesIO()
        np.save(text, np.array(_digest(whole)))
        # Without the time of day: the same content is the same file.
        whole.writestr(zipfile.ZipInfo(DIGEST), text.getvalue())


DIGEST = "digest.npy"


def _digest(whole: zipfile.ZipFile) -> str:
    """Return a hash of the names, sizes and checksums of all that is in the file."""
    each = (f"{one.filename} {one.file_size} {one.CRC}" for one in whole.infolist())
    listed = sorted(line for line in each if not line.startswith(f"{DIGEST} "))
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()


def load(path: str | os.PathLike[str]) -> System:
    """Read a system that `save` wrote.

    Examples
    --------
    >>> import tempfile
    >>> from saddleback import GQ, problems
    >>> system = System.exact(problems.two_state(gamma=0.9), GQ(0.4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load(save(system, Path(folder) / "two.npz"))
    >>> np.array_equal(again.A, system.A), again.problem
    (True, None)
    """
    return read(path, SCHEMA, "a system", _system)


def read(
    path: str | os.PathLike[str],
    schema: int,
    what: str,
    build: Callable[[dict[str, Any], dict[str, Any]], Built],
) -> Built:
    """Read arrays and what is said of them, and build what they are."""
    try:
        with Path(path).open("rb") as raw:
            with zipfile.ZipFile(raw) as whole:
                digest = _digest(whole)
            raw.seek(0)
            with np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        words, written = json.loads(str(arrays.pop("words"))), str(arrays.pop("digest", None))
        found = words["schema"]
        if type(found) is not int:
            raise InvalidParameter(f"its schema is {found!r}")
        if found == schema:
            if digest != written:
                raise InvalidParameter("its content is not what was written")
            return build(arrays, words)
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror or error}.") from None
    except DAMAGE as error:
        ours = f": {error}".rstrip(".") if isinstance(error, SaddlebackError) else ""
        raise InvalidParameter(
            f"{path} is not {what} saved by saddleback, or is damaged{ours}."
        ) from None
    by, fix = ("a newer", "Update it: pip install --upgrade saddleback.")
    if found < schema:
        by, fix = ("an older", "Make the file again.")
    raise InvalidParameter(
        f"{path} has schema {found}, written by {by} saddleback; this one reads {schema}. {fix}"
    )


def _system(arrays: dict[str, Any], words: dict[str, Any]) -> System:
    rule = rule_from(words["rule"])
    errors = batches = steps = None
    if "errors_A" in arrays:
        errors = Moments(*(arrays[f"errors_{n}"] for n in Moments._fields))
    if "batches_A" in arrays:
        columns = [arrays[f"batches_{n}"] for n in Moments._fields]
        for name, column in zip(Moments._fields, columns, strict=True):
            _validate.finite(f"batches_{name}", column)
        batches = [Moments(*each) for each in zip(*columns, strict=True)]
        steps = int(arrays["batch_steps"])
    matrices = {name: arrays[name] for name in ("A", "b", "M", "C")}
    return System(**matrices, rule=rule, errors=errors, batches=batches, batch_steps=steps)


def rule_words(rule: Rule) -> dict[str, Any]:
    """Describe a rule so that `rule_from` brings it back."""
    words: dict[str, Any] = {part: _words(getattr(rule, part)) for part in PARTS}
    return words | {"label": rule.label} if rule.label else words


def rule_from(words: dict[str, Any]) -> Rule:
    """Build a rule from its description."""
    return Rule(**{part: _part(words[part]) for part in PARTS}, label=words.get("label", ""))


def _words(part: Any) -> dict[str, Any] | None:
    """Describe a part of a rule by its class and fields."""
    if part is None:
        return None
    kind = type(part).__name__
    if getattr(rules, kind, None) is not type(part):
        raise InvalidParameter(
            f"{part!r} is not one of ours, so a file could not bring it back; keep the arrays."
        )
    return {"kind": kind, **asdict(part)}


def _part(words: dict[str, Any] | None) -> Any:
    """Build a part of a rule from its description."""
    if words is None:
        return None
    given = dict(words)
    kind: Any = getattr(rules, given.pop("kind"), None)
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise ValueError(f"unknown part of a rule: {words}")
    known = {field.name for field in fields(kind)}
    return kind(
        **{n: tuple(v) if isinstance(v, list) else v for n, v in given.items() if n in known}
    )
