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
    from saddleback.sweep.study_results import RuleResults as RuleResults
    from saddleback.sweep.study_results import StudyResults as StudyResults
    from saddleback.sweep.study_results import read_results as read_results

_MODULES = {
    "evaluation_page": "report.evaluation_html", "explorer_page": "report.explorer_html",
    "ready": "report.page", "write": "report.page", "study_page": "report.study_html",
    "RuleResults": "sweep.study_results", "StudyResults": "sweep.study_results",
    "read_results": "sweep.study_results",
}  # fmt: skip

__all__ = [
    "RuleResults", "StudyResults", "evaluation_page", "explorer_page", "read_results",
    "study_page", "write",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a part on first use, so that `ready` is quick."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"saddleback.{_MODULES[name]}"), name)
