"""Pages for the browser: one HTML file each, with its data, its charts and its code inside.

Charts are Vega-Lite, whose JavaScript comes from the package vl-convert-python when a page is
written; the extra ``report`` brings it. A page asks nothing of a network, and its own rules forbid
it to.
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
    from saddleback.report.study_results import Learned as Learned
    from saddleback.report.study_results import Results as Results
    from saddleback.report.study_results import read_results as read_results

_HOME = {
    "evaluation_page": "evaluation_html", "explorer_page": "explorer_html",
    "ready": "page", "write": "page",
    "Learned": "study_results", "Results": "study_results", "read_results": "study_results",
    "study_page": "study_html",
}  # fmt: skip

__all__ = [
    "Learned", "Results", "evaluation_page", "explorer_page", "read_results", "study_page", "write",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a part when it is asked for: whether pages can be written is known at once."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
