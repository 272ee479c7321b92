"""How `make docs` builds the pages: MyST for text and notebooks, autodoc for the reference."""

import gc
import logging
import os
import sys
import tempfile
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # the package beside these pages
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:1])  # and for the notebooks

from saddleback import __version__

gc.disable()  # two fifths of the time of a build, to save 0.3 GB

project = "saddleback"
author = "The saddleback authors"
copyright = author
version = release = __version__

extensions = [
    "myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "plain_docstrings", "offline_math",
    "named_rules", "llms_txt",
]  # fmt: skip
exclude_patterns = ["_build"]

# Headings are linked as on a forge; $…$ is typeset; blocks without a language are plain text.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath", "amsmath"]
mathjax3_config = {"svg": {"scale": 0.9}}
highlight_language = "none"
smartquotes_action = "D"  # dashes only: γ' is not a quotation

# Notebooks are text and run at every build; an error in one ends it.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

# They see no IPython profile of the user, and log errors only.
logging.getLogger("traitlets").setLevel(logging.WARNING)
_ipython = tempfile.TemporaryDirectory()
os.environ["IPYTHONDIR"] = _ipython.name
_profile = Path(_ipython.name) / "profile_default"
_profile.mkdir()
(_profile / "ipython_kernel_config.py").write_text(
    'get_config().IPKernelApp.log_level = "ERROR"\n', encoding="utf-8"
)

# Single quotes name a thing of the library: a link where the reference has it.
default_role = "py:obj"
add_module_names = False
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
maximum_signature_line_length = 80

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    name: name
    for name in (
        "ArrayLike", "BoolArray", "FloatArray", "IntArray", "Metric", "Policy", "Progress", "RNG",
        "StepSize",
    )
}  # fmt: skip
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # "alpha, beta" are told of once
napoleon_attr_annotations = False

# Types in signatures may be private or of other libraries; names in prose must be in the reference.
nitpicky = True
nitpick_ignore_regex = [("py:(class|data)", ".*")]

# The pages are hosted in a folder for each version; search engines are sent to the last release.
_project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
html_baseurl = f"{_project['tool']['hatch']['metadata']['hooks']['custom']['site']}/stable/"

html_theme = "furo"
html_title = f"saddleback {version}"
html_static_path = ["_static"]
html_css_files = ["saddleback.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
    "dark_css_variables": {"color-brand-primary": "#6db9e8", "color-brand-content": "#6db9e8"},
}
