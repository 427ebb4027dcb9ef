"""The files of a Git repository as of a revision, in a temporary folder; nothing is checked out."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.quoting import quoted, shown

SECONDS = 600.0  # for one Git command; a partial clone may fetch files
_OWN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


class NoRepository(RequestError):
    """A file is in no Git repository."""


@dataclass(frozen=True)
class Tree:
    """The files of the repository at `root` as of `commit`, in `folder`."""

    root: Path
    folder: Path
    commit: str

    def old(self, path: Path) -> Path:
        """Where a file or folder of the repository is as of the commit; it need not exist."""
        return self.folder / Path(os.path.realpath(path)).relative_to(self.root)

    def has(self, path: Path) -> bool:
        """Whether a path, which need not exist, lies in the repository."""
        return Path(os.path.realpath(path)).is_relative_to(self.root)


class Revision:
    """A revision by name, as a context manager: the trees of all repositories that are asked for, until it ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._trees: dict[Path, Tree] = {}
        self._folders: list[Path] = []

    def __enter__(self) -> Revision:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)

    def tree(self, file: Path) -> Tree:
        """The tree of the repository that a file is in.

        Raises NoRepository, and RequestError if the revision is unknown there, or its files cannot be read.
        """
        where = Path(os.path.realpath(file)).parent
        try:
            root = Path(_git(where, "rev-parse", "--show-toplevel"))
        except _Failed as failed:
            raise NoRepository(
                f"--against {shown(self.name)}: {shown(file)} is in no Git repository that can be read: {failed}; name "
                "a folder of records, or check a kernel of a repository"
            ) from None
        root = Path(os.path.realpath(root))
        if root not in self._trees:
            self._trees[root] = self._extracted(root)
        return self._trees[root]

    def _extracted(self, root: Path) -> Tree:
        try:
            commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{self.name}^{{commit}}")
        except _Failed:
            raise RequestError(
                f"--against {quoted(self.name)}: neither a folder nor a revision of {shown(root)}; name one that "
                f"`git log` knows there (a shallow clone has the last one alone: `git fetch --unshallow`)"
            ) from None
        folder = Path(tempfile.mkdtemp(prefix="tuner-check-"))
        self._folders.append(folder)
        tree = folder / "tree"
        tree.mkdir()
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        try:
            _git(root, "read-tree", commit, more=index)
            _git(root, "checkout-index", "--all", "--force", f"--prefix={tree}{os.sep}", more=index)
            for line in _git(root, "ls-files", "--stage", more=index).splitlines():
                about, _, path = line.partition("\t")
                if about.startswith("160000") and (root / path).is_dir():  # a submodule, which no revision contains
                    _link(root / path, tree / path)
        except (_Failed, OSError) as error:
            raise RequestError(f"--against {shown(self.name)}: {shown(root)}: cannot be read: {error}") from None
        return Tree(root, tree, _git(root, "rev-parse", "--short", commit))


def _link(target: Path, link: Path) -> None:
    """Link to the folder of a submodule as it is now."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_dir():
        link.rmdir()
    link.symlink_to(target)


class _Failed(Exception):
    """A Git command failed; `str()` is the reason in one line."""


def _git(folder: Path, *arguments: str, more: dict[str, str] | None = None) -> str:
    """The output of a Git command in a folder, whose repository it uses, even in a hook of another one."""
    program = shutil.which("git")
    if program is None:
        raise _Failed("git is not installed")
    environment = {name: value for name, value in os.environ.items() if name not in _OWN}
    try:
        done = subprocess.run(
            [program, "-C", str(folder), "-c", "core.quotePath=false", *arguments],
            env={**environment, **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=SECONDS,
            check=False,
        )
    except OSError as error:
        raise _Failed(f"git does not start: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise _Failed(f"git took longer than {SECONDS:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise _Failed(shown(lines[0] if lines else f"git {arguments[0]} failed"))
    return done.stdout.removesuffix("\n")
