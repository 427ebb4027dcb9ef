"""The ledger: every trial of every configuration, in an Optuna study, written as soon as it is measured."""

from __future__ import annotations

import itertools
import json
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import optuna
from filelock import FileLock, Timeout
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner import paths
from tuner.devices.figures import Figures
from tuner.errors import RequestError
from tuner.measure import Outcome
from tuner.space import Config, Space, Value


@dataclass(frozen=True)
class Trial:
    """A configuration and what came of it."""

    config: Config
    outcome: Outcome
    value: float | None = None  # what the objective is; None where it failed
    timeout: float = 0.0  # seconds it was given

    @property
    def time_ms(self) -> float | None:
        """The median time in ms; None where it failed."""
        return median(self.outcome.times) if self.outcome.times else None


@dataclass(frozen=True)
class Problem:
    """What trials of one ledger have in common besides the space: sizes, options, and the device's name."""

    sizes: dict[str, int]
    options: dict[str, float]
    device: str


class Ledger:
    """The trials of one space, size, set of options and device, with one signature of source and toolchain.

    A change of any of these opens another ledger, so old times are never taken for new ones.
    """

    def __init__(self, space: Space, problem: Problem, signature: str, fresh: bool = False) -> None:
        """Opens the ledger, or an empty one if `fresh`. Raises RequestError where another process is writing to it."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        size = ",".join(f"{name}={value}" for name, value in problem.sizes.items())
        options, values = sorted(problem.options.items()), sorted(space.parameters.items())
        identity = paths.digest(problem.device, signature, repr(options), repr(values))
        self.name = f"{space.name} {size} {problem.device} {identity[:12]}"
        self.path = paths.private(paths.state() / "studies" / space.name) / f"{paths.digest(self.name)}.log"
        self._space = space
        self._lock = FileLock(self.path.with_suffix(".lock"))
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise RequestError(
                f"{space.name} at {size} is being tuned on {problem.device} by another process; wait for it, or stop it"
            ) from None
        try:
            self._open(fresh)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, fresh: bool) -> None:
        """Open the file's study, or an empty one where it holds none."""
        if fresh:
            self._set_aside()
        _mend(self.path)
        try:
            self._study = self._opened()
            kept = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL))
            self._by_config = {_key(dict(t.params)): _from_optuna(t) for t in kept}
        except (LookupError, TypeError, ValueError, AssertionError, AttributeError):  # JSON, but not of a study
            self._set_aside()
            self._study, self._by_config = self._opened(), {}

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _opened(self) -> optuna.Study:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            storage = JournalStorage(JournalFileBackend(str(self.path)))
            return optuna.create_study(study_name=self.name, storage=storage, direction="minimize", load_if_exists=True)

    def _set_aside(self) -> None:
        """Keep the file under another name, so that what was measured is not lost."""
        if self.path.exists():
            aside = (self.path.with_suffix(f".{i}.log") for i in itertools.count(1))
            self.path.rename(next(path for path in aside if not path.exists()))

    def known(self, config: Config, timeout: float) -> Trial | None:
        """The trial of `config`, if it has been measured already, and not given up after less than `timeout` s."""
        trial = self._by_config.get(_key(config))
        if trial is not None and trial.outcome.failure == "timeout" and trial.timeout < timeout:
            return None
        return trial

    def add(self, trial: Trial) -> None:
        """Write `trial` down; it is on disk when this returns. Raises RequestError where that cannot be."""
        distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in self._space.parameters.items()
        }
        outcome = trial.outcome
        build = {**outcome.figures.to_json(), "occupancy": outcome.occupancy, "energy_mj": outcome.energy_mj}
        attributes: dict[str, Any] = {
            "times_ms": list(outcome.times),
            "error": outcome.error,
            "bound": outcome.bound,
            "timeout_s": trial.timeout,
            **{name: value for name, value in build.items() if value is not None},
        }
        if outcome.failure is not None:
            attributes |= {"failure": outcome.failure, "log": outcome.log[-4000:]}
        written = create_trial(
            state=TrialState.COMPLETE if outcome.failure is None else TrialState.FAIL,
            value=trial.value,
            params=trial.config,
            distributions=distributions,
            user_attrs=attributes,
        )
        try:
            self._study.add_trial(written)
        except OSError as error:
            raise RequestError(
                f"{self.path}: the ledger cannot be written: {error.strerror}; what was measured before is kept, and "
                "the same command goes on from there"
            ) from None
        self._by_config[_key(trial.config)] = trial

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order they were measured."""
        return list(self._by_config.values())

    @property
    def best(self) -> list[Trial]:
        """The trials that succeeded, best first."""
        return sorted((t for t in self.trials if t.value is not None), key=lambda t: t.value or 0.0)

    @property
    def failures(self) -> dict[str, int]:
        """How many trials failed, by reason."""
        return dict(Counter(t.outcome.failure for t in self.trials if t.outcome.failure is not None))


def _mend(path: Path) -> None:
    """Move what a crash or a full disk left torn out of a journal: Optuna can read none of a file with one bad line.

    Each of our trials is one line, so the others stand without it. The bad lines go to a file beside it that ends in
    .torn; where the line that names the study is among them, the whole file does.
    """
    if not path.exists():
        return
    lock = JournalFileSymlinkLock(str(path))
    lock.acquire()
    try:
        data = path.read_bytes()
        lines = data.splitlines()
        whole = [_is_object(line) for line in lines]
        if all(whole) and data.endswith(b"\n"):
            return
        usable = bool(whole) and whole[0]
        torn = [line for line, good in zip(lines, whole, strict=True) if not (good and usable)]
        kept = [line for line, good in zip(lines, whole, strict=True) if good and usable]
        with path.with_suffix(".torn").open("ab") as file:
            file.writelines(line + b"\n" for line in torn)
        paths.replace(path, b"".join(line + b"\n" for line in kept))
    finally:
        lock.release()


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _from_optuna(trial: FrozenTrial) -> Trial:
    kept = trial.user_attrs
    outcome = Outcome(
        times=tuple(kept["times_ms"]),
        error=kept["error"],
        bound=kept["bound"],
        energy_mj=kept.get("energy_mj"),
        failure=kept.get("failure"),
        log=kept.get("log", ""),
        figures=Figures(kept.get("registers"), kept.get("spills"), kept.get("shared_memory")),
        occupancy=kept.get("occupancy"),
    )
    return Trial(dict(trial.params), outcome, trial.value, kept["timeout_s"])


def _key(config: Config) -> tuple[tuple[str, bool, Value], ...]:
    return tuple((name, isinstance(value, bool), value) for name, value in sorted(config.items()))
