"""Folders and files: what ships with the package, the user's own folders, and safe writing."""

import contextlib
import errno
import functools
import hashlib
import os
import stat
from pathlib import Path

from tuner.errors import RequestError
from tuner.quoting import quoted, shown

_CHECKSUM = 32  # bytes at the end of a file; loaders ignore trailing data
_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: str) -> Path:
    """The shipped folder of this name (`kernels`, `spaces`, `results`): in the installed package, or beside it in a
    checkout."""
    installed = _PACKAGE / "_shipped" / folder
    return installed if installed.is_dir() else _PACKAGE.parent / folder


def user_results() -> Path:
    """The user's own results, read on top of the shipped ones. TUNER_RESULTS names another folder."""
    return Path(os.environ.get("TUNER_RESULTS") or _user("XDG_DATA_HOME", ".local/share") / "results")


def state() -> Path:
    """Ledgers of tuning runs. TUNER_STATE names another folder."""
    return private(state_folder())


def state_folder() -> Path:
    """The folder of `state`, which may not be there, for what is read and never run."""
    return _state_folder(*(os.environ.get(name, "") for name in ("TUNER_STATE", "XDG_STATE_HOME", "HOME")))


@functools.lru_cache(maxsize=4)
def _state_folder(named: str, base: str, home: str) -> Path:
    """The same by the variables' values, since every choice waits for it; `home` is that of `~`."""
    return Path(named or _under(base, ".local/state"))


def known_kernels() -> Path:
    """The list of the user's space files that were tuned; in the folder of `state`, which is not created."""
    return state_folder() / "kernels.jsonl"


def cache() -> Path:
    """Builds, launch forms and learnt models; safe to delete. TUNER_CACHE names another folder."""
    return private(cache_folder())


def cache_folder() -> Path:
    """The folder of `cache`, which may not be there or be trusted, for asking whether it holds something."""
    return Path(os.environ.get("TUNER_CACHE") or _user("XDG_CACHE_HOME", ".cache"))


def _user(variable: str, default: str) -> Path:
    """The package's folder in that of a variable: see `_under`."""
    return _under(os.environ.get(variable, ""), default)


def _under(base: str, default: str) -> Path:
    """The package's folder in `base`, or else in `default` under the home folder: XDG Base Directory Specification.
    Raises RequestError where no home folder is known."""
    if not os.path.isabs(base):
        base = os.path.expanduser(f"~/{default}")  # pathlib takes three times as long, and every choice waits for it
        if not os.path.isabs(base):
            home = quoted(os.environ.get("HOME", ""))
            raise RequestError(f"no home folder is known: HOME is {home}; set it to an absolute path")
    return Path(base, "tuner")


def own_environment() -> dict[str, str]:
    """The environment of a child that runs `python -P -m tuner...`: it finds this package, and not what lies in the
    current folder."""
    places = [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}


def private(folder: Path) -> Path:
    """`folder`, created if missing. Raises RequestError if it cannot be created, or is not to be trusted."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_trusted(folder, folder.stat())
        for parent in folder.resolve().parents:
            if parent.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
                raise RequestError(
                    f"{folder}: all users may write to {parent} above it, and could put another folder in its place; "
                    "name another one with TUNER_CACHE or TUNER_STATE"
                )
    except OSError as error:
        raise RequestError(
            f"{folder}: cannot be used: {error.strerror}; name another folder with TUNER_CACHE or TUNER_STATE"
        ) from None
    return folder


def check_trusted(path: Path, status: os.stat_result) -> None:
    """Raise RequestError if others than this user and root can have written `path`: its contents are loaded and run."""
    if status.st_uid not in (os.getuid(), 0):
        raise RequestError(
            f"{path}: belongs to another user, who could put code into it; copy it, and name the copy with TUNER_CACHE "
            "or TUNER_STATE"
        )
    if status.st_mode & 0o022:
        raise RequestError(
            f"{path}: other users may write to it, and could put code into it; delete it, or look through it and "
            f"run `chmod go-w {path}`"
        )


def read_trusted(path: Path) -> bytes:
    """The contents of a file that is loaded and run. Raises OSError, and RequestError if it is not to be trusted."""
    with path.open("rb") as file:
        check_trusted(path, os.fstat(file.fileno()))
        return file.read()


def read_checked(path: Path) -> bytes | None:
    """What `write_checked` wrote; None if it is missing or damaged. Raises RequestError if it is not to be trusted."""
    with contextlib.suppress(OSError):
        content = read_trusted(path)
        data, checksum = content[:-_CHECKSUM], content[-_CHECKSUM:]
        if data and checksum == hashlib.sha256(data).digest():
            return data
    return None


def write_checked(path: Path, data: bytes) -> None:
    """Write `data` atomically, and its checksum behind it. Raises OSError."""
    replace(path, data + hashlib.sha256(data).digest())


def read_text(path: Path, most: int, errors: str = "strict") -> str:
    """The text of a file in UTF-8. Raises OSError, UnicodeDecodeError, and RequestError for more than `most`
    characters; no more are read."""
    with path.open(encoding="utf-8", errors=errors) as file:
        text = file.read(most + 1)
        if len(text) > most:
            size = os.fstat(file.fileno()).st_size
            raise RequestError(f"{shown(path)}: {size} bytes; at most {most:,} characters are read")
    return text


def from_here(path: Path) -> str:
    """A file for a message: from the current folder, where it lies below that; else its whole path."""
    try:
        return shown(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere; or the folder is gone
        return shown(path)


def digest(*parts: str | bytes) -> str:
    """A name of 32 hexadecimal digits for `parts`. Boundaries count: ("ab", "c") and ("a", "bc") differ."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little") + data)
    return sha.hexdigest()[:32]


def check_writable(folder: Path) -> None:
    """Raise OSError unless a file can be written to `folder`, which is created if missing."""
    import tempfile  # slow to import; a launch writes nothing

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def _link_target(path: Path) -> Path:
    """The file that `path` leads to. Raises OSError for a link to an open file, such as /dev/stdout: after a rename,
    its holder would go on writing to a file without a name."""
    for _ in range(40):
        path = Path(os.path.realpath(path.parent), path.name)
        if path.parts[1:2] == ("proc",):
            raise OSError(errno.EINVAL, "not a regular file")
        if not path.is_symlink():
            return path
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def replace(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically: at any moment, the file holds the old bytes or the new ones.

    If `path` is a link, its target is replaced. Raises OSError that names `path` if it cannot be written, or is a
    folder, a device or a pipe.
    """
    import tempfile  # slow to import; a launch writes nothing

    try:
        target = _link_target(path)  # renaming over a link would replace the link
        if target.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not target.is_file():
            raise OSError(errno.EINVAL, "not a regular file")
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # not the temporary file's name
