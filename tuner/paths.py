"""Where things are kept: what ships with the package, and the user's own folders."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

from tuner.errors import RequestError

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: str) -> Path:
    """`kernels`, `spaces` or `results`: inside the installed package, or beside it in a checkout."""
    installed = _PACKAGE / "_shipped" / folder
    return installed if installed.is_dir() else _PACKAGE.parent / folder


def user_results() -> Path:
    """The user's own store, laid over the shipped one. TUNER_RESULTS names another folder."""
    return Path(os.environ.get("TUNER_RESULTS") or _user("XDG_DATA_HOME", ".local/share") / "results")


def state() -> Path:
    """Ledgers of tuning runs. TUNER_STATE names another folder."""
    return private(Path(os.environ.get("TUNER_STATE") or _user("XDG_STATE_HOME", ".local/state")))


def cache() -> Path:
    """Builds and launch forms; safe to delete. TUNER_CACHE names another folder."""
    return private(Path(os.environ.get("TUNER_CACHE") or _user("XDG_CACHE_HOME", ".cache")))


def _user(variable: str, beneath: str) -> Path:
    """The user's own folder of one kind, by the XDG Base Directory Specification."""
    named = os.environ.get(variable, "")
    return (Path(named) if os.path.isabs(named) else Path.home() / beneath) / "tuner"


def private(folder: Path) -> Path:
    """`folder`, made if need be, its owner's alone: what lies in it is loaded and run.

    Raises RequestError where it cannot be made, or belongs to somebody else.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.getuid():
            raise RequestError(
                f"{folder}: belongs to another user, who could put code into it; copy it, and name the copy with "
                f"TUNER_CACHE or TUNER_STATE"
            )
        if status.st_mode & 0o022:
            folder.chmod(status.st_mode & 0o755)
    except OSError as error:
        raise RequestError(
            f"{folder}: cannot be used: {error.strerror}; TUNER_CACHE and TUNER_STATE name others"
        ) from None
    return folder


def shown(path: str | Path) -> str:
    """`path` for a message: a name may hold what would drive a terminal."""
    return plain(path, keep="")


def plain(text: object, keep: str = "\n\t") -> str:
    """`text` without control characters but those to `keep`, marks that turn the direction of text, and what is no text
    at all."""
    return "".join(c if c.isprintable() or c in keep else "?" for c in str(text))


def digest(*parts: str | bytes) -> str:
    """A 32-digit name for `parts`; the parts are kept apart, so ("ab", "c") and ("a", "bc") differ."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()[:32]


def check_writable(folder: Path) -> None:
    """Make `folder` if need be, and a file in it that goes again. Raises OSError."""
    import tempfile  # slow to import, and a launch writes nothing

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def _behind_links(path: Path) -> Path:
    """What `path` leads to. Raises OSError for a link to an open file, as /dev/stdout is: whoever has it open would go
    on in a file that has no name any more."""
    for _ in range(40):
        path = Path(os.path.realpath(path.parent), path.name)
        if path.parts[1:2] == ("proc",):
            raise OSError(errno.EINVAL, "not a regular file")
        if not path.is_symlink():
            return path
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def replace(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader, or a crash at any moment, finds the old bytes or the new ones.

    A link stays, and what it leads to is replaced. Raises OSError, which names `path`, where it cannot be written, or
    is a folder, a device or a pipe.
    """
    import tempfile  # slow to import, and a launch writes nothing

    try:
        target = _behind_links(path)  # renaming over a link would put a file in its place
        if target.exists() and not target.is_file():
            code = errno.EISDIR if target.is_dir() else errno.EINVAL
            raise OSError(code, os.strerror(code) if target.is_dir() else "not a regular file")
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(aside, 0o644)
            os.replace(aside, target)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # the name that was given, not the one aside
