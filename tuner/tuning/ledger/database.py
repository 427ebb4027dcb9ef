"""Optuna's database storage, made robust: a corrupt row becomes a trial without a result instead of an error."""

from collections.abc import Container
from typing import Any

import sqlalchemy
from optuna.distributions import BaseDistribution
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.study._frozen import FrozenStudy
from optuna.study._study_direction import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tuner.tuning.ledger.stored_trial import UNREADABLE

# What Optuna raises if a row is corrupt.
_CORRUPTION_ERRORS = (
    LookupError,
    TypeError,
    ValueError,
    AssertionError,
    AttributeError,
    OverflowError,
    RecursionError,
)
# With these options the system reports a lost connection within half a minute, instead of hours.
_LIBPQ = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

_head_version: str | None = None  # of Optuna's tables, which Optuna reads from thirty files; the same for all databases


class Database(RDBStorage):
    """Optuna's database storage, which tolerates corrupt rows and reports lost connections soon."""

    def __init__(self, url: str) -> None:
        options: dict[str, Any] = {"pool_pre_ping": True}
        address = sqlalchemy.make_url(url)
        if address.drivername in ("postgresql", "postgresql+psycopg", "postgresql+psycopg2"):
            options["connect_args"] = {name: value for name, value in _LIBPQ.items() if name not in address.query}
        super().__init__(url.replace("{", "{{").replace("}", "}}"), options)  # Optuna calls str.format on the URL

    def get_head_version(self) -> str:
        global _head_version
        _head_version = _head_version or super().get_head_version()
        return _head_version

    def get_all_studies(self) -> list[FrozenStudy]:
        try:
            return super().get_all_studies()
        except _CORRUPTION_ERRORS:
            with self.scoped_session() as session:
                rows = session.query(models.StudyModel.study_id, models.StudyModel.study_name).all()
            return [self._study(int(row[0]), str(row[1])) for row in rows]

    def _study(self, study_id: int, name: str) -> FrozenStudy:
        attributes = self.get_study_user_attrs(study_id)
        return FrozenStudy(name, None, attributes, {}, study_id, directions=[StudyDirection.MINIMIZE])

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        try:
            return super().get_study_user_attrs(study_id)
        except _CORRUPTION_ERRORS:
            return {}

    def _get_trials(
        self,
        study_id: int,
        states: Container[TrialState] | None,
        included_trial_ids: set[int],
        trial_id_greater_than: int,
    ) -> list[FrozenTrial]:
        try:
            trials = super()._get_trials(study_id, states, included_trial_ids, trial_id_greater_than)
            if all(isinstance(trial.number, int) for trial in trials):
                return trials
        except _CORRUPTION_ERRORS:
            pass
        with self.scoped_session() as session:
            rows = session.query(models.TrialModel.trial_id).filter(models.TrialModel.study_id == study_id).all()
        new = (row[0] for row in rows if row[0] > trial_id_greater_than or row[0] in included_trial_ids)
        return [trial for trial in map(self._trial, new) if states is None or trial.state in states]

    def _trial(self, trial_id: int) -> FrozenTrial:
        try:
            trial = self.get_trial(trial_id)
            if isinstance(trial.number, int):
                return trial
        except _CORRUPTION_ERRORS:
            pass
        return FrozenTrial(
            number=-trial_id,  # unique
            state=TrialState.PRUNED,
            value=None,
            datetime_start=None,
            datetime_complete=None,
            params={},
            distributions={},
            user_attrs={UNREADABLE: True},
            system_attrs={},
            intermediate_values={},
            trial_id=trial_id,
        )

    def _set_trial_param_without_commit(
        self,
        session: Any,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
        previous_distribution: BaseDistribution | None = None,
    ) -> None:
        """Skip Optuna's comparison with an earlier trial, which may be corrupt.

        All trials of a study have the same parameters.
        """
        super()._set_trial_param_without_commit(
            session, trial_id, param_name, param_value_internal, distribution, previous_distribution or distribution
        )
