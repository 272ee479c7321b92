"""`saddleback` in processes forked from one that has imported it and loaded its kernels.

Most commands of the tests take less time than starting an interpreter and loading the kernels. A
fork has done both; what depends on a fresh start is tested in a new process.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from functools import cache
from pathlib import Path
from subprocess import PIPE

import pytest

from helpers import opinions

LIBRARIES = (
    "jinja2", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_pdf",
    "matplotlib.figure", "pyarrow.parquet", "rich.progress", "rich.table", "saddleback.plots",
    "saddleback.report.page", "saddleback.sweep", "saddleback.theory", "scipy.linalg",
    "scipy.optimize", "scipy.stats",
)  # fmt: skip
"""What commands import as they need it."""

DIGITS = 20
"""Length of a number in the answer of the server, so that two can be told apart."""


class ForkedCommand:
    """A running command, with the part of the interface of `subprocess.Popen` that tests use.

    Streams are open descriptors; those of output may be PIPE. The command has its own session, and
    a terminal that it reads is its controlling one, for Ctrl-C.
    """

    def __init__(self, words, *, stdin, stdout, stderr, cwd=None, env=None):
        far, near = [], []
        for stream in (stdin, stdout, stderr):
            read, write = os.pipe() if stream == PIPE else (None, os.dup(stream))
            near.append(read)
            far.append(write)
        self._status, status = os.pipe()
        request, writer = os.pipe()
        socket.send_fds(server(), [b"!"], [*far, status, request])
        for descriptor in (*far, status, request):
            os.close(descriptor)
        with open(writer, "w", encoding="utf-8") as file:
            json.dump([[*map(str, words)], str(cwd or Path.cwd()), dict(env or os.environ)], file)
        self.pid, self.returncode = int(os.read(self._status, DIGITS)), None
        self.stdout, self.stderr = (None if end is None else os.fdopen(end) for end in near[1:])

    def poll(self):
        """Return the exit status, or None while the command runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        """Wait for the end of the command; return its exit status."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("saddleback", timeout)
            self.returncode = int(os.read(self._status, DIGITS))
            os.close(self._status)
        return self.returncode

    def communicate(self, timeout=None):
        """Wait for the end of the command; return the rest of its output and of its messages."""
        texts = ["", ""]

        def read(number, stream):
            with stream:
                texts[number] = stream.read()

        open_streams = [(n, s) for n, s in enumerate((self.stdout, self.stderr)) if not s.closed]
        readers = [threading.Thread(target=read, args=pair, daemon=True) for pair in open_streams]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join()
        return tuple(texts)

    def send_signal(self, number):
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """End the command at once."""
        self.send_signal(signal.SIGKILL)


def start_forked(*words, **environment):
    """Start a command in a fork, with further environment variables; its output goes to pipes."""
    with open(os.devnull, encoding="utf-8") as nothing:
        return ForkedCommand(
            words, stdin=nothing.fileno(), stdout=PIPE, stderr=PIPE, env=os.environ | environment
        )


def run_forked(*words, **environment):
    """Run a command in a fork; return its exit status and output."""
    process = start_forked(*words, **environment)
    output = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, *output)


@cache
def server():
    """Start the process that is forked, once for each process of the tests; return its socket."""
    if not hasattr(os, "fork"):
        pytest.skip("needs os.fork, which Windows lacks")
    near, far = socket.socketpair()
    with far:
        process = subprocess.Popen(
            [sys.executable, "-m", "helpers.fork_server", str(far.fileno())],
            cwd=Path(__file__).parents[1],
            pass_fds=[far.fileno()],
        )

    def stop():
        near.close()
        process.wait()

    atexit.register(stop)
    return near


def prepare():
    """Import the commands, and load the kernels that most of them call."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a process with threads cannot be forked
    import saddleback as sb
    from saddleback.cli.group import COMMANDS

    for name in (*(f"saddleback.cli.cmd_{command}" for command in COMMANDS), *LIBRARIES):
        importlib.import_module(name)
    problem = sb.problems.mountain_car()
    log = sb.collect(problem, episodes=5, rng=0, limit=50)
    sb.evaluate(log, {"new": "pump:0.8"}, features=problem.features, gamma=0.99)
    sb.report.page.bundle()
    gc.freeze()


def serve(requests):
    """Fork a process for each request until the tests end."""
    while True:
        received, descriptors, *_ = socket.recv_fds(requests, 1, 5)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass  # a command that has ended
        if not received:
            return
        if os.fork() == 0:
            supervise(requests, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def supervise(requests, descriptors):
    """Fork the process of the command; report its id and then its exit status."""
    from saddleback.cli import exit_at_once

    *streams, status, request = descriptors
    requests.close()
    with open(request, encoding="utf-8") as file:
        words, folder, environment = json.load(file)
    process = os.fork()
    if process == 0:
        os.close(status)
        try:
            become(words, folder, environment, streams)
        except BaseException:
            traceback.print_exc()
            exit_at_once(1)
        exit_at_once(0)
    for descriptor in streams:
        os.close(descriptor)
    os.write(status, f"{process:{DIGITS}}".encode())
    ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        os.write(status, f"{ended:{DIGITS}}".encode())
    os._exit(0)


def become(words, folder, environment, streams):
    """Run a command as ``python -m saddleback`` does in a new process."""
    os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if os.isatty(0):
        import fcntl  # not on Windows, where these tests are skipped
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path[0] = folder
    sys.argv = ["saddleback", *words]
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    if opinions.FOLDER in environment:
        opinions.know_opinions(pytest.MonkeyPatch(), environment[opinions.FOLDER])
    from saddleback.cli import main

    main()


if __name__ == "__main__":
    prepare()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        serve(requests)
