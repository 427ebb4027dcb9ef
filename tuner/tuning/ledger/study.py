"""What a study is of, and the studies that a storage holds."""

import ast
import contextlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from tuner import paths
from tuner.catalog import kernel_names
from tuner.measure.method import PROTOCOL, STANDARD, Method, peculiarity
from tuner.space.config import ConfigKey, Value, config_key
from tuner.space.model import Space
from tuner.space.texts import size_text
from tuner.tuning.ledger.stored_trial import from_optuna
from tuner.tuning.ledger.trial import Trial

COMMANDS, MOST_COMMANDS = "commands", 20  # an attribute of a study, and how many it keeps


@dataclass(frozen=True)
class StudyKey:
    """The conditions that the trials of one ledger share, besides the space: sizes, options, the device's name, the
    signature (`identity.of` the space), toolchain, method, the protocol of measuring, and the chosen types. Times
    depend on all of them."""

    sizes: dict[str, int]
    options: dict[str, float]
    device: str
    signature: str
    toolchain: str
    method: Method = STANDARD
    protocol: int = PROTOCOL
    types: dict[str, str] = field(default_factory=dict)

    def digest(self, parameters: Mapping[str, tuple[Value, ...]]) -> str:
        """The part of the study's name that tells apart whatever differs in a condition, or in a parameter's values."""
        m = self.method
        method = f"Method(repeats={m.repeats}, cold={m.cold}, objectives={m.objectives}, race={m.race})"
        protocol = f" protocol {self.protocol}" if self.protocol > 1 else ""  # nobody named the first one
        types = f" types {sorted(self.types.items())}" if self.types else ""
        conditions = f"{self.signature} {self.toolchain} {method}{protocol}{types}"
        options, values = sorted(self.options.items()), sorted(parameters.items())
        return paths.digest(self.device, conditions, repr(options), repr(values))[:12]

    @property
    def peculiar(self) -> str:
        """What is unlike tuning for time with warm caches, in words."""
        return peculiarity(self.method.cold, self.method.objectives[0])


@dataclass(frozen=True)
class StoredStudy:
    """A study in a storage, for reading only."""

    device: str
    signature: str
    toolchain: str
    peculiar: str  # what is unlike tuning for time with warm caches
    protocol: int
    types: dict[str, str]
    trials: list[Trial]
    commands: tuple[str, ...] = ()  # that ran it, as far as it is known, the latest last


def entered(optuna_storage: BaseStorage, name: str, key: StudyKey) -> int:
    """The id of the study called `name`, which is created if need be."""
    metrics = list(key.method.metrics)
    directions = [StudyDirection.MINIMIZE] * len(metrics)
    study = optuna.create_study(study_name=name, storage=optuna_storage, load_if_exists=True, directions=directions)
    if "device" not in study.user_attrs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls it experimental
            study.set_metric_names(metrics)
        for field in ("device", "signature", "toolchain"):
            study.set_user_attr(field, getattr(key, field))
        study.set_user_attr("method", asdict(key.method))
        study.set_user_attr("protocol", key.protocol)
        study.set_user_attr("types", key.types)
    if "options" not in study.user_attrs:  # an earlier version wrote all but these
        study.set_user_attr("options", key.options)
    return study._study_id


def study_name(kernel: str, sizes: Mapping[str, int]) -> str:
    """The beginning of the names of all studies of a kernel at one size."""
    return f"{kernel} {size_text(sizes)} "


def full_names(space: Space, key: StudyKey) -> dict[str, str]:
    """The names that the study of a space under these conditions may have, each with the name that the space has in it:
    the one that it has now, then those that the user's file had. Later generations have a number behind the name.

    Whatever it is called, a study of these conditions is of the same code, so it goes on under the name that it has.
    """
    conditions = f"{key.device} {key.digest(space.parameters)}"
    kernels = (space.name, *kernel_names.other_names(space))
    return {f"{study_name(kernel, key.sizes)}{conditions}": kernel for kernel in kernels}


def place(space: Space, key: StudyKey) -> tuple[str, Path]:
    """The name of the study of a space under these conditions, and the file that it lies in if no database has it."""
    places = [(name, _file(kernel, name)) for name, kernel in full_names(space, key).items()]
    return next((place for place in places if place[1].exists()), places[0])


def _file(kernel: str, name: str) -> Path:
    return paths.state() / "studies" / kernel / f"{paths.digest(name)}.log"


def stored_studies(
    optuna_storage: BaseStorage, space: Space, sizes: Mapping[str, int], options: Mapping[str, float]
) -> Iterator[StoredStudy]:
    """The studies of a space at one size, with these options, in a storage, as far as they can be read."""
    beginnings = tuple(study_name(kernel, sizes) for kernel in (space.name, *kernel_names.other_names(space)))
    for study in optuna_storage.get_all_studies():
        if study.study_name.startswith(beginnings):
            frozen = optuna_storage.get_all_trials(study._study_id, deepcopy=False)
            key = _stored_key(study.user_attrs, dict(options))
            if not _has_options(study.study_name, study.user_attrs, key, _parameters(frozen) or space.parameters):
                continue
            latest: dict[ConfigKey, Trial] = {}
            for each in frozen:
                with contextlib.suppress(ValueError):
                    if (trial := from_optuna(each, space.parameters, None)) is not None:
                        latest[config_key(trial.config)] = trial
            conditions = key.device, key.signature, key.toolchain, key.peculiar, key.protocol, key.types
            yield StoredStudy(*conditions, list(latest.values()), tuple(commands_of(study.user_attrs)))


def _stored_key(attributes: Mapping[str, Any], options: dict[str, float]) -> StudyKey:
    """The conditions of a stored study, with these options; it has no sizes. Nobody vouches for the file."""
    signature, toolchain = _conditions(attributes)
    device, protocol, types = (attributes.get(name) for name in ("device", "protocol", "types"))
    return StudyKey(
        {},
        options,
        str(device or ""),
        signature,
        toolchain,
        _method(attributes),
        protocol if isinstance(protocol, int) else 1,
        types if isinstance(types, dict) else {},  # an earlier version knew none
    )


def _has_options(
    name: str, attributes: Mapping[str, Any], key: StudyKey, parameters: Mapping[str, tuple[Value, ...]]
) -> bool:
    """Whether the study is of the options of `key`. An earlier version wrote them into its name alone, as a digest."""
    if "options" in attributes:
        return bool(attributes["options"] == key.options)
    return not key.options or key.digest(parameters) in name.split()


def _parameters(trials: Iterable[FrozenTrial]) -> dict[str, tuple[Any, ...]]:
    """The values that the parameters of a study had; none where no trial tells."""
    known: Any = next((trial.distributions for trial in trials if trial.distributions), {})
    return {name: each.choices for name, each in known.items() if isinstance(each, CategoricalDistribution)}


def commands_of(attributes: Mapping[str, Any]) -> list[str]:
    """The commands that ran a study, as far as it says so. Nobody vouches for the file."""
    commands = attributes.get(COMMANDS)
    return [text for text in commands if isinstance(text, str)] if isinstance(commands, list) else []


def _method(attributes: Mapping[str, Any]) -> Method:
    """The method of a study, as far as it can be read."""
    with contextlib.suppress(LookupError, TypeError, ValueError, SyntaxError):
        if "method" in attributes:
            method = Method.from_json(attributes["method"])
            return method if method.objectives else STANDARD
        _, _, text = str(attributes.get("conditions", "")).partition(" Method(")
        words = ast.parse(f"Method({text}", mode="eval").body
        if isinstance(words, ast.Call):
            return Method(**{word.arg or "": ast.literal_eval(word.value) for word in words.keywords})
    return STANDARD


def _conditions(attributes: Mapping[str, Any]) -> tuple[str, str]:
    """Signature and toolchain of a study. Version 0.1.0 wrote both, and the method, as one text."""
    if "signature" in attributes:
        return str(attributes["signature"]), str(attributes.get("toolchain", ""))
    signature, _, rest = str(attributes.get("conditions", "")).partition(" ")
    return signature, rest.partition(" Method(")[0].strip()
