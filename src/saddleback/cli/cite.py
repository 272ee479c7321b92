"""``saddleback --cite``: BibTeX entries of the methods that a result used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from saddleback import __version__
from saddleback.errors import SaddlebackError

ALWAYS = ("saddleback", "yang2021")
"""The software, and the paper that it implements."""

METHODS: dict[str, Sequence[str]] = {
    "Marginal DR": ["kallus2020"], "LSTD": ["bradtke1996"], "DR": ["jiang2016"],
    "WDR": ["thomas2016"], "IS": ["precup2000"], "PDIS": ["precup2000"], "WIS": ["precup2000"],
    "PDWIS": ["precup2000"], "k_hat": ["vehtari2024"], "RandomFourier": ["rahimi2007"],
    "Sigma": ["deasis2018"], "CappedImportance": ["yu2018"], "Retrace": ["munos2016"],
    "TreeBackup": ["precup2000"], "ActionDependent": ["mahmood2017"],
    "windowed": ["yuan2021"],
}  # fmt: skip
"""Entries of references.bib by the name of an estimator or a part of a rule, as results have it."""


FEATURES = ("RandomFourier",)
"""Features among them."""


def citations(path: Path | None) -> str:
    """Return the entries for the software, and for the methods of a saved result or a store.

    Examples
    --------
    >>> print(citations(None)[:20])
    @software{saddleback
    """
    sources = sources_by_name()
    used = [key for name in (_methods(path) if path else ()) for key in sources.get(name, ())]
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


def _methods(path: Path) -> Iterator[str]:
    """Yield the names of the methods of a result or of a study, and others."""
    if not path.is_dir():
        from saddleback.cli.cmd_explain import read_result

        yield from _of_result(read_result(path))
        return
    from saddleback.sweep import Store

    for name, parameters in Store.load(path).manifest["study"].get("rules", ()):
        yield from _parts(name)
        yield parameters.get("form", "")


def _of_result(result: dict[str, Any]) -> Iterator[str]:
    """Yield the estimators, rule, features and diagnostics of a result, and windowed ratios."""
    for estimate in result["estimates"]:
        for text in estimate["method"].split(", "):  # what follows the first are settings
            yield from _parts(text)
        yield "" if estimate["k_hat"] is None else "k_hat"
    yield from _parts(result["rule"])
    yield from (name for name in FEATURES if name in result["features"])
    consensuses = [verdict.get("consensus") or {} for verdict in result["verdicts"]]
    yield from ("windowed" for one in consensuses if one.get("windowed") is not None)


def _parts(text: str) -> list[str]:
    """Return the names in the text of a rule or of features; other texts as they are."""
    from saddleback.rules.parse import part_names

    try:
        return part_names(text)
    except SaddlebackError:
        return [text]
