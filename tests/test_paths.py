"""Files are written complete or not at all, whichever command writes them."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import saddleback as sb
from helpers.studies import invoke
from saddleback._paths import atomic_file, atomic_write, check_writable, output_file
from saddleback.errors import InvalidParameter
from saddleback.plots.style import save

POSIX = pytest.mark.skipif(os.name == "nt", reason="links, devices and signals of POSIX")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write_then_fail(path, error):
    with output_file(path) as file:
        file.write(b"half")
        raise error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), ValueError("no")])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "result.json"
    path.write_text("old")
    with pytest.raises((InvalidParameter, ValueError)):
        write_then_fail(path, error)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["result.json"]


def test_an_error_of_the_disk_names_the_file_and_a_fix(tmp_path):
    with pytest.raises(InvalidParameter, match=r"cannot write .*x\.npz: No space left\. Choose"):
        write_then_fail(tmp_path / "x.npz", OSError(errno.ENOSPC, "No space left"))


@POSIX
def test_a_kill_leaves_the_old_file_and_the_next_run_clears_the_rest(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from saddleback._paths import atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as file:\n"
        "    file.write(b'half')\n    file.flush()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    atomic_write(path, b"new")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["page.html"]


def test_two_writers_of_a_file_do_not_mix_their_content(tmp_path):
    path = tmp_path / "result.json"
    with atomic_file(path) as slow:
        slow.write(b"slow, ")
        with atomic_file(path) as quick:
            quick.write(b"quick")
        assert path.read_bytes() == b"quick"
        slow.write(b"and later")
    assert path.read_bytes() == b"slow, and later"
    assert names(tmp_path) == ["result.json"]


def test_checking_a_path_never_creates_the_file(tmp_path, monkeypatch):
    """Killed at any moment, the check leaves no empty file."""
    path, seen = tmp_path / "new.json", []
    unlink = Path.unlink

    def watched(self, missing_ok=False):
        seen.append(path.exists())
        unlink(self, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", watched)
        check_writable(path)
    assert seen == [False]
    assert names(tmp_path) == []


@POSIX
def test_a_private_file_stays_private(tmp_path):
    path = tmp_path / "result.json"
    path.write_text("old")
    path.chmod(0o600)
    atomic_write(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o600


@POSIX
def test_a_link_stays_a_link_and_a_device_a_device(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "r.json", tmp_path / "r.json"
    link.symlink_to(target)
    atomic_write(link, b"{}")
    assert link.is_symlink()
    assert target.read_bytes() == b"{}"
    atomic_write(Path(os.devnull), b"{}")
    assert Path(os.devnull).is_char_device()


def failing_sync(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


OUTPUTS = [
    "log.parquet",
    "collected.parquet",
    "system.npz",
    "page.html",
    "figure.png",
    "figure.pdf",
]


def outputs(folder):
    """Every kind of output, as a function that writes it."""
    from matplotlib.figure import Figure

    log = sb.collect(sb.problems.mountain_car(), episodes=2, rng=0, limit=20)
    system = sb.System.exact(sb.problems.two_state(0.5), sb.GES(0.0))
    return {
        "log.parquet": lambda path: log.write(path),
        "collected.parquet": lambda path: sb.collect(
            sb.problems.mountain_car(), episodes=2, rng=0, limit=20, out=path
        ),
        "system.npz": lambda path: sb.system.save(system, path),
        "page.html": lambda path: sb.report.write("<!doctype html>", path),
        "figure.png": lambda path: save(Figure(), folder, "figure", ("png",), dpi=50),
        "figure.pdf": lambda path: save(Figure(), folder, "figure", ("pdf",), dpi=50),
    }


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_full_disk_does_not_damage_an_existing_output(tmp_path, monkeypatch, name):
    write, path = outputs(tmp_path)[name], tmp_path / name
    path.write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing_sync)
        with pytest.raises(InvalidParameter, match="No space left on device"):
            write(path)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == [name]
    write(path)
    assert path.read_bytes() != b"old"
    assert names(tmp_path) == [name]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_disk_that_is_full_at_once_is_reported(tmp_path, name):
    """Written to a device, without a hidden file, so that the writers themselves fail."""
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(InvalidParameter, match=f"cannot write .*{name}: "):
        outputs(tmp_path)[name](tmp_path / name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_writer_that_hides_the_error_of_the_disk(tmp_path, monkeypatch):
    """As Matplotlib does where a PDF ends in the middle of a font."""
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    def print_pdf(self, file, **options):
        try:
            file.write(bytes(10**6))
            file.flush()
        except OSError:
            raise AttributeError("'Stream' object has no attribute 'pos'") from None

    monkeypatch.setattr(FigureCanvasPdf, "print_pdf", print_pdf)
    (tmp_path / "figure.pdf").symlink_to("/dev/full")
    with pytest.raises(InvalidParameter, match="No space left on device"):
        outputs(tmp_path)["figure.pdf"](tmp_path / "figure.pdf")


class Killed(BaseException):
    """Stands for the sudden end of a process."""


WRITE = ("open", "fsync", "replace", "fsync")
"""Calls that write a file: its hidden copy, its content, its name, the folder."""

CALLS = ("open", "open", *WRITE, "open", *WRITE)
"""Those of a command that writes two: it checks both, then the page once more."""


@pytest.mark.parametrize("step", range(len(CALLS)))
def test_evaluate_killed_while_it_writes_keeps_whole_files(tmp_path, monkeypatch, step):
    log, save, page = (tmp_path / name for name in ("log.parquet", "result.json", "page.html"))
    sb.collect(sb.problems.mountain_car(), episodes=3, rng=0, limit=20, out=log)
    options = ("--target", "pump:0.8", "--gamma", "0.9", "--features", "tiles:1x1", "--quiet")
    arguments = ("evaluate", log, *options, "--save", save, "--report", page)
    for path in (save, page):
        path.write_bytes(b"old")
    calls = []

    def fragile(name, act):
        def acting(*given, **named):
            written = given[0].suffix == ".part" if isinstance(given[0], Path) else True
            if written and (name != "open" or given[1:2] == ("x+b",)):
                calls.append(name)
                if len(calls) - 1 == step:
                    raise Killed
            return act(*given, **named)

        return acting

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fragile("fsync", os.fsync))
        patch.setattr(Path, "open", fragile("open", Path.open))
        patch.setattr(Path, "replace", fragile("replace", Path.replace))
        with pytest.raises(Killed):
            invoke(*arguments)
    assert tuple(calls) == CALLS[: step + 1]
    for path, ends in ((save, b"}"), (page, b"</html>")):
        assert path.read_bytes() == b"old" or path.read_bytes().rstrip().endswith(ends)
    invoke(*arguments)
    assert names(tmp_path) == ["log.parquet", "page.html", "result.json"]
    assert json.loads(save.read_bytes())["steps"] == 60
