"""The lines of a journal, split into those that Optuna can read and those that are torn or corrupt."""

import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from optuna.storages.journal._storage import JournalOperation, JournalStorageReplayResult
from optuna.trial import FrozenTrial

from tuner.classes import dataclass
from tuner.space.config import config_key
from tuner.tuning.ledger.stored_trial import is_number

DEEPEST = 20  # deepest nesting of a line; those that tuner writes have 4 levels
_OPERATIONS = {  # those that tuner writes, besides CREATE_STUDY
    JournalOperation.SET_STUDY_USER_ATTR,
    JournalOperation.SET_STUDY_SYSTEM_ATTR,
    JournalOperation.CREATE_TRIAL,
    JournalOperation.SET_TRIAL_STATE_VALUES,
    JournalOperation.SET_TRIAL_USER_ATTR,
    JournalOperation.SET_TRIAL_SYSTEM_ATTR,
}
_DICTIONARIES = ("user_attr", "system_attr", "user_attrs", "system_attrs", "params", "distributions")
EMPTY_TRIAL = {
    "op_code": JournalOperation.CREATE_TRIAL,
    "worker_id": "",
    "study_id": 0,
    "datetime_start": "2000-01-01T00:00:00.000000+00:00",
}


@dataclass(frozen=True)
class Form:
    """The expected content of a journal: the name of its only study, and the number of its objectives.

    `check` raises ValueError for a trial whose result is corrupt.
    """

    study: str
    objectives: int
    check: Callable[[FrozenTrial], object]

    def first_line(self) -> dict[str, Any]:
        """The line that creates the study."""
        directions = [1] * self.objectives  # all are minimised
        return {
            "op_code": JournalOperation.CREATE_STUDY,
            "worker_id": "",
            "study_name": self.study,
            "directions": directions,
        }


class Lines:
    """The readable lines of a file, as `data` (bytes) and as `entries`, and the unreadable ones, `torn`.

    Optuna numbers trials by position, so an empty trial replaces each unreadable one. If no line creates the study, a
    line made from `form` is inserted.
    """

    def __init__(self, data: bytes, form: Form | None = None) -> None:
        self.entries: list[dict[str, Any]] = []
        self.torn: list[bytes] = []
        self._form = form
        self._whole: list[bytes] = []
        self._replay = JournalStorageReplayResult("")
        self._missing = 0  # torn lines so far that may have created a trial
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Optuna only warns about values that it cannot store
            for line in data.splitlines():
                entry = _object(line)
                if entry is not None and self._take(entry, line):
                    continue
                self.torn.append(line)
                if entry is not None and entry.get("op_code") == JournalOperation.CREATE_TRIAL:
                    self._add(EMPTY_TRIAL)
                else:
                    self._missing += 1

    @property
    def data(self) -> bytes:
        """The file without the torn lines."""
        return b"".join(line + b"\n" for line in self._whole)

    def _take(self, entry: dict[str, Any], line: bytes) -> bool:
        """Add an entry, if it can be read. Returns whether it was added."""
        if not self._replay.get_all_studies() and entry.get("op_code") != JournalOperation.CREATE_STUDY and self._form:
            self._add(self._form.first_line())
        trial_id, trials = entry.get("trial_id"), self._replay._trials
        while self._missing and isinstance(trial_id, int) and trial_id >= len(trials):
            self._add(EMPTY_TRIAL)
            self._missing -= 1
        return self._is_sound(entry) and self._add(entry, line)

    def _is_sound(self, entry: Mapping[str, Any]) -> bool:
        """Whether those fields of an entry that Optuna does not check itself have the types that Optuna writes."""
        op, values, trial_id = entry.get("op_code"), entry.get("values"), entry.get("trial_id")
        if op == JournalOperation.CREATE_STUDY:
            name = entry.get("study_name")
            return isinstance(name, str) if self._form is None else name == self._form.study
        return (
            isinstance(op, int)
            and op in _OPERATIONS
            and (trial_id in self._replay._trials if isinstance(trial_id, int) else entry.get("study_id") == 0)
            and isinstance(entry.get("worker_id"), str)
            and all(isinstance(entry.get(name, {}), dict) for name in _DICTIONARIES)
            and all(map(is_number, [] if values is None else values if isinstance(values, list) else [None]))
            and (entry.get("value") is None or is_number(entry["value"]))
        )

    def _add(self, entry: dict[str, Any], line: bytes | None = None) -> bool:
        """Add an entry, unless Optuna cannot read it or its trial is corrupt. Returns whether it was added."""
        trials = self._replay._trials
        trial_id = entry.get("trial_id", len(trials))
        before = trials.get(trial_id)
        try:
            self._replay.apply_logs([entry])
            if trial_id in trials:
                self._check(trials[trial_id], is_new=before is None)
        except Exception:  # corrupt entries can raise anything
            if before is not None:
                trials[trial_id] = before
            elif trials.pop(trial_id, None) is not None:
                self._replay._study_id_to_trial_ids[0].remove(trial_id)
            return False
        self.entries.append(entry)
        self._whole.append(json.dumps(entry, separators=(",", ":")).encode() if line is None else line)
        return True

    def _check(self, trial: FrozenTrial, is_new: bool) -> None:
        """Raise an error if a trial is corrupt."""
        config_key(trial.params)
        if is_new and trial.state.is_finished() and "measured" not in trial.user_attrs:
            raise ValueError("a new trial that is finished, but not measured")
        if self._form is not None:
            self._form.check(trial)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and _is_flat(entry, DEEPEST) else None


def _is_flat(value: object, levels: int) -> bool:
    """Whether `value` is nested at most `levels` deep."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_flat(item, levels - 1) for item in inner)
