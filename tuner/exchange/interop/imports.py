"""Import of other tuners' files: recordings become unverified records in the store, T1 files become space files."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from tuner.catalog import kernel_names
from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.exchange.interop import kernel_tuner_files, provenance, t1, t4
from tuner.exchange.interop.provenance import Statements
from tuner.exchange.interop.records import Made, made_of, with_constants
from tuner.quoting import shown
from tuner.space.config import Config
from tuner.space.texts import config_text, size_text
from tuner.store.merge import possible
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.tuning.recordings import jsonfile, logs
from tuner.tuning.recordings import recording as recordings
from tuner.tuning.recordings.recording import Recording


@dataclass(frozen=True)
class ImportedRecord:
    """A record from a file.

    stored: false if the store has a better record.
    ignored: number of entries that could not be read.
    constants: the recording's parameters of a single value that the kernel does not have.
    notes: what the user must know about the record.
    """

    file: Path
    kernel: str
    record: Record
    stored: bool
    ignored: int = 0
    constants: Config = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The record as data for --json."""
        record = self.record
        problem = {"file": str(self.file), "kernel": self.kernel, "device": record.device, "size": record.sizes}
        counts = {"configurations": record.configurations, "ignored": self.ignored, "constants": self.constants}
        best = {"config": record.config, "time_ms": record.time_ms, "verified": record.is_verified}
        return {**problem, **counts, "best": best, "stored": self.stored, "notes": [*self.notes]}

    def __str__(self) -> str:
        record, fate = self.record, "stored, unverified" if self.stored else "not stored: the store has a better record"
        problem = f"{self.kernel} at {size_text(record.sizes)} on {record.device}"
        ignored = f"; ignored, as incomplete: {self.ignored}" if self.ignored else ""
        if self.constants:
            ignored += f"; dropped, as the kernel has no such parameter: {shown(config_text(self.constants))}"
        return f"{self.file}: {problem}: {record.time_ms:.4g} ms, {config_text(record.config)} ({fate}{ignored})"


@dataclass(frozen=True)
class ImportedSpace:
    """A space file made from a T1 file, and the tasks that remain for the user."""

    file: Path
    space: Path
    todo: list[str]

    def to_json(self) -> dict[str, Any]:
        """The space file as data for --json."""
        return {"file": str(self.file), "space": str(self.space), "todo": self.todo}

    def __str__(self) -> str:
        return "\n".join([f"{self.file}: {self.space}; left to do:", *(f"  {task}" for task in self.todo)])


def import_all(
    files: Sequence[Path], statements: Statements, noted: Callable[[str], None]
) -> list[ImportedRecord | ImportedSpace]:
    """Import `files`. All are read before anything is written.

    A file may hold several groups, each of a device and size. `noted` receives why a group was left out, and what the
    user must know about a record. Raises RequestError for a file that cannot be read, or none of whose groups can be
    imported: because its provenance is incomplete, or it contradicts `statements`.
    """
    spaces: list[tuple[Path, Mapping[str, Any]]] = []
    records: list[tuple[Path, Recording, Made]] = []
    for file in files:
        content = _read(file)
        if isinstance(content, list):
            records += [(file, *group) for group in _groups(file, content, statements, noted)]
        else:
            spaces.append((file, content))
    if statements.output is not None and len(spaces) != 1:
        raise RequestError(f"--output: names the space file of one T1 file; {len(spaces)} were given")
    results: list[ImportedRecord | ImportedSpace] = []
    for file, data in spaces:
        target = statements.output or Path(f"{file.name.partition('.')[0]}.yaml")
        results.append(ImportedSpace(file, target, t1.write(file, data, target)))
    for file, recording, made in records:
        for note in made.notes:
            noted(note)
        space = made.origin.space
        stored = Store.of(space, statements.results).add(made.record, partial(possible, space))
        kernel_names.remember(space)  # for `tune verify`
        measured = [(with_constants(space, config), entry) for config, entry in recording.configs()]
        logs.keep(logs.LoggedProblem.of(space.name, made.record), space, measured, statements.results)
        constants = {name: values[0] for name, values in recording.parameters.items() if name not in space.parameters}
        results.append(ImportedRecord(file, space.name, made.record, stored, recording.ignored, constants, made.notes))
    return results


def _groups(
    file: Path, recordings: Sequence[Recording], statements: Statements, noted: Callable[[str], None]
) -> list[tuple[Recording, Made]]:
    """The recordings of a file that can be imported, with their records. Raises RequestError if there is none."""
    made: list[tuple[Recording, Made]] = []
    errors: list[tuple[Recording, RequestError]] = []
    for recording in recordings:
        try:
            made.append((recording, made_of(file, recording, statements)))
        except RequestError as error:
            errors.append((recording, error))
    if statements.size is not None:
        made = _of_one_size(file, made, noted)
    if not made:
        raise errors[0][1]
    for recording, reason in errors:
        noted(f"left out {_group_text(recording)}: {reason}")
    return made


def _of_one_size(
    file: Path, made: Sequence[tuple[Recording, Made]], noted: Callable[[str], None]
) -> list[tuple[Recording, Made]]:
    """The groups that are of the size that the user names: those that say so, else the only one of each device.

    Raises RequestError if groups of several sizes could be meant.
    """
    certain = [(recording, one) for recording, one in made if provenance.says_size(recording, one.origin)]
    if certain:
        for recording, one in made:
            if not provenance.says_size(recording, one.origin):
                noted(f"{shown(file)}: left out {_group_text(recording)}: it may be of another size than --size")
        return certain
    sizes = {str(recording.size): _group_text(recording) for recording, _ in made}
    if len(sizes) > 1:
        raise RequestError(
            f"{shown(file)}: holds times of {len(sizes)} sizes ({', '.join(sizes.values())[:200]}), but --size is one "
            "problem, and it does not follow which; write `extent:` in the operation, or give a file of one size"
        )
    return [*made]


def _group_text(recording: Recording) -> str:
    size = "x".join(map(str, recording.size)) if isinstance(recording.size, list) else str(recording.size)
    return shown(f"problem_size {size[:60]} on {recording.device[:60] or 'a device without a name'}")


def _read(file: Path) -> Mapping[str, Any] | list[Recording]:
    """The data of a T1 file, or the recordings in any other file. Raises RequestError if it has neither."""
    try:
        data = json.loads(jsonfile.text(file))
    except (ValueError, RecursionError):
        data = None  # may still be a truncated cache
    if isinstance(data, dict) and t1.is_space(data):
        return data
    if isinstance(data, dict) and "data" in data and "tunable_parameters" in data:
        return kernel_tuner_files.read_results(file, data)
    is_t4 = isinstance(data, dict) and "cache" not in data and "results" in data
    del data  # halves the peak memory: `read` parses the file again
    recording = recordings.read(file)
    return [t4.with_metadata(file, recording) if is_t4 else recording]
