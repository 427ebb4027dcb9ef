"""The open study of a ledger, in a journal file that this process owns or in a database that processes share."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import optuna
from filelock import BaseFileLock
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner.errors import RequestError
from tuner.space.config import Config
from tuner.space.model import Space
from tuner.tuning.ledger import address, journal, storage, study, takeover
from tuner.tuning.ledger.journal_lines import Form
from tuner.tuning.ledger.patience import PatientStorage
from tuner.tuning.ledger.stored_trial import attribute, from_optuna, state_of, values_of
from tuner.tuning.ledger.study import StudyKey
from tuner.tuning.ledger.trial import Trial


class OpenStudy:
    """The study of a space and StudyKey, in its storage. One thread at a time may call its methods, except `give_up`.

    Every method raises RequestError if the storage cannot be read or written.
    """

    def __init__(self, space: Space, key: StudyKey, fresh: bool, url: str | None, say: Callable[[str], None]) -> None:
        """Open the study, or an empty one if `fresh`. Raises RequestError if another process owns the file.

        `say` is called with messages for the user about unreadable lines and outages of a server.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)  # its warnings of outages contain the SQL statement
        self.shared = url is not None
        self._names = list(study.full_names(space, key))
        self.name, path = (self._names[0], None) if url else study.place(space, key)
        self._where = url or str(path)
        self._say, self._unreadable = say, 0
        self._trial_of = partial(from_optuna, parameters=space.parameters, objectives=len(key.method.metrics))
        self._distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in space.parameters.items()
        }
        self._file_lock: BaseFileLock | None = None
        handled = sys.exception()
        try:
            self._open(key, fresh)
        except Exception as error:
            self.close()
            storage.check(error, handled)
            advice = "check that the folder or server exists and is writable"
            raise storage.unusable(error, self._where, advice) from None
        except BaseException:
            self.close()
            raise

    def _open(self, key: StudyKey, fresh: bool) -> None:
        if self.shared:
            self._storage = PatientStorage(storage.at(self._where), self._where, self._say)
            self.name = storage.latest(self._optuna, self._names, fresh)
        else:
            form = Form(self.name, len(key.method.metrics), self._trial_of)
            problem = self.name.rpartition(" ")[0]
            inner, self._file_lock, note = journal.take(Path(self._where), problem, form, fresh)
            if note is not None:
                self._say(note)
            self._storage = PatientStorage(inner, self._where, self._say)
        self._id = study.entered(self._optuna, self.name, key)

    @property
    def _optuna(self) -> BaseStorage:
        """The storage in the form that Optuna's functions take."""
        return cast(BaseStorage, self._storage)

    def close(self) -> None:
        """Leave the journal file to other processes."""
        if self._file_lock is not None:
            self._file_lock.release()

    def delete(self) -> None:
        """Delete the journal file. A study in a database stays: other processes may use it."""
        if not self.shared:
            Path(self._where).unlink(missing_ok=True)

    def give_up(self) -> None:
        """Stop waiting for a server that does not answer. Takes no lock, so it never waits."""
        self._storage.give_up()

    @property
    def stalled_at(self) -> float:
        """When the last outage of the storage ended, in seconds on the monotonic clock."""
        return self._storage.stalled_at

    def trials(self) -> Sequence[FrozenTrial]:
        """All trials, those of other processes too, by their numbers."""
        trials: Sequence[FrozenTrial] = self._storage.get_all_trials(self._id, deepcopy=False)
        return trials

    def measured(self, frozen: FrozenTrial) -> Trial | None:
        """The measured trial; None if there is none, or if it is corrupt."""
        try:
            return self._trial_of(frozen)
        except ValueError:
            self._unreadable += 1
            return None

    def report_unreadable(self) -> None:
        """Tell the user how many trials were corrupt, if any."""
        if self._unreadable:
            where = address.masked(self._where)
            self._say(f"{where}: {self._unreadable} trials of this study cannot be read, and are measured again")

    def elsewhere(self, space: Space, key: StudyKey) -> list[Trial]:
        """The trials that other studies have of this one's configurations, in the order of measurement."""
        return takeover.taken_over(space, key, self.name, self._optuna if self.shared else None)

    def copy(self, trial: Trial) -> None:
        """Add a trial of another study."""
        self._storage.create_new_trial(self._id, template_trial=takeover.frozen(trial, self._distributions))

    def begin(self, config: Config, attributes: Mapping[str, Any]) -> int:
        """Add a running trial with these attributes, and return its id."""
        template = create_trial(
            state=TrialState.RUNNING, params=config, distributions=self._distributions, user_attrs=dict(attributes)
        )
        trial_id: int = self._storage.create_new_trial(self._id, template_trial=template)
        return trial_id

    def number(self, trial_id: int) -> int:
        """The number of a trial: its place among all trials of the study."""
        number: int = self._storage.get_trial(trial_id).number
        return number

    def note(self, trial_id: int, name: str, value: Any) -> bool:
        """Set an attribute of a running trial. False if the trial has ended."""
        try:
            self._storage.set_trial_user_attr(trial_id, name, value)
        except UpdateFinishedTrialError:
            return False
        return True

    def beat(self, trial_id: int, heartbeat: int) -> None:
        """Write a heartbeat of a running trial once; an outage, or the end of the trial, is no error."""
        with contextlib.suppress(RequestError, UpdateFinishedTrialError):
            self._storage.once("set_trial_user_attr", trial_id, "beat", heartbeat)

    def write(self, trial_id: int, trial: Trial) -> bool:
        """End a running trial with what was measured; it is on disk when this returns. False if it has already ended
        otherwise."""
        if self.note(trial_id, "measured", attribute(trial)) and self.end(trial_id, trial):
            return True
        # If the connection broke, an earlier attempt may have succeeded although the response was lost.
        return bool(self._storage.get_trial(trial_id).state == state_of(trial))

    def end(self, trial_id: int, trial: Trial | None = None) -> bool:
        """End a running trial, with the state and values of `trial`, or without a result. False if it has ended."""
        state, values = (TrialState.PRUNED, None) if trial is None else (state_of(trial), values_of(trial))
        try:
            self._storage.set_trial_state_values(trial_id, state, values)
        except UpdateFinishedTrialError:
            return False
        return True

    def has_earlier_protocol(self, space: Space, key: StudyKey) -> bool:
        """Whether there is a study of the same conditions whose trials were timed by an earlier protocol."""
        earlier = [replace(key, protocol=number) for number in range(1, key.protocol)]
        if not self.shared:
            return any(study.place(space, each)[1].exists() for each in earlier)
        names = {name for each in earlier for name in study.full_names(space, each)}
        return any(other.study_name in names for other in self._storage.get_all_studies())

    def note_command(self, command: str) -> None:
        """Write this run's command line into the study, unless the last run had the same one."""
        commands = study.commands_of(self._storage.get_study_user_attrs(self._id))
        if commands[-1:] != [command]:
            kept = [*commands, command][-study.MOST_COMMANDS :]
            self._storage.set_study_user_attr(self._id, study.COMMANDS, kept)

    def note_accusation(self, accused: str) -> None:
        """Write into the study why its reference is doubtful; `accused` is empty if the reference is not doubtful."""
        if self._storage.get_study_user_attrs(self._id).get(study.ACCUSED, "") != accused:
            self._storage.set_study_user_attr(self._id, study.ACCUSED, accused)
