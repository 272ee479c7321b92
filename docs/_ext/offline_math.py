"""MathJax beside the pages, so that formulas are typeset without a network.

The package sphinx-mathjax-offline holds all of MathJax; one file of it is enough.
"""

from importlib.metadata import files
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.fileutil import copy_asset

SCRIPT = "tex-svg.js"


def copy_script(app: Sphinx, failure: Any) -> None:
    """Copy MathJax into the static files of a finished build."""
    if failure is None and app.builder.format == "html":
        (source,) = (path for path in files("sphinx-mathjax-offline") or () if path.name == SCRIPT)
        copy_asset(Path(str(source.locate())), Path(app.outdir) / "_static" / "mathjax")


def setup(app: Sphinx) -> dict[str, bool]:
    """Join the build."""
    app.setup_extension("sphinx.ext.mathjax")
    app.config.mathjax_path = f"mathjax/{SCRIPT}"
    app.connect("build-finished", copy_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
