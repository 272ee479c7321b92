"""``saddleback --cite``: BibTeX entries of the methods that a result used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from saddleback import __version__

ALWAYS = ("saddleback", "yang2021")
"""The software, and the paper that it implements."""

METHODS: dict[str, Sequence[str]] = {
    "Marginal DR": ["kallus2020"], "LSTD": ["bradtke1996"], "DR": ["jiang2016"],
    "WDR": ["thomas2016"], "IS": ["precup2000"], "PDIS": ["precup2000"], "WIS": ["precup2000"],
    "PDWIS": ["precup2000"], "k_hat": ["vehtari2024"], "RandomFourier": ["rahimi2007"],
    "Sigma": ["deasis2018"], "CappedImportance": ["yu2018"], "Retrace": ["munos2016"],
    "TreeBackup": ["precup2000"], "ActionDependent": ["mahmood2017"],
}  # fmt: skip
"""Entries of references.bib by the name of an estimator or a part of a rule, as results have it."""


def citations(path: Path | None) -> str:
    """Return the entries for the software, and for the methods of a saved result or a store.

    Examples
    --------
    >>> print(citations(None)[:20])
    @software{saddleback
    """
    text, sources = "" if path is None else _methods(path), sources_by_name()
    names = "|".join(sorted(sources, key=len, reverse=True))
    used = [key for name in re.findall(rf"\b(?:{names})\b", text) for key in sources[name]]
    entries = _entries()
    return "\n".join(entries[key] for key in dict.fromkeys([*ALWAYS, *used]))


def sources_by_name() -> dict[str, Sequence[str]]:
    """Return the entries of references.bib for each method, with those of the named rules."""
    from saddleback.rules import registry

    return {**METHODS, **registry.SOURCES}


def _entries() -> dict[str, str]:
    """Return the entries of references.bib by their key."""
    text = Path(__file__).with_name("references.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{.*?^\}\n", text, re.MULTILINE | re.DOTALL)
    return {re.split("[{,]", entry)[1]: entry.replace("VERSION", __version__) for entry in entries}


def _methods(path: Path) -> str:
    """Return the text of a result or of a study that names its methods."""
    if path.is_dir():
        from saddleback.sweep import Store

        return json.dumps(Store.load(path).manifest["study"])
    from saddleback.cli.cmd_explain import read_result

    return " ".join(_used_by(read_result(path)))


def _used_by(result: dict[str, object]) -> Iterator[str]:
    """Yield the estimators, rule, features and diagnostics of a result."""
    estimates = result["estimates"]
    assert isinstance(estimates, list)
    for estimate in estimates:
        yield estimate["method"]
        yield "" if estimate["k_hat"] is None else "k_hat"
    yield f"{result['rule']} {result['features']}"
