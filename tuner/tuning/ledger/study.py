"""The key of a study, and the studies in a storage."""

import ast
import contextlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from tuner import paths
from tuner.catalog import kernel_names
from tuner.classes import dataclass
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.measure.method import PROTOCOL, STANDARD, Method, peculiarity
from tuner.space.config import ConfigKey, Value, config_key
from tuner.space.deployments import REPEATED
from tuner.space.model import Space
from tuner.space.texts import size_text
from tuner.tuning.ledger.stored_trial import from_optuna
from tuner.tuning.ledger.trial import Trial

COMMANDS, MOST_COMMANDS = "commands", 20  # an attribute of a study, and the number of commands that it retains
ACCUSED = "accused"  # an attribute of a study: why its reference is doubtful
CONDITIONS = "trial_conditions"  # an attribute of a study; version 0.1.0 wrote something else as "conditions"


@dataclass(frozen=True)
class StudyKey:
    """What all trials of one ledger share, because times depend on it.

    `device` is the device's name, `signature` the identity of the space (`identity.of`), `protocol` the version of the
    timing protocol, and `types` the chosen types. `headers` is a digest of the headers that are no part of the space
    (`Backend.surrounding`), empty without any. Whatever else times depend on is in `conditions`.
    """

    sizes: dict[str, int]
    options: dict[str, float]
    device: str
    signature: str
    toolchain: str
    method: Method = STANDARD
    protocol: int = PROTOCOL
    types: dict[str, str] = field(default_factory=dict)
    conditions: Conditions = DEFAULT
    headers: str = ""

    def digest(self, parameters: Mapping[str, tuple[Value, ...]]) -> str:
        """A hash of the key and of all parameters' values, which is part of the study's name."""
        m = self.method
        method = f"Method(repeats={m.repeats}, cold={m.cold}, objectives={m.objectives}, race={m.race})"
        protocol = f" protocol {self.protocol}" if self.protocol > 1 else ""  # names of the first protocol lack it
        types = f" types {sorted(self.types.items())}" if self.types else ""
        method += " energy between ticks" if m.wants_energy else ""  # earlier energies differed by a tenth
        method += f" as {m.deployment}" if m.deployment in REPEATED else ""
        method += f" observed by {Path(m.observers).stem}" if m.observers else ""
        headers = f" headers {self.headers}" if self.headers else ""
        shared = f"{self.signature} {self.toolchain} {method}{protocol}{types}{self.conditions.identity}{headers}"
        options, values = sorted(self.options.items()), sorted(parameters.items())
        return paths.digest(self.device, shared, repr(options), repr(values))[:12]

    @property
    def peculiar(self) -> str:
        """How the method differs from tuning for time with warm caches, in words."""
        return peculiarity(self.method.deployment, self.method.objectives[0])


@dataclass(frozen=True)
class StoredStudy:
    """A read-only copy of a study in a storage. `peculiar` is that of its StudyKey."""

    device: str
    signature: str
    toolchain: str
    peculiar: str
    protocol: int
    types: dict[str, str]
    conditions: Conditions
    trials: list[Trial]
    commands: tuple[str, ...] = ()  # command lines of its runs, if known, latest last
    accused: str = ""  # why its last run found the reference doubtful; empty if it did not


def entered(optuna_storage: BaseStorage, name: str, key: StudyKey) -> int:
    """The id of the study `name`, which is created if necessary."""
    metrics = list(key.method.metrics)
    directions = [StudyDirection.MINIMIZE] * len(metrics)
    study = optuna.create_study(study_name=name, storage=optuna_storage, load_if_exists=True, directions=directions)
    if "device" not in study.user_attrs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that set_metric_names is experimental
            study.set_metric_names(metrics)
        for field in ("device", "signature", "toolchain"):
            study.set_user_attr(field, getattr(key, field))
        study.set_user_attr("method", key.method.to_json())
        study.set_user_attr("protocol", key.protocol)
        study.set_user_attr("types", key.types)
        if key.conditions:
            study.set_user_attr(CONDITIONS, dict(key.conditions.values))
    if "options" not in study.user_attrs:  # an earlier version did not write them
        study.set_user_attr("options", key.options)
    return study._study_id


def study_name(kernel: str, sizes: Mapping[str, int]) -> str:
    """The prefix of the names of all studies of a kernel at one size."""
    return f"{kernel} {size_text(sizes)} "


def full_names(space: Space, key: StudyKey) -> dict[str, str]:
    """The possible names of the study of a space under these conditions, each with the space's name in it.

    The space's present name comes first, then earlier names of the user's file. If a study of these conditions exists
    under an earlier name, it is of the same code, so it continues under that name. Later generations append a number.
    """
    conditions = f"{key.device} {key.digest(space.parameters)}"
    kernels = (space.name, *kernel_names.other_names(space))
    return {f"{study_name(kernel, key.sizes)}{conditions}": kernel for kernel in kernels}


def place(space: Space, key: StudyKey) -> tuple[str, Path]:
    """The name of the study of a space under these conditions, and its journal file if it is in no database."""
    candidates = [(name, _file(kernel, name)) for name, kernel in full_names(space, key).items()]
    return next((candidate for candidate in candidates if candidate[1].exists()), candidates[0])


def _file(kernel: str, name: str) -> Path:
    return paths.state() / "studies" / kernel / f"{paths.digest(name)}.log"


def stored_studies(
    optuna_storage: BaseStorage, space: Space, sizes: Mapping[str, int], options: Mapping[str, float]
) -> Iterator[StoredStudy]:
    """The studies of a space in a storage, at one size and with these options. Corrupt trials are left out."""
    prefixes = tuple(study_name(kernel, sizes) for kernel in (space.name, *kernel_names.other_names(space)))
    for study in optuna_storage.get_all_studies():
        if study.study_name.startswith(prefixes):
            frozen = optuna_storage.get_all_trials(study._study_id, deepcopy=False)
            key = _stored_key(study.user_attrs, dict(options))
            if not _has_options(study.study_name, study.user_attrs, key, parameters_of(frozen) or space.parameters):
                continue
            latest: dict[ConfigKey, Trial] = {}
            for each in frozen:
                with contextlib.suppress(ValueError):
                    if (trial := from_optuna(each, space.parameters, None)) is not None:
                        latest[config_key(trial.config)] = trial
            shared = key.device, key.signature, key.toolchain, key.peculiar, key.protocol, key.types, key.conditions
            accused = study.user_attrs.get(ACCUSED)
            notes = tuple(commands_of(study.user_attrs)), accused if isinstance(accused, str) else ""
            yield StoredStudy(*shared, list(latest.values()), *notes)


def _stored_key(attributes: Mapping[str, Any], options: dict[str, float]) -> StudyKey:
    """The conditions of a stored study, with `options` and without sizes. Invalid attributes become defaults."""
    signature, toolchain = _conditions(attributes)
    device, protocol, types, conditions = (attributes.get(name) for name in ("device", "protocol", "types", CONDITIONS))
    return StudyKey(
        {},
        options,
        str(device or ""),
        signature,
        toolchain,
        _method(attributes),
        protocol if isinstance(protocol, int) else 1,
        types if isinstance(types, dict) else {},  # an earlier version had none
        Conditions(conditions) if isinstance(conditions, dict) else DEFAULT,
    )


def _has_options(
    name: str, attributes: Mapping[str, Any], key: StudyKey, parameters: Mapping[str, tuple[Value, ...]]
) -> bool:
    """Whether the study has the options of `key`. An earlier version only wrote their hash, in the study's name."""
    if "options" in attributes:
        return bool(attributes["options"] == key.options)
    return not key.options or key.digest(parameters) in name.split()


def parameters_of(trials: Iterable[FrozenTrial]) -> dict[str, tuple[Any, ...]]:
    """The values of a study's parameters, from its first trial that has them; empty if there is none."""
    distributions: Any = next((trial.distributions for trial in trials if trial.distributions), {})
    return {name: each.choices for name, each in distributions.items() if isinstance(each, CategoricalDistribution)}


def commands_of(attributes: Mapping[str, Any]) -> list[str]:
    """The command lines that a study stores; invalid ones are left out."""
    commands = attributes.get(COMMANDS)
    return [text for text in commands if isinstance(text, str)] if isinstance(commands, list) else []


def _method(attributes: Mapping[str, Any]) -> Method:
    """The method of a study; STANDARD if it cannot be read."""
    with contextlib.suppress(LookupError, TypeError, ValueError, SyntaxError):
        if "method" in attributes:
            method = Method.from_json(attributes["method"])
            return method if method.objectives else STANDARD
        _, _, text = str(attributes.get("conditions", "")).partition(" Method(")
        words = ast.parse(f"Method({text}", mode="eval").body
        if isinstance(words, ast.Call):
            return Method.from_json({word.arg or "": ast.literal_eval(word.value) for word in words.keywords})
    return STANDARD


def _conditions(attributes: Mapping[str, Any]) -> tuple[str, str]:
    """Signature and toolchain of a study. Version 0.1.0 wrote both, and the method, as one string."""
    if "signature" in attributes:
        return str(attributes["signature"]), str(attributes.get("toolchain", ""))
    signature, _, rest = str(attributes.get("conditions", "")).partition(" ")
    return signature, rest.partition(" Method(")[0].strip()
