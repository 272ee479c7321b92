"""The frame of every page: a template, a style, the data and the code in one file.

The template escapes all text that comes from data; data for charts travel as JSON in which no tag
can begin. The content security policy (CSP) of the page allows the scripts that were written into
it, by their hashes, and no request at all.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from saddleback import __version__
from saddleback._display import visible
from saddleback._json import json_ready
from saddleback._paths import check_writable, output_file
from saddleback.errors import InvalidParameter
from saddleback.report.theme import css_variables

ASSETS = Path(__file__).parent / "assets"
"""Templates, style and JavaScript of the package."""

MAX_BYTES = 4_000_000
"""Largest size of a page."""

INSTALL = "pip install 'saddleback[report]'"


def ready() -> None:
    """Raise an error if the extra that writes pages is not installed."""
    try:
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        raise InvalidParameter(f"a page needs the extra report: {INSTALL}") from None


@functools.cache
def bundle() -> tuple[str, str]:
    """Return the JavaScript of Vega, Vega-Lite and Vega-Embed, and a line with their versions."""
    ready()
    import vl_convert

    lite = vl_convert.get_vegalite_versions()[-1]
    code = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=lite)
    credits_ = (
        f"Vega {vl_convert.get_vega_version()}, Vega-Lite {lite} and Vega-Embed "
        f"{vl_convert.get_vega_embed_version()} (BSD-3-Clause)"
    )
    return f"(() => {{{code}}})();", credits_


def page(template: str, scripts: tuple[str, ...], data: dict[str, Any], **context: Any) -> str:
    """Return a page as text.

    Parameters
    ----------
    template
        File name of a template that extends ``base.html``.
    scripts
        File names of the page's JavaScript, which follows ``common.js``.
    data
        Data for the scripts; numbers that are not finite become null.
    context
        Variables of the template.
    """
    ready()
    import jinja2
    from markupsafe import Markup

    vega, chart_credits = bundle()
    page_code = "\n".join(_asset(name) for name in ("common.js", *scripts))
    parts = (_asset("theme_init.js"), vega, f"(() => {{\n'use strict';\n{page_code}\n}})();")
    code = [_in_script(part) for part in parts]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )  # fmt: skip
    text = environment.get_template(template).render(
        csp=_content_security_policy(code), style=Markup(css_variables() + _asset("style.css")),
        data=Markup(in_json(data)), theme_script=Markup(code[0]),
        scripts=[Markup(script) for script in code[1:]], version=__version__,
        chart_credits=chart_credits, **context,
    )  # fmt: skip
    size = len(text.encode())
    if size > MAX_BYTES:
        raise InvalidParameter(
            f"the page would take {size / 1e6:.1f} MB; the limit is {MAX_BYTES / 1e6:g} MB. Make "
            "smaller pages: fewer policies, or a study with fewer settings."
        )
    return text


def in_json(data: Any) -> str:
    r"""Return data as JSON for a script element: no tag can begin in it.

    Examples
    --------
    >>> print(in_json({"name": "</script>"}))
    {"name":"\u003c/script>"}
    """
    plain = json_ready(data, visible)
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def write(text: str, path: Path) -> Path:
    """Write a page and return its path.

    Raises
    ------
    InvalidParameter
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write("<!doctype html>", Path(folder) / "page.html").name
    'page.html'
    """
    check_writable(path, ".html")
    with output_file(path) as file:
        file.write(text.encode())
    return path


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _in_script(code: str) -> str:
    """Escape code for a script element; the escaped sequences occur only in string literals."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _content_security_policy(scripts: list[str]) -> str:
    """Return a policy that allows these scripts and no request.

    Vega compiles the expressions of a chart, hence ``unsafe-eval``.
    """
    hashes = [hashlib.sha256(script.encode()).digest() for script in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src 'unsafe-eval' {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; form-action 'none'; base-uri 'none'"
    )
