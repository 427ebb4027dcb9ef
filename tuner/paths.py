"""Folders and files: shipped files, the user's folders, ownership checks and atomic writing."""

import contextlib
import errno
import functools
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from tuner.errors import EnvironmentTrouble, RequestError
from tuner.quoting import quoted, shown

MOST_TRIES = 3  # to use a folder that somebody may delete
_CHECKSUM = 32  # bytes of SHA-256 at the end of a file; loaders of builds ignore trailing data
_PACKAGE = Path(__file__).resolve().parent


@functools.cache
def shipped(folder: str) -> Path:
    """A folder of shipped files: `kernels`, `spaces`, `results` or `forms`, in the installed package or in a
    checkout."""
    installed = _PACKAGE / "_shipped" / folder
    return installed if installed.is_dir() else _PACKAGE.parent / folder


def advice(missing: Path, suffixes: Iterable[str], otherwise: str) -> str:
    """The next step if a file does not exist: the file beside it with the most similar name, if there is one."""
    import difflib

    try:
        names = [name for name in os.listdir(missing.parent) if name.endswith(tuple(suffixes))]
    except (OSError, ValueError):
        names = []
    beside = {os.path.splitext(name)[0]: name for name in sorted(names, reverse=True)}
    near = difflib.get_close_matches(missing.stem, beside, n=1)
    return f"did you mean {shown(missing.with_name(beside[near[0]]))}?" if near else otherwise


def user_results() -> Path:
    """The folder of the user's records, which are read in addition to the shipped ones. TUNER_RESULTS overrides it."""
    return Path(os.environ.get("TUNER_RESULTS") or _user("XDG_DATA_HOME", ".local/share") / "results")


def state() -> Path:
    """The folder of ledgers, created if missing. TUNER_STATE overrides it."""
    return private(state_folder())


def state_folder() -> Path:
    """The path of `state`. It is not created or checked, so its content must not be executed."""
    return _state_folder(*(os.environ.get(name, "") for name in ("TUNER_STATE", "XDG_STATE_HOME", "HOME")))


@functools.lru_cache(maxsize=4)
def _state_folder(named: str, base: str, home: str) -> Path:
    """`state_folder` by the values of the variables TUNER_STATE, XDG_STATE_HOME and HOME.

    It is cached because every look-up needs it; `home` is a cache key, since `_under` reads HOME.
    """
    return Path(named or _under(base, ".local/state"))


def known_kernels() -> Path:
    """The list of the user's tuned space files, in the folder `state`. It is not created."""
    return state_folder() / "kernels.jsonl"


def cache() -> Path:
    """The folder of builds, launch forms and time models, created if missing; safe to delete. TUNER_CACHE overrides
    it."""
    return private(cache_folder())


def cache_folder() -> Path:
    """The path of `cache`. It is not created or checked: use it only to ask whether a file exists."""
    return Path(os.environ.get("TUNER_CACHE") or _user("XDG_CACHE_HOME", ".cache"))


def _user(variable: str, default: str) -> Path:
    """The package's folder below the XDG base folder that `variable` names: see `_under`."""
    return _under(os.environ.get(variable, ""), default)


def _under(base: str, default: str) -> Path:
    """`base`/tuner if `base` is absolute, else ~/`default`/tuner, as in the XDG Base Directory Specification.

    Raises RequestError if the home folder is unknown.
    """
    if not os.path.isabs(base):
        base = os.path.expanduser(f"~/{default}")  # three times faster than pathlib; every look-up does this
        if not os.path.isabs(base):
            home = quoted(os.environ.get("HOME", ""))
            raise RequestError(f"the home folder is unknown: HOME is {home}; set it to an absolute path")
    return Path(base, "tuner")


def child_environment() -> dict[str, str]:
    """The environment for a child process `python -P -m tuner...`.

    With it, the child imports this package, and nothing from the current folder.
    """
    places = [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}


def private(folder: Path) -> Path:
    """`folder`, created if missing, with mode 0700. Raises EnvironmentTrouble if it cannot be created, and RequestError
    if other users can write to it or replace it."""
    for _ in range(MOST_TRIES):
        try:
            make(folder)
            check_trusted(folder, folder.stat())
            for parent in _parents(os.path.realpath(folder)):
                if os.stat(parent).st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
                    raise RequestError(
                        f"{folder}: every user may write to {parent} and could replace the folder; {_another(folder)}"
                    )
            return folder
        except OSError as error:  # for example, somebody deletes the folder meanwhile
            failure = error.strerror
    raise EnvironmentTrouble(f"{folder}: cannot be used: {failure}; {_another(folder)}")


def _another(folder: Path) -> str:
    variable = "TUNER_CACHE" if folder.is_relative_to(cache_folder()) else "TUNER_STATE"
    return f"choose another folder with {variable}"


@functools.lru_cache(maxsize=16)
def _parents(path: str) -> tuple[str, ...]:
    """The folders above a path. A tune asks some hundred times."""
    return tuple(map(str, Path(path).parents))


def temporary() -> Path:
    """The folder for temporary files. If it lies in the cache, as that of a child process does, it is made again when
    somebody has deleted it, or all of the cache. Raises as `private` does."""
    import tempfile  # slow to import, and launches do not need it

    return restored(Path(tempfile.gettempdir()))


def restored(folder: Path) -> Path:
    """`folder`, made again if it lies in the cache and is missing. Raises as `private` does."""
    if not folder.is_dir():
        root = cache_folder()
        for part in reversed([folder, *folder.parents]):
            if root == part or root in part.parents:
                private(part)
    return folder


def make(folder: Path, shared: bool = False) -> None:
    """Create `folder` and its parents, as far as they are missing, so that not every user may write to them.

    Only this user may access the folder, and write to its parents. If it is `shared`, as a store of records may be, the
    umask decides what the group may do. Raises OSError.
    """
    if folder.is_dir():
        return
    for parent in reversed([path for path in folder.parents if not path.is_dir()]):
        parent.mkdir(0o775 if shared else 0o755, exist_ok=True)
    folder.mkdir(0o775 if shared else 0o700, exist_ok=True)


def check_trusted(path: Path, status: os.stat_result) -> None:
    """Raise RequestError if a user other than this one and root may have written `path`, whose content is executed."""
    if status.st_uid not in (os.getuid(), 0):
        raise RequestError(
            f"{path}: belongs to another user, who could put code into it; copy it, and set TUNER_CACHE or TUNER_STATE "
            "to the copy"
        )
    if status.st_mode & 0o022:
        raise RequestError(
            f"{path}: other users may write to it, and could put code into it; delete it, or inspect it and "
            f"run `chmod go-w {path}`"
        )


def read_trusted(path: Path) -> bytes:
    """The content of a file that will be executed. Raises OSError, or RequestError if other users may have written
    it."""
    with path.open("rb") as file:
        check_trusted(path, os.fstat(file.fileno()))
        return file.read()


def read_checked(path: Path) -> bytes | None:
    """The data that `write_checked` wrote; None if the file is missing or damaged. Raises RequestError if other users
    may have written it."""
    with contextlib.suppress(OSError):
        content = read_trusted(path)
        data, checksum = content[:-_CHECKSUM], content[-_CHECKSUM:]
        if data and checksum == hashlib.sha256(data).digest():
            return data
    return None


def write_checked(path: Path, data: bytes) -> None:
    """Write `data` followed by its checksum, atomically. Raises OSError."""
    replace(path, data + hashlib.sha256(data).digest())


def read_text(path: Path, most: int, errors: str = "strict") -> str:
    """The text of a UTF-8 file of at most `most` characters.

    Raises OSError, UnicodeDecodeError, or RequestError if the file is longer; the rest is not read.
    """
    with path.open(encoding="utf-8", errors=errors) as file:
        text = file.read(most + 1)
        if len(text) > most:
            size = os.fstat(file.fileno()).st_size
            raise RequestError(f"{shown(path)}: {size} bytes; at most {most:,} characters are allowed")
    return text


def relative_to_cwd(path: Path) -> str:
    """`path` for a message: relative to the current folder if it is below it, else unchanged."""
    try:
        return shown(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # not below the current folder, or that folder was deleted
        return shown(path)


def digest(*parts: str | bytes) -> str:
    """A hash of `parts`, as 32 hexadecimal digits. Boundaries count: ("ab", "c") and ("a", "bc") differ."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little") + data)
    return sha.hexdigest()[:32]


def check_writable(folder: Path) -> None:
    """Raise OSError unless a file can be written to `folder`, which is created if missing."""
    import tempfile  # slow to import, and launches do not need it

    make(folder, shared=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


@contextlib.contextmanager
def writing(file: Path | str, next_step: str = "name another folder with --results") -> Iterator[None]:
    """The context in which `file` is written, which a message may call by its option. Raises RequestError for an
    OSError."""
    try:
        yield
    except OSError as error:
        raise RequestError(f"{shown(file)}: cannot be written: {error.strerror}; {next_step}") from None


def _link_target(path: Path) -> Path:
    """The file to which `path` links, or `path` itself.

    Raises OSError for a link to an open file, such as /dev/stdout: after a rename, the process that has it open would
    continue writing to an unlinked file.
    """
    for _ in range(40):
        path = Path(os.path.realpath(path.parent), path.name)
        if path.parts[1:2] == ("proc",):
            raise OSError(errno.EINVAL, "not a regular file")
        if not path.is_symlink():
            return path
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def replace(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically: at any time, the file has the old content or the new one.

    If `path` is a link, its target is replaced. Raises OSError, naming `path`, if it cannot be written, or is a folder,
    a device or a pipe.
    """
    import tempfile  # slow to import, and launches do not need it

    try:
        target = _link_target(path)  # os.replace would replace the link itself
        if target.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not target.is_file():
            raise OSError(errno.EINVAL, "not a regular file")
        make(target.parent, shared=True)
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
        raise OSError(error.errno, error.strerror, str(path)) from None  # names `path`, not the temporary file
