"""What a record is compared with: the source as of a Git revision, or the record of another store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tuner import paths
from tuner.classes import dataclass
from tuner.errors import NoConfiguration, SpaceError
from tuner.quoting import shown
from tuner.space import identity
from tuner.space.config import Config, config_key
from tuner.tuning.checking.cases import of_problem
from tuner.tuning.checking.revision import NoRepository
from tuner.tuning.checking.sources import Incomparable, adapted, chosen

if TYPE_CHECKING:
    from tuner.space.model import Space
    from tuner.space.scope import Scope
    from tuner.tuning.checking.cases import Case
    from tuner.tuning.checking.revision import Revision, Tree


@dataclass(frozen=True)
class Earlier:
    """A source, adapted to the present operation, and its best configuration. `is_equal`: it reads the same files."""

    space: Space
    config: Config
    is_equal: bool

    def is_unchanged(self, config: Config) -> bool:
        """Whether source and configuration are the same, so that nothing need be built."""
        return self.is_equal and config_key(config) == config_key(self.config)


class Against(Protocol):
    """Gives the earlier source and configuration of a case."""

    label: str  # in words: `HEAD (1a2b3c4)`, `store other/results`

    def earlier(self, case: Case, scope: Scope) -> Earlier:
        """Raises Incomparable if there is none for this case."""
        ...


class OtherStore:
    """The records of another folder, for the source as it is."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.label = folder, f"store {shown(folder)}"

    def earlier(self, case: Case, scope: Scope) -> Earlier:
        """The configuration of that store's record of the same problem."""
        file = self._folder / f"{case.space.name.lstrip('/')}.jsonl"
        for record in of_problem(case.record, case.space.name, [file]):
            for config in record.configs:
                if case.space.valid(config, scope):
                    return Earlier(case.space, config, is_equal=True)
        raise Incomparable(f"{self.label} has no valid configuration for this problem")


class OtherRevision:
    """The sources as of a revision, with the records of that time if the store is in the repository."""

    def __init__(self, revision: Revision, results: Path | None, cases: Sequence[Case]) -> None:
        """Raises RequestError if none of the kernels is in a repository, or one has no such revision."""
        self._revision = revision
        self._stores = [results or paths.user_results(), paths.shipped("results")]
        self._read: dict[str, Space | Incomparable] = {}
        self.label = revision.name
        failure: NoRepository | None = None
        trees = 0
        for space in {case.space.name: case.space for case in cases}.values():
            try:
                tree = revision.tree(space.files[0])
                trees += 1
                self.label = f"{revision.name} ({tree.commit})"
                self._read[space.name] = _read(space, tree, revision.name)
            except NoRepository as error:
                failure = error
                self._read[space.name] = Incomparable(f"{shown(space.files[0])} is in no Git repository")
            except Incomparable as error:
                self._read[space.name] = error
        if failure is not None and not trees:
            raise failure

    def earlier(self, case: Case, scope: Scope) -> Earlier:
        """The source of that time with its best configuration, or that of the record if it had none."""
        space = self._read[case.space.name]
        if isinstance(space, Incomparable):
            raise space
        tree = self._revision.tree(case.space.files[0])
        files = [
            tree.old(folder) / f"{case.space.name.lstrip('/')}.jsonl" for folder in self._stores if tree.has(folder)
        ]
        records = of_problem(case.record, case.space.name, files)
        ready = adapted(space, case.space)
        try:
            config = chosen(ready, scope, [*records, *case.records])
        except NoConfiguration as error:
            raise Incomparable(f"as of {self._revision.name}: {error}") from None
        return Earlier(ready, config, identity.of(space) == identity.of(case.space))


def _read(space: Space, tree: Tree, name: str) -> Space:
    """A space as of a revision. Raises Incomparable if it was not there, or cannot be read."""
    from tuner.space.file import reader

    file = tree.old(space.files[0])
    if not file.is_file():
        raise Incomparable(f"{shown(space.files[0])} is not in {name}")
    try:
        earlier = reader.read(file, space.name)
        identity.of(earlier)  # reads its files
    except SpaceError as error:
        raise Incomparable(f"as of {name}: {str(error).replace(f'{tree.folder}/', '')}") from None
    return earlier
