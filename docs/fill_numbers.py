"""Fill the measured numbers of the pages: ``make numbers``, after ``make bench``.

A number in a page is followed by a comment with its name, as in ``379<!--= one learner -->``.
Numbers are computed here from the files in ``project/measurements``, copies of those that ``make
bench`` and ``make weight`` wrote to ``results``.
"""

import json
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
MEASUREMENTS = DOCS / "project" / "measurements"
NUMBER = re.compile(r"([\w.,–-]+)<!--= (.+?) -->")


def numbers():
    """Return the measured numbers, as they are printed, by name."""
    bench, compiling, install = map(read, ("bench", "bench-compiling", "install"))
    ratios, sizes = bench["ratios"], bench["ns_per_step_by_size_16"]
    accesses = bench["ns_per_step_rows_alone_16"]
    compiles = {
        features: compiling["runs"][f"evaluate, {features}"]["compiling"]["cpu_s"]
        for features in ("tiles:8x4", "polynomial:3")
    }
    return {
        "oracle, µs": f"{bench['ns_per_learner_step']['oracle'] / 1e3:.0f}",
        "one learner": f"{ratios['one learner: oracle / engine']:.0f}",
        "121 learners": f"{ratios['121 learners: oracle / engine']:,.0f}",
        "121 learners, C": f"{ratios['121 learners: engine / plain C']:.2f}",
        "one learner, C": f"{ratios['1 learner: engine / plain C']:.2f}",
        "hashed": f"{ratios['p = 10⁶ / p = 10³, same tiles hashed']:.2f}",
        "fine": f"{ratios['p = 10⁶ / p = 10³, fine tiles']:.2f}",
        "fine, ns": f"{sizes['fine_tiles']['1000000']:.0f}",
        "accesses, ns": f"{accesses['fine_tiles']:.0f}",
        "λ": f"{ratios['largest over λ > 0 / λ = 0']:.2f}",
        "tiles, s": f"{compiles['tiles:8x4']:.1f}",
        "base, MB": f"{round(install['weight_mb']['base'], -1):.0f}",
        "all, MB": f"{round(install['weight_mb']['all'], -1):.0f}",
        "polynomial, s": f"{compiles['polynomial:3']:.1f}",
    }


def read(name):
    """Return the content of a file of measurements."""
    return json.loads((MEASUREMENTS / f"{name}.json").read_text(encoding="utf-8"))


def pages():
    """Return the pages that may have such numbers."""
    return [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]


def fill(text, measured):
    """Return the text of a page with the numbers that were measured."""
    return NUMBER.sub(lambda match: f"{measured[match[2]]}<!--= {match[2]} -->", text)


def main():
    """Fill in every page, and print the names of those that change."""
    measured = numbers()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        filled = fill(text, measured)
        if filled != text:
            page.write_text(filled, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(DOCS.parent)}\n")


if __name__ == "__main__":
    main()
