"""Docstrings of this library, as reStructuredText.

They are written to be read in a terminal: equations are indented, and ``θ*``, ``p(s'|s,a)`` and
``theta_`` stand for themselves. Here equations become literal blocks and markup is escaped, before
napoleon reads the sections. A name in single quotes becomes a link to what the reference has.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.inspect import TypeAliasForwardRef
from sphinx.util.nodes import make_refnode

QUOTED = re.compile(r"(``.+?``|`[^`]+`)")
MARKUP = re.compile(r"[*|\\]|(?<=\w)_(?!\w)")
RULER = re.compile(r"^-{3,}$")
COLON = "\ue000"
"""Stands for a colon that napoleon would take for the end of a type."""


def escaped(line: str) -> str:
    """Return a line of prose in which nothing but quotes is markup."""
    parts = QUOTED.split(line)
    return "".join(p if i % 2 else MARKUP.sub(r"\\\g<0>", p) for i, p in enumerate(parts))


def plain(lines: list[str]) -> list[str]:
    """Return a docstring with equations as literal blocks, and markup escaped."""
    found: list[str] = []
    section, literal = "", False
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if RULER.match(after):
            section = line.strip()
        indented = line.startswith("    ")
        if not section and indented and not literal and found and not found[-1]:
            found += [".. code-block:: none", "    :class: equation", ""]
            literal = True
        elif line.strip() and not indented:
            literal = False
        code = literal or section == "Examples" or RULER.match(line)
        found.append(line if code else escaped(line))
    return found


def before(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring in place."""
    lines[:] = plain(lines)
    if what in ("property", "attribute", "data"):
        lines[:] = [line.replace(":", COLON) for line in lines]


def after(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Put colons back."""
    lines[:] = [line.replace(COLON, ":") for line in lines]


def public(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, given: str | None, returned: Any
) -> tuple[str | None, Any]:
    """Leave private parameters out of a signature."""
    return given and re.sub(r",? _\w+:[^=]+= \w+(?=[,)])", "", given), returned


def resolve(app: Sphinx, env: Any, node: Any, content: nodes.TextElement) -> nodes.Node | None:
    """Link a bare name, or where it is defined, to the one thing of the reference it means."""
    if node.get("refdomain") != "py":
        return None
    objects = env.domains["py"].objects
    wanted = node["reftarget"].removeprefix("saddleback.")
    found = [name for name in objects if name.endswith(f".{wanted}")]
    if not found and node["reftarget"].startswith("saddleback."):
        found = [name for name in objects if name.endswith(f".{wanted.rpartition('.')[2]}")]
    found.sort(key=lambda name: (name.count("."), name))
    if not found or (node["reftype"] == "class" and objects[found[0]].objtype != "class"):
        return None
    best = objects[found[0]]
    return make_refnode(app.builder, node["refdoc"], best.docname, best.node_id, content, found[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Join the build."""
    TypeAliasForwardRef.__repr__ = lambda self: self.name  # else its own name is printed
    app.connect("autodoc-process-docstring", before, priority=400)
    app.connect("autodoc-process-docstring", after, priority=600)
    app.connect("autodoc-process-signature", public)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
