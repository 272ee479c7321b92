"""Strategies of kills and full disks while files are written: the old file or a whole one stays."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from hypothesis import strategies as st

import saddleback as sb
from saddleback.errors import SaddlebackError
from saddleback.problems.synthetic_clinic import DOSES, SIGNS
from saddleback.report.page import bundle

from .logs import clean_bytes, clean_rows
from .mutations import between
from .studies import STUDY
from .trial import Answer, Broken, Skip, Trial

EVALUATE = (
    "evaluate", "log.parquet", "--obs", "hr,bp,lactate", "--target", "uniform", "--features",
    "polynomial:1", "--quiet", "--save", "out/result.json", "--report",
    "out/page.html",
)  # fmt: skip
STATS = (
    "stats", "parts", "--obs", "hr,bp,lactate", "--actions", "none,low,high", "--target", "uniform",
    "--gamma", "0.97", "--features", "polynomial:1", "--low", "0,0,0", "--high", "200,200,20",
    "--quiet", "--out", "out/log.stats", "--workers", "1",
)  # fmt: skip
SWEEP = ("sweep", "study.toml", "--quiet", "--out", "out/store", "--workers", "1")

PARTS = 6
"""Files of the log for ``stats``, each a chunk of its own."""

LONGEST = 300.0
"""Seconds after which a command counts as hanging."""


def prepare(folder: Path) -> None:
    """Write the inputs of the commands."""
    (folder / "out").mkdir()
    (folder / "log.parquet").write_bytes(clean_bytes())
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    (folder / "parts").mkdir()
    rows = clean_rows()
    ids = rows["episode_id"].to_numpy()
    for k, part in enumerate(np.array_split(np.unique(ids), PARTS)):
        pq.write_table(rows.filter(np.isin(ids, part)), folder / "parts" / f"{k}.parquet")


def forked(words: tuple[str, ...], folder: Path, delay: float = LONGEST) -> int:
    """Run a command in a fork, killed after a delay; return its exit status."""
    process = os.fork()
    if process == 0:
        try:
            os.chdir(folder)
            sys.argv = ["saddleback", *words]
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (1, 2):
                os.dup2(null, stream)
            from saddleback.cli.group import group
            from saddleback.sweep import statistics_chunks

            statistics_chunks.MIN_ROWS = 1
            group(list(words))
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else 1)
        except BaseException:
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + delay
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, without those of a lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".lock", ".owner")
    }


@functools.cache
def uninterrupted(words: tuple[str, ...]) -> tuple[dict[str, bytes], float]:
    """Return the files that a command writes, and its duration."""
    bundle()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        forked(words, folder)
        shutil.rmtree(folder / "out")
        (folder / "out").mkdir()
        begun = time.monotonic()
        status = forked(words, folder)
        if status not in (0, 3, 4):
            raise Broken(f"{words[0]} ends with {status}")
        return contents(folder / "out"), time.monotonic() - begun


@st.composite
def killed(draw: st.DrawFn) -> Trial:
    """A command that is killed up to three times over old files, then finishes."""
    words = draw(st.sampled_from((EVALUATE, STATS, SWEEP)))
    moments = draw(st.lists(between(0.0, 1.1), min_size=1, max_size=3))

    def use(folder: Path) -> Answer:
        files, duration = uninterrupted(words)
        prepare(folder)
        old = {name: b"old" for name in files} if words == EVALUATE else {}
        for name, content in old.items():
            (folder / "out" / name).write_bytes(content)
        for moment in moments:
            forked(words, folder, moment * duration)
            for name, content in contents(folder / "out").items():
                complete = (old.get(name), files.get(name))
                grows = name == "store/SHA256SUMS"  # line by line
                if name in files and content not in complete and not grows:
                    raise Broken(f"{name} holds {len(content)} bytes after a kill")
        if not old.keys() <= contents(folder / "out").keys():
            raise Broken("an old file is gone")
        status = forked(words, folder)
        if status not in (0, 3, 4):
            raise Broken(f"{words[0]} ends with {status} after a kill")
        return _lines(contents(folder / "out"))

    damage = f"kill {words[0]} after {np.round(moments, 3).tolist()} of its time"
    if not hasattr(os, "fork"):
        return Trial(damage, _no_fork, Answer)
    return Trial(damage, use, lambda: _lines(uninterrupted(words)[0]))


def _lines(files: dict[str, bytes]) -> Answer:
    return Answer({name: set(content.split(b"\n")) for name, content in files.items()})


def _no_fork(folder: Path) -> Answer:
    raise Skip("needs os.fork")


def _log(path: Path) -> None:
    sb.Log(clean_rows(), observations=SIGNS, actions=DOSES).write(path)


def _collected(path: Path) -> None:
    sb.collect(sb.problems.mountain_car(), episodes=20, rng=0, limit=50, out=path)


def _system(path: Path) -> None:
    sb.system.save(sb.System.exact(sb.problems.random_mdp(rng=0), sb.GES(0.5)), path)


def _statistics(path: Path) -> None:
    log = sb.Log(clean_rows(), observations=SIGNS, actions=DOSES)
    features = sb.features.Polynomial((0, 0, 0), (200, 200, 20), degree=1)
    sums = sb.Statistics.of(log, sb.GES(0.5), "uniform", features=features, gamma=0.97)
    sb.save_statistics(sums, path)


def _page(path: Path) -> None:
    sb.report.write("<!doctype html>" + "x" * 50_000, path)


def _figure(path: Path) -> None:
    import matplotlib.pyplot as plt

    from saddleback.plots import save, style

    with style():
        figure, ax = plt.subplots(figsize=(3.0, 2.0))
        ax.plot(np.random.default_rng(0).random((300, 5)))
        save(figure, path.parent, path.stem, (path.suffix[1:],), dpi=60)


OUTPUTS: dict[str, Callable[[Path], None]] = {
    "log.parquet": _log, "collected.parquet": _collected, "system.npz": _system,
    "day.stats": _statistics, "page.html": _page, "figure.png": _figure, "figure.pdf": _figure,
}  # fmt: skip


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a small disk in memory."""
    place = folder / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except OSError:
        done = None
    if done is None or done.returncode:
        raise Skip("mounting a small disk is not allowed")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@st.composite
def full_disk(draw: st.DrawFn) -> Trial:
    """An output over an old one where there is not enough room, then where there is."""
    name = draw(st.sampled_from(sorted(OUTPUTS)))
    room = 4096 * draw(st.integers(0, 29))
    write = OUTPUTS[name]

    def use(folder: Path) -> Answer:
        write(folder / name)
        expected = (folder / name).read_bytes()
        with small_disk(folder, 1 << 20) as disk:
            path = disk / name
            path.write_bytes(b"old")
            free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
            (disk / "filler").write_bytes(bytes(max(0, free - room)))
            error = None
            try:
                write(path)
            except SaddlebackError as problem:
                error = problem
                if path.read_bytes() != b"old" or name not in str(error):
                    raise Broken(f"{name} after a full disk: {error}") from None
            if error is None and path.read_bytes() != expected:
                raise Broken(f"{name} is not complete")
            (disk / "filler").unlink()
            write(path)
            if path.read_bytes() != expected or [p.name for p in disk.iterdir()] != [name]:
                raise Broken(f"{name} is not complete after space was freed")
        if error is not None:
            raise error
        return Answer("written")

    return Trial(f"{name} with {room} bytes left", use, lambda: Answer("written"))
