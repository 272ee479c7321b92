"""Pages for the browser: one HTML file each, with its data, its charts and its code.

Charts are drawn by Vega-Lite, whose JavaScript is taken from the package vl-convert-python when a
page is written; the extra ``report`` installs it. A page makes no network requests, and its
content security policy forbids them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saddleback.report.evaluation_html import evaluation_page as evaluation_page
    from saddleback.report.explorer_html import explorer_page as explorer_page
    from saddleback.report.page import ready as ready
    from saddleback.report.page import write as write
    from saddleback.report.study_html import study_page as study_page
    from saddleback.report.study_results import RuleResults as RuleResults
    from saddleback.report.study_results import StudyResults as StudyResults
    from saddleback.report.study_results import read_results as read_results

_MODULES = {
    "evaluation_page": "evaluation_html", "explorer_page": "explorer_html",
    "ready": "page", "write": "page",
    "RuleResults": "study_results", "StudyResults": "study_results",
    "read_results": "study_results", "study_page": "study_html",
}  # fmt: skip

__all__ = [
    "RuleResults", "StudyResults", "evaluation_page", "explorer_page", "read_results",
    "study_page", "write",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a part on first use, so that `ready` is quick."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
