"""Explore a space, the first half of tuning: space -> search -> measure -> ledger."""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tuner.catalog import kernel_names
from tuner.classes import dataclass
from tuner.devices.ceilings import Ceilings
from tuner.errors import RequestError
from tuner.measure.process.task import announce
from tuner.search import strategies
from tuner.search.budget import UNLIMITED, Budget
from tuner.search.listing import listed
from tuner.search.pool import Pool
from tuner.search.search import Search
from tuner.search.strategies import Hints
from tuner.space import identity, snapshot
from tuner.space.config import Config
from tuner.space.default import invalid_default
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.store import rejected
from tuner.store.ceilings_file import StoredCeilings
from tuner.store.lookup import Query
from tuner.store.store import SIMILAR
from tuner.tuning.crew.queue import LOOK_AHEAD
from tuner.tuning.finals.preference import NO_PREFERENCE, Preference
from tuner.tuning.ledger.trial import Trial
from tuner.tuning.progress import Progress, SearchStart
from tuner.tuning.recordings import experiences

Narrowing = Callable[[Space, Scope, Pool], Pool]  # selects the configurations of a pool that a search may try

if TYPE_CHECKING:
    from tuner.tuning.crew.crew import Crew
    from tuner.tuning.crew.crews import Crews
    from tuner.tuning.ledger.ledger import Ledger
    from tuner.tuning.request import CheckedRequest

logger = logging.getLogger(__name__)

# Optuna and SciPy take a second or more to import. A thread imports them while workers open devices.
SLOW_IMPORTS = ("optuna", "tuner.tuning.ledger.ledger")
SLOW_IMPORTS_TO_MODEL = ("scipy.linalg", "tuner.search.posterior")
NOT_KEPT = "so this run is not stored, and no later run continues it"
NOT_VERIFIED = "reference: none: no output is compared, so the results are not verified"
# With a budget of time, the finals should be over so many seconds after the search. Where other programs disturb the
# times, on processors, they take what they need.
FINALS_SECONDS = 2.5
LONGEST_IMPORT = 30.0  # seconds that the end of a run waits for an import


@dataclass(frozen=True)
class Exploration:
    """A finished search, with its crew, pool and ledger still open.

    `strategy` is the strategy's name, or `given` if the caller chose the configurations. `evaluated` counts the trials
    of the pool's configurations, including those of earlier runs. `signature` identifies the space. `doubts` are
    warnings about the space file, and about cases of its conditions that no input covers. `is_lasting`: later runs can
    tell that they have the same space, so that results may be stored. `preference` and `until`, the time by
    `time.monotonic` at which they should be over, are for the finals.
    """

    crew: Crew
    pool: Pool
    ledger: Ledger
    strategy: str
    evaluated: int
    signature: str
    ceilings: Ceilings | None
    doubts: tuple[str, ...] = ()
    is_lasting: bool = True
    preference: Preference = NO_PREFERENCE
    until: float = math.inf

    @property
    def trials(self) -> list[Trial]:
        """The trials of configurations in the pool."""
        return [trial for trial in self.ledger.trials if self.pool.find(trial.config) is not None]


@contextlib.contextmanager
def explored(
    crews: Crews,
    checked: CheckedRequest,
    progress: Progress,
    configs: Sequence[Config] | None = None,
    narrowed: Narrowing | None = None,
    warm: Sequence[Config] = (),
) -> Iterator[Exploration]:
    """Run the requested search, then enter a block with its `Exploration`.

    `narrowed` selects the configurations that the search may try, and `warm` are those that it tries first. If
    `configs` are given, they are measured instead of a search. An interrupt loses no finished trial: the same request
    continues from the ledger. However the block ends, look-ups learn which configurations failed verification. Raises
    as `driver.tune` does.
    """
    began = time.monotonic()
    request, task, space = checked.request, checked.task, checked.task.space
    budget = checked.budget if configs is None else UNLIMITED
    signature, unknown = identity.of(space), identity.unknown(space)
    if unknown is not None:
        crews.noted(f"{unknown}: {NOT_KEPT}")
    announce(space, crews.noted)
    doubts = [*_of_file(space, crews.noted)]
    stored_ceilings = StoredCeilings(request.results)
    for problem in stored_ceilings.problems:
        crews.noted(problem)
    progress.begun(f"opening {request.cluster or ' and '.join(checked.device_ids)}")
    imports = [*SLOW_IMPORTS, *(SLOW_IMPORTS_TO_MODEL if strategies.may_model(request.strategy, budget) else [])]
    with _imported_ahead(imports), crews.on(task, checked.device_ids, request.cluster) as crew:
        if request.cluster is not None:  # whose machines may have taken long to come
            began = time.monotonic()
        progress.begun("listing the valid configurations")
        query = Query.of(space, crew.scope, crew.device)
        preference, hints = _known(checked, query, signature, crew.device.toolchain, warm)
        if configs is None:
            pool = _listed(crew, space, budget, hints, crews.noted)
            pool = pool if narrowed is None else narrowed(space, crew.scope, pool)
            doubts += _of_space(space, crew.scope, pool, crews.noted)
        else:
            pool = Pool.of(space.parameters, configs)
        strategy = strategies.choose(request.strategy if configs is None else None, budget, len(pool))
        how = request.seed, hints, len(task.method.objectives), progress.noted, began, request.strategy_options
        with Search(strategy, pool, budget, *how) as search:
            crew.build_ahead(search.likely(LOOK_AHEAD))  # while the ledger is imported and opened
            with _ledger(checked, crew, signature, progress.noted, is_lasting=unknown is None) as ledger:
                kernel_names.remember(space)
                if configs is None:
                    ledger.note_command(request.command(space.name, crew.device.id))
                logger.debug("%s at %s: strategy %s, study %s", space.name, task.sizes, strategy, ledger.name)
                ceilings = stored_ceilings.of(crew.device)
                progress.started(_start(crew, space, pool, ledger, ceilings, budget, search))
                try:
                    evaluated = crew.run(search, ledger, progress, given=configs is not None)
                    snapshot.tell_changes(progress.noted)
                    doubts += crew.lead.missed_cases  # the crew has already shown them
                    until = math.inf if crew.device.on_processor else search.deadline + FINALS_SECONDS
                    found = strategy if configs is None else "given", evaluated, signature, ceilings
                    yield Exploration(crew, pool, ledger, *found, tuple(doubts), unknown is None, preference, until)
                finally:
                    rejected.keep(query, _wrong(ledger.trials))


def _known(
    checked: CheckedRequest, query: Query, signature: str, toolchain: str, warm: Sequence[Config]
) -> tuple[Preference, Hints]:
    """What the store and the logs of searches tell the finals, and the search."""
    request, store = checked.request, checked.store
    similar = experiences.of_similar(query, store.similar(query), request.results, SIMILAR)
    asked = checked.task.method, request.same_bits_as, request.fresh
    preference = Preference.of(store, query, signature, toolchain, *asked)
    return preference, Hints.of(query.space, query.scope, warm, preference.first, similar)


def _of_file(space: Space, noted: Callable[[str], None]) -> Iterator[str]:
    """Warnings about the space file, which are also shown."""
    from tuner.space.sources.checks import agreement

    for doubt in agreement.warnings(space):
        noted(f"warning: {doubt}")
        yield doubt
    if space.operation.reference.kind == "none":
        noted(NOT_VERIFIED)
        yield NOT_VERIFIED


def _ledger(
    checked: CheckedRequest, crew: Crew, signature: str, noted: Callable[[str], None], *, is_lasting: bool
) -> Ledger:
    """The ledger of the requested study."""
    from tuner.tuning.ledger.ledger import Ledger
    from tuner.tuning.ledger.study import StudyKey

    request, task, method = checked.request, checked.task, checked.task.method
    key = StudyKey(
        task.sizes,
        task.options,
        crew.device.name,
        signature,
        crew.device.toolchain,
        method,
        method.protocol,
        types=task.types,
        conditions=crew.device.conditions,
        headers=crew.headers,
    )
    ledger = Ledger(task.space, key, request.fresh, request.storage, noted)
    ledger.is_kept = is_lasting
    return ledger


def _start(
    crew: Crew, space: Space, pool: Pool, ledger: Ledger, ceilings: Ceilings | None, budget: Budget, search: Search
) -> SearchStart:
    total = min(budget.evaluations or len(pool), len(pool))
    known = [trial for trial in ledger.trials if pool.find(trial.config) is not None]
    times = budget.seconds, search.left
    return SearchStart(space, crew.device, crew.scope, total, len(pool), known, ceilings, *times)


def _listed(crew: Crew, space: Space, budget: Budget, hints: Hints, noted: Callable[[str], None]) -> Pool:
    """The valid configurations; if they are too many to list, a random sample and the configurations of `hints`.

    Builds of the first of these begin meanwhile. Raises RequestError if they are too many to list and there is no
    budget.
    """
    first = [dict(config) for config in hints.first if space.valid(config, crew.scope)]
    crew.build_ahead(first)
    pool = listed(space, crew.scope)
    if not pool.is_sample:
        return pool
    if budget == UNLIMITED:
        raise RequestError(
            f"{space.name}: {pool.words} configurations are valid, too many to try; add a budget, such as 200 of them, "
            "or 10m"
        )
    known = [*first, *(config for config in hints.promising if space.valid(config, crew.scope))]
    noted(
        f"{pool.words} configurations are valid, too many to list: the search chooses among {len(pool):,} of them, "
        "drawn at random, and those known from the file and from records"
    )
    return pool.including(known)


def _of_space(space: Space, scope: Scope, pool: Pool, noted: Callable[[str], None]) -> Iterator[str]:
    """Warnings about a default that is not valid, and about threads that do nothing, which are also shown."""
    from tuner.space.sources.checks import surplus_threads

    if pool.is_sample and not space.default:  # then a valid configuration is hard to find
        return
    for doubt in filter(None, (invalid_default(space, scope), *surplus_threads.warnings(space, scope))):
        noted(f"warning: {doubt}")
        yield doubt


def _wrong(trials: Iterable[Trial]) -> Iterator[tuple[Config, str]]:
    """The configurations that failed verification, each with the reason."""
    return ((trial.config, reason) for trial in trials if (reason := trial.outcome.rejection) is not None)


@contextlib.contextmanager
def _imported_ahead(names: Sequence[str]) -> Iterator[None]:
    """Import these modules in a thread during a block."""
    is_over = threading.Event()

    def import_all() -> None:
        with contextlib.suppress(Exception):  # the module's user imports it again, and reports the error
            for name in names:
                if not is_over.is_set():
                    importlib.import_module(name)

    thread = threading.Thread(target=import_all, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        # Some modules fail to import while the interpreter shuts down, or for good after an interrupted import.
        thread.join(LONGEST_IMPORT)
