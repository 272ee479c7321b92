"""Pages for the browser: one HTML file each, with its data, its charts and its code inside.

Charts are Vega-Lite, whose JavaScript comes from the package vl-convert-python when a page is
written; the extra ``report`` brings it. A page asks nothing of a network, and its own rules forbid
it to.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saddleback.report.evaluation import evaluation_page as evaluation_page
    from saddleback.report.explorer import explorer_page as explorer_page
    from saddleback.report.page import ready as ready
    from saddleback.report.page import write as write
    from saddleback.report.results import Learned as Learned
    from saddleback.report.results import Results as Results
    from saddleback.report.results import read_results as read_results
    from saddleback.report.study import study_page as study_page

_HOME = {
    "evaluation_page": "evaluation", "explorer_page": "explorer", "ready": "page", "write": "page",
    "Learned": "results", "Results": "results", "read_results": "results", "study_page": "study",
}  # fmt: skip

__all__ = [
    "Learned", "Results", "evaluation_page", "explorer_page", "read_results", "study_page", "write",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a part when it is asked for: whether pages can be written is known at once."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
