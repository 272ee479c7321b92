"""Writes llms.txt beside the pages: what each of them is about, for programs that read text."""

from pathlib import Path

from docutils import nodes
from sphinx.addnodes import toctree
from sphinx.application import Sphinx


def write_list(app: Sphinx, exception: Exception | None) -> None:
    """Write the contents of the documentation, each page with its address and first sentence."""
    if exception or app.builder.name != "html":
        return
    index = app.env.get_doctree("index")
    lines = ["# saddleback", "", f"> {first_sentence(index)}"]
    for part in index.findall(toctree):
        lines += ["", f"## {part['caption']}", ""]
        for _, page in part["entries"]:
            address = f"{app.config.html_baseurl}{page}.html"
            about = first_sentence(app.env.get_doctree(page))
            lines.append(f"- [{app.env.titles[page].astext()}]({address}): {about}")
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def first_sentence(document: nodes.document) -> str:
    """Return the first paragraph of a page up to its first full stop, on one line."""
    text = next((" ".join(p.astext().split()) for p in document.findall(nodes.paragraph)), "")
    return text.partition(". ")[0].rstrip(".:") + "."


def setup(app: Sphinx) -> dict[str, bool]:
    """Join the build."""
    app.connect("build-finished", write_list)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
