"""The files of a shared store, as they are read: from a folder or a web server, and checked against an index."""

from __future__ import annotations

import hashlib
from typing import Protocol

from tuner.errors import RequestError
from tuner.exchange.sharing.index import SharedFile


class Damaged(RequestError):
    """A file is not the one that the index describes, or is missing. Other files may be right."""


class TooLong(Damaged):
    """A file has more bytes than the caller allows."""


class SharedFiles(Protocol):
    """A shared store that can be read. Its `str()` is for messages.

    `bytes_read` counts what `read` has read so far, of files that were refused, too.
    """

    bytes_read: int

    def read(self, path: str, most: int) -> bytes:
        """The content of a file below the store's root, at most `most` bytes.

        Raises TooLong if the file is longer, Damaged if it is missing, and RequestError if the store cannot be read at
        all.
        """

    def close(self) -> None:
        """Close what it holds open."""


def checked(shared: SharedFiles, path: str, file: SharedFile) -> bytes:
    """The content of a file that is as its index says. Raises Damaged if it is not, and as `SharedFiles.read`."""
    where = f"{shared}/{path}"
    try:
        data = shared.read(path, file.bytes)
    except TooLong:
        raise Damaged(f"{where}: has more than the {file.bytes} bytes of the index") from None
    if len(data) < file.bytes:
        raise Damaged(f"{where}: has {len(data)} of the {file.bytes} bytes of the index")
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise Damaged(f"{where}: its checksum (SHA-256) is not that of the index")
    return data
