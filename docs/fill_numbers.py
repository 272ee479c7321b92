"""Fill the measured numbers of the pages: ``make numbers``, after ``make bench weight``.

A number in a page is followed by a comment with its name, as in ``379<!--= one learner -->``.
Numbers are computed here from the files in ``project/measurements``, copies of those that the
benchmarks wrote to ``results``, unless these are older. A number that was not measured stays, and
is reported. Whole tables are those of `fill_tables`.
"""

import json
import re
import shutil
import sys
from pathlib import Path

from fill_tables import TABLES, fill_tables, tables

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
MEASUREMENTS = DOCS / "project" / "measurements"
NUMBER = re.compile(r"([\w.,–%\xa0-]+)<!--= (.+?) -->")


def ratio(name, form):
    """Return a ratio of bench.json, by its name there."""
    return "bench", lambda m: format(m["ratios"][name], form)


def compiling(features):
    """Return the seconds of compiling the first evaluation."""
    name = f"evaluate, {features}"
    return "bench-compiling", lambda m: f"{m['runs'][name]['compiling']['cpu_s']:.1f}"


def weight(name):
    """Return the size of an installation."""
    return "install", lambda m: f"{round(m['weight_mb'][name], -1):.0f}"


def evaluation(k, key, form, unit=1.0):
    """Return a measurement of the evaluation of log k."""
    return "bench-logs", lambda m: format(m["evaluations"][k][key] / unit, form)


def row_range(m):
    """Return the microseconds of a row of the longest log, for the fastest and slowest trace."""
    longest = list(m["logs"].values())[-1]
    times = [
        1e6 * seconds / longest["rows"]
        for name, seconds in longest.items() if name not in ("rows", "read_s", "peak_mb")
    ]  # fmt: skip
    return f"{min(times):.2f}–{max(times):.2f}"


def machine(name):
    """Return a property of the machine that ran ``make bench``."""
    return "bench", lambda m: str(m["machine"][name]).replace(" ", "\xa0")


def version(package):
    """Return the version of a package in ``make bench``."""
    return "bench", lambda m: m["machine"]["versions"][package]


def minutes(command):
    """Return the minutes that a command takes without its installation."""

    def show(m):
        return f"{m['seconds'][command] / 60:.1f}" if command in m["seconds"] else None

    return "bench-commands", show


def share(job, way):
    """Return the throughput of a way to run the tasks of a job, relative to plain threads."""
    return "scaling", lambda m: f"{m[job]['seconds'][PLAIN] / m[job]['seconds'][way]:.0%}"


def plain_rate(job, unit, form):
    """Return the throughput of plain threads, in millions per second."""
    return "scaling", lambda m: format(m[job][unit] / m[job]["seconds"][PLAIN] / 1e6, form)


def task_seconds(job):
    """Return the seconds of a task."""
    return "scaling", lambda m: f"{m[job]['seconds'][ONE] / m[job]['tasks']:.1f}"


def projected(job):
    """Return the seconds of a large job on a cluster, computed from the measurements."""
    return "scaling", lambda m: f"{m['projected_s'][job]:.0f}"


def gpu(show):
    """Return a number of bench-gpu.json."""
    return "bench-gpu", show


def mutants(show):
    """Return a number of mutants.json."""
    return "mutants", show


def gpu_rate(rule, dtype):
    """Return the billions of learner-steps per second of 32,000 learners on a GPU."""
    return gpu_kernel(rule, dtype, 32_000, "rate", ".0f", 1e9)


def gpu_kernel(rule, dtype, learners, key, form, unit=1.0):
    """Return a measurement of the kernel on a GPU."""
    wanted = {"rule": rule, "dtype": dtype, "learners": learners}

    def show(m):
        rows = m["kernel"] + m["further"]
        (row,) = (row for row in rows if row.items() >= wanted.items())
        return format(row[key] / unit, form)

    return gpu(show)


def ges(key, learners, form):
    """Return a measurement of GES in float64."""
    return gpu_kernel("GES(0.9)", "float64", learners, key, form)


def gpu_by_lambda(m):
    """Return the time of a step at the slowest λ, relative to λ = 0."""
    times = [row["us_per_step"] for row in m["by_lambda"].values()]
    return f"{max(times) / times[0]:.2f}"


PLAIN, ONE, TWO, DASK = "plain, 2 threads", "--workers 1", "--workers 2", "--dask, 2 workers"

NUMBERS = {
    "processor": machine("processor"),
    "cores": machine("cores"),
    "date": machine("date"),
    "python, version": version("python"),
    "numpy, version": version("numpy"),
    "scipy, version": version("scipy"),
    "numba, version": version("numba"),
    "pyarrow, version": version("pyarrow"),
    "make paper, min": minutes("make paper"),
    "make test, min": minutes("make test"),
    ".venv, MB": (
        "bench-commands",
        lambda m: f"{m['installation_mb']:.0f}" if "installation_mb" in m else None,
    ),
    "oracle, µs": ("bench", lambda m: f"{m['ns_per_learner_step']['oracle'] / 1e3:.0f}"),
    "one learner": ratio("one learner: oracle / engine", ".0f"),
    "121 learners": ratio("121 learners: oracle / engine", ",.0f"),
    "121 learners, C": ratio("121 learners: engine / plain C", ".2f"),
    "one learner, C": ratio("1 learner: engine / plain C", ".2f"),
    "hashed": ratio("p = 10⁶ / p = 10³, same tiles hashed", ".2f"),
    "fine": ratio("p = 10⁶ / p = 10³, fine tiles", ".2f"),
    "fine, ns": (
        "bench", lambda m: f"{m['ns_per_step_by_size_16']['fine_tiles']['1000000']:.0f}"
    ),
    "accesses, ns": ("bench", lambda m: f"{m['ns_per_step_rows_alone_16']['fine_tiles']:.0f}"),
    "two threads": ratio("121 learners end to end: two threads / one", ".2f"),
    "two kernels": ratio("two independent kernels / one", ".2f"),
    "λ": ratio("largest over λ > 0 / λ = 0", ".2f"),
    "paper, s": ("bench", lambda m: f"{m['paper']['learning_cpu_s_for_5_runs']:.0f}"),
    "tiles, s": compiling("tiles:8x4"),
    "polynomial, s": compiling("polynomial:3"),
    "base, MB": weight("base"),
    "all, MB": weight("all"),
    "row, µs": ("bench-logs", row_range),
    "short, rows": evaluation(0, "rows", ",.0f"),
    "short, s": evaluation(0, "seconds", ".1f"),
    "long, rows": evaluation(1, "rows", ",.0f"),
    "long, s": evaluation(1, "seconds", ".1f"),
    "long, GB": evaluation(1, "peak_mb", ".1f", 1e3),
    "longest, s": evaluation(2, "seconds", ".0f"),
    "longest, GB": evaluation(2, "peak_mb", ".1f", 1e3),
    "study, s": task_seconds("study"),
    "study, plain": plain_rate("study", "learner_steps", ".0f"),
    "study, 1": share("study", ONE),
    "study, 2": share("study", TWO),
    "study, dask": share("study", DASK),
    "log, s": task_seconds("log"),
    "log, plain": plain_rate("log", "rows", ".2f"),
    "log, 1": share("log", ONE),
    "log, 2": share("log", TWO),
    "log, dask": share("log", DASK),
    "task, ms": ("scaling", lambda m: f"{1e3 * m['study']['dask_task']:.1f}"),
    "10⁶ settings, s": projected("study"),
    "10¹⁰ rows, s": projected("log"),
    "merge, s": projected("merge"),
    "GPU, TB/s": gpu(lambda m: f"{m['gpu']['bandwidth'] / 1e12:.1f}"),
    "GPU, threads": gpu(lambda m: f"{m['machine']['cores']}"),
    "GPU, CPU": gpu(lambda m: f"{max(m['cpu_rate'].values()) / 1e9:.1f}"),
    "GPU, paper": gpu(lambda m: f"{m['targets']['paper, seconds'][0]:.1f}"),
    "GQ, 64": gpu_rate("GQ(0.9)", "float64"),
    "ES, 64": gpu_rate("ExpectedSarsa(0.9)", "float64"),
    "GQ, 32": gpu_rate("GQ(0.9)", "float32"),
    "ES, 32": gpu_rate("ExpectedSarsa(0.9)", "float32"),
    "TGTD, 64": gpu_rate("TrueOnlineGTD(0.9)", "float64"),
    "TGTD, 32": gpu_rate("TrueOnlineGTD(0.9)", "float32"),
    "GPU, million": gpu(lambda m: f"{m['million']['rate'] / 1e9:.0f}"),
    "GPU, GB": gpu(lambda m: f"{m['million']['memory_gb']:.0f}"),
    "GPU, λ": gpu(gpu_by_lambda),
    "GPU, bytes": ges("bytes_per_step", 32_000, ".0f"),
    "GPU, share": ges("share_of_bandwidth", 32_000, ".0%"),
    "GPU, warps": ges("warps_per_multiprocessor", 32_000, ".0f"),
    "GPU, full share": ges("share_of_bandwidth", 655_360, ".0%"),
    "GPU, full warps": ges("warps_per_multiprocessor", 655_360, ".0f"),
    "mutants": mutants(lambda m: f"{len(m['mutants'])}"),
    "mutants, seed": mutants(lambda m: f"{m['seed']}"),
    "mutants, all": mutants(lambda m: f"{m['all']:,}"),
    "mutants, killed": mutants(lambda m: f"{m['killed']}"),
    "mutants, share": mutants(lambda m: f"{m['killed'] / len(m['mutants']):.0%}"),
    "mutants, others": mutants(lambda m: f"{len(m['mutants']) - m['equivalent']}"),
    "mutants, share of others": mutants(
        lambda m: f"{m['killed'] / (len(m['mutants']) - m['equivalent']):.0%}"
    ),
}  # fmt: skip
"""The file that each number is computed from, and how."""


def measurements():
    """Return the contents of the files of measurements, by name."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in MEASUREMENTS.glob("*.json")
    }


def numbers():
    """Return the numbers that were measured, as they are printed, by name."""
    files = measurements()
    shown = {name: show(files[file]) for name, (file, show) in NUMBERS.items() if file in files}
    return {name: text for name, text in shown.items() if text is not None}


def copy_results(results, measurements):
    """Copy the measurements that are not older than those kept; return lines about the others."""
    older = []
    for file in sorted({file for file, _ in (*NUMBERS.values(), *TABLES.values())}):
        new, kept = results / f"{file}.json", measurements / f"{file}.json"
        if not new.exists():
            continue
        dates = [measured_on(path) for path in (new, kept)]
        if dates[0] < dates[1]:
            older.append(f"kept: {kept.name} of {dates[1]}; that in {results.name} is older")
        else:
            shutil.copy(new, kept)
    return older


def measured_on(path):
    """Return the date of a measurement, which sorts as text; "" if there is none."""
    if not path.exists():
        return ""
    return json.loads(path.read_text(encoding="utf-8")).get("machine", {}).get("date", "")


def pages():
    """Return the pages that may have such numbers."""
    return [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]


def fill(text, measured):
    """Return the text of a page with the numbers that were measured."""
    return NUMBER.sub(lambda m: f"{measured.get(m[2], m[1])}<!--= {m[2]} -->", text)


def main():
    """Fill in every page; print the names of those that change, and of missing files."""
    for line in copy_results(RESULTS, MEASUREMENTS):
        sys.stdout.write(f"{line}\n")
    measured, measured_tables = numbers(), tables(measurements())
    for page in pages():
        text = page.read_text(encoding="utf-8")
        filled = fill_tables(fill(text, measured), measured_tables)
        if filled != text:
            page.write_text(filled, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(DOCS.parent)}\n")
    missing = {NUMBERS[name][0] for name in set(NUMBERS) - set(measured)}
    missing |= {TABLES[name][0] for name in set(TABLES) - set(measured_tables)}
    for file in sorted(missing):
        sys.stdout.write(f"not measured: {file}.json\n")


if __name__ == "__main__":
    main()
