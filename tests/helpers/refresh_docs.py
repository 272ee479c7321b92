"""Rewrites the outputs shown on pages of the documentation, which are its arguments.

Run it (``python -m helpers.refresh_docs`` in ``tests/``) after a change that is meant to alter what
is printed, and read the difference. Outputs abridged by ``…`` cannot be rewritten;
those that no longer match are listed.
"""

import contextlib
import sys
import tempfile
from pathlib import Path

from helpers.docs_pages import SEQUENTIAL_PAGES, Terminal, blocks, commands, matches, run_python


def refreshed(page, folder):
    """Return the text of a page with current outputs, and the places to be edited by hand."""
    text = page.read_text(encoding="utf-8")
    terminal, names, by_hand = Terminal(folder), {"__name__": "page"}, []

    def replace(old, new, where):
        nonlocal text
        if "…" in old:
            by_hand.append("\n".join((where, *new)))
        else:
            text = text.replace("\n".join(old), "\n".join(new), 1)

    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.kind == "python":
            names = names if page in SEQUENTIAL_PAGES else {"__name__": "page"}
            shown, current = block.output.splitlines(), run_python(block.code, names).splitlines()
            if not matches(current, shown):
                replace(shown, current, where)
            continue
        for command, shown in commands(block):
            current = terminal.type(command)
            if shown and not matches(current, shown):
                replace(shown, current, f"{where}: {command}")
    return text, by_hand


if __name__ == "__main__":
    for page in [Path(name).resolve() for name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            text, by_hand = refreshed(page, Path(folder))
        page.write_text(text, encoding="utf-8")
        print(*by_hand, sep="\n\n")
