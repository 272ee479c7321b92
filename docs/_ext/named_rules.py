"""The directive ``named-rules``: an entry of the reference for each rule with a name."""

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from saddleback.rules import NAMED


class NamedRules(SphinxDirective):
    """Document every rule of `saddleback.rules.NAMED`, in its order."""

    def run(self) -> list[nodes.Node]:
        """Return the entries."""
        lines = [f".. autofunction:: saddleback.{name}" for name in NAMED]
        container = nodes.Element()
        self.state.nested_parse(StringList(lines, "named-rules"), 0, container)
        return container.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Join the build."""
    app.add_directive("named-rules", NamedRules)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
