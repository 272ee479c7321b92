"""One writer at a time: a lock that the system takes back whenever and however a process ends."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TextIO

from saddleback.errors import InvalidParameter


@dataclass
class Lock:
    """The right to write into a folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = Lock.take(Path(folder))
    ...     lock.give_back()
    ...     Lock.take(Path(folder)).give_back()
    """

    file: TextIO

    @classmethod
    def take(cls, folder: Path) -> Self:
        """Take it, or say who has it."""
        try:
            import fcntl
        except ImportError:
            raise InvalidParameter(
                "results can be written on Linux and macOS only: this system has no locks that "
                "end with their process."
            ) from None
        file = (folder / ".lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            file.close()
            raise InvalidParameter(
                f"{folder} is being written by {owner}. Wait for it to end, or choose another "
                "folder with --out."
            ) from None
        said = f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%c')}"
        file.truncate(0)
        with suppress(OSError):  # on a full disk it is held without a name
            os.write(file.fileno(), said.encode())
        return cls(file)

    def give_back(self) -> None:
        """Let others take it."""
        if not self.file.closed:
            self.file.truncate(0)
            self.file.close()
