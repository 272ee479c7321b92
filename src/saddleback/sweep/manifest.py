"""The manifest of a store: which study its results are of, and how they came about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from saddleback.errors import Fix, InvalidParameter
from saddleback.sweep.toml_lines import abbreviate

SCHEMA = 2
"""Version of the layout of a store."""

ANOTHER_FOLDER = Fix("Choose another folder", "out")


class Header(msgspec.Struct):
    """What the manifests of all schema versions have in common."""

    schema: int


class Manifest(Header):
    """How the results of a store came about; ``suffix`` is that of the shards."""

    study: dict[str, Any]
    hash: str
    suffix: Literal[".parquet", ".npz"]
    command: str
    versions: dict[str, str]


def read_manifest(path: Path) -> dict[str, Any]:
    """Read a manifest; refuse one that is damaged or of another schema version."""
    content = path.read_bytes()
    damaged = InvalidParameter(
        f"{path} is damaged, or not the manifest of a store. Choose another folder."
    )
    try:
        schema = msgspec.json.decode(content, type=Header).schema
        if schema > SCHEMA:
            raise InvalidParameter(
                f"{path} has schema {schema}, written by a newer saddleback; this version reads "
                f"{SCHEMA}. Update: pip install -U saddleback."
            )
        if schema < SCHEMA:
            raise InvalidParameter(
                f"{path} has schema {schema}; this version reads {SCHEMA}. Run the study again "
                "into another folder."
            )
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise damaged from None
    if manifest.hash != study_hash(manifest.study, manifest.suffix):
        raise damaged
    return msgspec.structs.asdict(manifest)


def study_hash(study: Mapping[str, Any], suffix: str = ".parquet") -> str:
    """Return a hash of a study, without its title, and of the suffix of its shards."""
    settings = {name: value for name, value in study.items() if name != "title"}
    if suffix != ".parquet":
        settings["suffix"] = suffix
    return hashlib.sha256(_as_text(settings).encode()).hexdigest()[:16]


def check_same_study(
    folder: Path,
    stored: Mapping[str, Any],
    study: Mapping[str, Any],
    fix: Fix = ANOTHER_FOLDER,
) -> None:
    """Refuse to mix studies, naming the first setting in which they differ."""
    no_title = {"title": None}
    difference = _difference({**stored, **no_title}, json.loads(json.dumps({**study, **no_title})))
    if difference is not None:
        name, old, new = difference
        raise InvalidParameter(
            f"{folder} holds another study: {name} is {old} there and {new} here. Nothing was "
            "changed.",
            fix,
        )


def _difference(stored: Any, study: Any) -> tuple[str, str, str] | None:
    """Return the first setting in which two studies differ, and its two values.

    Values are compared as in the hash, where 1, 1.0 and true differ, as they may in a function.
    """
    for name in sorted(set(stored) | set(study)):
        values = stored.get(name), study.get(name)
        if _as_text(values[0]) == _as_text(values[1]):
            continue
        tables = values
        if all(isinstance(value, list) for value in values):
            tables = _by_label(*values)
        if all(isinstance(value, dict) for value in tables):
            inner = _difference(*tables)
            if inner is not None:
                return f"{name}: {inner[0]}", *inner[1:]
            if tables is not values:
                old, new = (_format_value(list(value)) for value in tables)
                return f"the order of {name}", old, new
        return name, _format_value(values[0]), _format_value(values[1])
    return None


def _as_text(value: Any) -> str:
    """Return JSON data as text, independently of the order of keys."""
    return json.dumps(value, sort_keys=True)


def _by_label(*lists: list[Any]) -> tuple[Any, ...]:
    """Return lists of tables as dictionaries by label; by position if labels are not unique.

    Other lists are returned unchanged.
    """
    if not all(isinstance(table, dict) for tables in lists for table in tables):
        return lists
    labels = [[str(table.get("label", k)) for k, table in enumerate(own)] for own in lists]
    if any(len(set(own)) < len(own) for own in labels):
        labels = [[str(k) for k in range(len(own))] for own in lists]
    return tuple(dict(zip(*pair, strict=True)) for pair in zip(labels, lists, strict=True))


def _format_value(value: Any) -> str:
    return "missing" if value is None else abbreviate(value)
