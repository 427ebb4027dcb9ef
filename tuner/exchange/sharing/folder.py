"""A shared store in a folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tuner.errors import RequestError
from tuner.exchange.sharing.files import Damaged, TooLong
from tuner.quoting import quoted, shown


class SharedFolder:
    """A shared store in a folder."""

    def __init__(self, folder: Path) -> None:
        """Raises RequestError if there is no such folder."""
        self._folder = folder
        self.bytes_read = 0
        if not folder.is_dir():
            raise RequestError(f"{quoted(str(folder))}: there is no such folder; name a folder, or an https:// address")

    def __str__(self) -> str:
        return shown(self._folder)

    def read(self, path: str, most: int) -> bytes:
        where = f"{str(self).rstrip('/')}/{path}"
        try:
            # A pipe must neither block nor be read.
            descriptor = os.open(self._folder / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise Damaged(f"{where}: is not a regular file")
                data = file.read(most + 1)
        except OSError as error:
            raise Damaged(f"{where}: cannot be read: {error.strerror}") from None
        self.bytes_read += len(data)
        if len(data) > most:
            raise TooLong(f"{where}: has {status.st_size} bytes; at most {most} are allowed")
        return data

    def close(self) -> None:
        pass
