"""The page that all reports are: a template, a style, the data and the code, in one file.

Whatever comes from data is escaped by the template; data for charts travel as JSON in which no tag
can begin. The page's own policy (CSP) allows the scripts that were written into it, by their
hashes, and no request at all.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from saddleback import __version__
from saddleback._json import json_ready
from saddleback._paths import check_writable
from saddleback.errors import InvalidParameter

ASSETS = Path(__file__).parent / "assets"
"""Templates, style and our own JavaScript."""

LARGEST = 4_000_000
"""Bytes of a page."""

INSTALL = "pip install 'saddleback[report]'"


def ready() -> None:
    """Refuse, before any work, to make a page without the extra."""
    try:
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        raise InvalidParameter(f"a page needs the extra report: {INSTALL}") from None


@functools.cache
def bundle() -> tuple[str, str]:
    """Return the JavaScript of Vega, Vega-Lite and Vega-Embed, and a line that names them."""
    ready()
    import vl_convert

    lite = vl_convert.get_vegalite_versions()[-1]
    code = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=lite)
    named = (
        f"Vega {vl_convert.get_vega_version()}, Vega-Lite {lite} and Vega-Embed "
        f"{vl_convert.get_vega_embed_version()} (BSD-3-Clause)"
    )
    return f"(() => {{{code}}})();", named


def page(template: str, scripts: tuple[str, ...], data: dict[str, Any], **shown: Any) -> str:
    """Return a page as text.

    Parameters
    ----------
    template
        File of the template, which extends ``base.html``.
    scripts
        Files of our own JavaScript, after ``common.js``.
    data
        What the scripts find, as plain data; numbers that are not finite become null.
    shown
        What the template shows.
    """
    ready()
    import jinja2
    from markupsafe import Markup

    vega, charts_by = bundle()
    own = "\n".join(_asset(name) for name in ("common.js", *scripts))
    parts = (_asset("theme_init.js"), vega, f"(() => {{\n'use strict';\n{own}\n}})();")
    code = [_in_script(each) for each in parts]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    text = environment.get_template(template).render(
        policy=_policy(code), style=Markup(_asset("style.css")), data=Markup(in_json(data)),
        first=Markup(code[0]), scripts=[Markup(each) for each in code[1:]], version=__version__,
        charts_by=charts_by, **shown,
    )  # fmt: skip
    size = len(text.encode())
    if size > LARGEST:
        raise InvalidParameter(
            f"the page would take {size / 1e6:.1f} MB, and {LARGEST / 1e6:g} MB is the most that "
            "opens well. Make pages of smaller parts: fewer policies, or a study with fewer "
            "settings."
        )
    return text


def in_json(data: Any) -> str:
    r"""Return data as JSON that may stand in a script element: no tag can begin in it.

    Examples
    --------
    >>> print(in_json({"name": "</script>"}))
    {"name":"\u003c/script>"}
    """
    text = json.dumps(json_ready(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def write(text: str, path: Path) -> Path:
    """Write a page, or say why that cannot be.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write("<!doctype html>", Path(folder) / "page.html").name
    'page.html'
    """
    check_writable(path, ".html")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidParameter(f"cannot write {path}: {error.strerror}.") from None
    return path


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _in_script(code: str) -> str:
    """Return code that may stand in a script element; in code these stand in strings only."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(scripts: list[str]) -> str:
    """Return the content security policy: these scripts, and nothing from anywhere else.

    Vega compiles the expressions of a chart, hence ``unsafe-eval``.
    """
    hashes = [hashlib.sha256(each.encode()).digest() for each in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in hashes)
    return (
        f"default-src 'none'; script-src 'unsafe-eval' {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; form-action 'none'; base-uri 'none'"
    )
