"""Tables of the pages, from files of measurements; `fill_numbers` writes them.

A table stands between ``<!--= table NAME -->`` and ``<!--= end -->``.
"""

import re

TABLE = re.compile(r"(<!--= table ([^>]+?) -->\n\n).*?(\n\n<!--= end -->)", re.DOTALL)

OTHERS = ("closed form", "PDWIS", "WDR", "MAGIC", "tree FQE")
"""Methods beside automatic features."""


def short(number):
    """Write a number in two digits, or without decimals; nothing if it was not measured."""
    if number is None:
        return ""
    return f"{number:,.0f}" if abs(number) >= 99.5 else f"{number:.2g}"


def markdown(head, rows):
    """Return a table with the first column to the left, the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(cells) + " |" for cells in rows)])


def accuracy(m):
    """Mean squared errors by case."""
    head = ["case", "logs", "automatic", "best", "ratio", "median", *OTHERS, "usable"]
    rows = []
    for case, one in m["cases"].items():
        mse = one["mse"]
        own = f"{short(mse['automatic'])} ({short(one['s.e.']['automatic'])})"
        numbers = [mse[one["best"]], one["ratio"], one["median candidate"]]
        cells = [case, str(one["logs"]), own, *map(short, numbers)]
        cells += [short(mse.get(name)) for name in OTHERS]
        rows.append([*cells, f"{one['trust']['usable'] / one['logs']:.0%}"])
    return markdown(head, rows)


def targets(m):
    """What was aimed at, and whether it was reached."""
    return markdown(
        ["aim", "reached"],
        [[text, "yes" if reached else "**no**"] for text, reached in m["targets"]],
    )


def beside_packages(m):
    """Mean squared errors on the logs that other packages got."""
    cases = m["beside other packages"]
    names = list(dict.fromkeys(name for one in cases.values() for name in one["mse"]))
    rows = []
    for name in names:
        both = [(one["mse"][name], one["s.e."][name]) for one in cases.values()]
        rows.append([name, *(f"{short(mse)} ({short(error)})" for mse, error in both)])
    return markdown(["mean squared error", *cases], rows)


def verdicts(m):
    """Counts of verdicts by features and kind of states."""
    head = ["features", "states", "usable", "missed", "good", "of these usable", "half-width"]
    rows = []
    for key, groups in m["rows"].items():
        mode, _, states = key.partition(", ")
        if states == "all":
            continue
        one = groups[f"all {states}"]
        rows.append([mode, "situations" if states == "own" else states, *counts(one)])
    return markdown(head, rows)


def verdicts_by_family(m):
    """The same for each group of similar problems, automatic features and those by hand together.

    The half-width is the mean of their medians. The last two columns are with the multiplier fitted
    on all other groups.
    """
    head = ["family", "usable", "missed", "good", "of these usable", "half-width"]
    head += ["usable, fitted on others", "missed"]
    by_name = {}
    for key, groups in m["rows"].items():
        for name, one in groups.items():
            if not name.startswith("all") and not key.startswith("statistics"):
                by_name.setdefault(name, []).append(one)
    rows = []
    for name, parts in sorted(by_name.items()):
        both = {key: sum(part.get(key) or 0 for part in parts) for key in SUMMED}
        widths = [part["half-width"] for part in parts if part["half-width"] is not None]
        both["half-width"] = sum(widths) / len(widths) if widths else None
        at_c = [str(both["usable at c"]), str(both["missed at c"])]
        rows.append([name, *counts(both), *at_c])
    return markdown(head, rows)


SUMMED = (
    "verdicts", "usable", "usable, missed", "good", "good, not usable", "usable at c", "missed at c"
)  # fmt: skip


def counts(one):
    """Return the cells of a row of counts."""
    good = one["good"]
    return [
        f"{one['usable']}/{one['verdicts']}", str(one["usable, missed"]), str(good),
        str(good - one["good, not usable"]), short(one["half-width"]),
    ]  # fmt: skip


TABLES = {
    "accuracy": ("accuracy", accuracy),
    "accuracy targets": ("accuracy", targets),
    "accuracy beside packages": ("accuracy", beside_packages),
    "verdicts": ("verdicts", verdicts),
    "verdicts by family": ("verdicts", verdicts_by_family),
    "verdicts held out": ("held-out", verdicts),
}
"""The file that each table is made from, and how."""


def tables(files):
    """Return the tables of the files of measurements, by name."""
    return {name: make(files[file]) for name, (file, make) in TABLES.items() if file in files}


def fill_tables(text, measured):
    """Return the text of a page with the tables that were measured."""
    return TABLE.sub(lambda m: m[1] + measured[m[2]] + m[3] if m[2] in measured else m[0], text)
