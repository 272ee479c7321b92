"""A lock on a folder that the operating system releases however its process ends."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TextIO

from saddleback.errors import Fix, InvalidParameter


@dataclass
class FileLock:
    """The exclusive right to write into a folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = FileLock.acquire(Path(folder))
    ...     lock.release()
    ...     FileLock.acquire(Path(folder)).release()
    """

    file: TextIO

    @classmethod
    def acquire(cls, folder: Path) -> Self:
        """Acquire the lock, or raise an error that names its owner."""
        try:
            import fcntl
        except ImportError:
            raise InvalidParameter(
                "results can be written on Linux and macOS only: this system has no file locks "
                "that end with their process."
            ) from None
        file = (folder / ".lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            file.close()
            raise InvalidParameter(
                f"{folder} is being written by {owner}.",
                Fix("Wait for it to finish, or choose another folder", "out"),
            ) from None
        owner = f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%c')}"
        file.truncate(0)
        with suppress(OSError):  # on a full disk the lock is held without a name
            os.write(file.fileno(), owner.encode())
        return cls(file)

    def release(self) -> None:
        """Release the lock."""
        if not self.file.closed:
            self.file.truncate(0)
            self.file.close()
