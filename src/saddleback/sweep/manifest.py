"""What a store says of itself: the study it holds, and how it was made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saddleback._provenance import versions
from saddleback.errors import InvalidParameter

SCHEMA = 2
"""Version of the layout of a store."""

PARTS = {"study": dict, "hash": str, "suffix": str, "command": str, "versions": dict}
"""What a manifest must say, besides its schema."""


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
