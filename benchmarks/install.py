"""What an installation weighs, and the time until it is ready: import, first use, help.

Run by ``make weight``; writes ``results/install.json``. It creates a new environment for the
base install and one for ``saddleback[all]``. Times are CPU times, the best of five.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import machine, machine_line
from rich import box
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
INSTALLS = {"base": str(ROOT), "all": f"{ROOT}[all]"}
STARTS = {
    "import saddleback": "import saddleback",
    "sb.evaluate": "import saddleback as sb; sb.evaluate",
    "saddleback --help": "import sys; sys.argv[1:] = ['--help']; import saddleback.__main__",
}


def install(requirement, folder):
    """Return the Python of a new environment with the package, and its weight without pip, MB."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = next(path for path in Path(folder).glob("*/python*") if path.stem == "python")
    before = weight(folder)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", ROOT / "constraints.txt", requirement], check=True)
    return python, (weight(folder) - before) / 1e6


def weight(folder):
    """Return the bytes of all files in a folder."""
    return sum(path.lstat().st_size for path in Path(folder).rglob("*") if not path.is_dir())


def start_seconds(python, code, folder):
    """Return the CPU seconds of a program, the best of five."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [python, "-c", code], stdout=subprocess.DEVNULL, check=True, env=environment, cwd=folder
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def main():
    """Measure, print, write."""
    print(machine_line())
    table = Table("quantity", "value", box=box.SIMPLE)
    weights, starts = {}, {}
    for name, requirement in INSTALLS.items():
        with tempfile.TemporaryDirectory() as folder:
            python, weights[name] = install(requirement, folder)
            table.add_row(f"{name}, MB", f"{weights[name]:,.0f}")
            if name == "base":
                starts = {name: start_seconds(python, STARTS[name], folder) for name in STARTS}
    for name, seconds in starts.items():
        table.add_row(f"{name}, s of CPU time", f"{seconds:.2f}")
    Console().print(table)
    Path("results").mkdir(exist_ok=True)
    content = {"machine": machine(), "weight_mb": weights, "start_cpu_s": starts}
    Path("results/install.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
