"""Pages for the browser: one HTML file each, with its data, its charts and its code inside.

Charts are Vega-Lite, whose JavaScript comes from the package vl-convert-python when a page is
written; the extra ``report`` brings it. A page asks nothing of a network, and its own rules forbid
it to.
"""

from saddleback.report.evaluation import evaluation_page
from saddleback.report.explorer import explorer_page
from saddleback.report.page import ready, write
from saddleback.report.results import read_study
from saddleback.report.study import study_page

__all__ = ["evaluation_page", "explorer_page", "read_study", "ready", "study_page", "write"]
