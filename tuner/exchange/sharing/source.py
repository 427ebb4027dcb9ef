"""Where a user says that a shared store is: in a folder, or at an https:// address."""

from __future__ import annotations

from pathlib import Path

from tuner.errors import RequestError
from tuner.exchange.sharing.files import SharedFiles
from tuner.exchange.sharing.folder import SharedFolder
from tuner.quoting import shown


def opened(text: str) -> SharedFiles:
    """The shared store that a user names: a URL that begins with https://, or a folder. Raises RequestError."""
    scheme, separator, _ = text.partition("://")
    if not separator:
        return SharedFolder(Path(text))
    if scheme.lower() != "https":
        raise RequestError(f"{shown(scheme)}://: only https:// is read; name such an address, or a folder")
    from tuner.exchange.sharing.web import Web  # which imports ssl

    return Web(text)
