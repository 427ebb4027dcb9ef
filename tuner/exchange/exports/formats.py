"""The table of `tune export` formats, which help, validation and export read."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.space.operation import problem_words
from tuner.space.texts import problem_text

if TYPE_CHECKING:
    from tuner.exchange.exports.target import Problem, Target
    from tuner.exchange.exports.trials import Trials
    from tuner.space.model import Space


@dataclass(frozen=True)
class ExportRequest:
    """The arguments of an export.

    device: a device of this machine, or part of the name of a device in the store.
    output: the file to write, or the folder of a bundle; None: a name made of the problem, in the current folder.
    architectures: the architectures of a bundle, as in `sm_80,sm_90a`.
    storage: the URL of a shared ledger.
    spaces: the kernels of a family, for formats that hold families; then `problem` is of the first one, without sizes.
    name: the family's name.
    """

    problem: Problem
    device: str | None = None
    output: Path | None = None
    architectures: str | None = None
    storage: str | None = None
    spaces: tuple[Space, ...] = ()
    name: str = ""

    def path(self, suffix: str) -> Path:
        """`output`; without one, a file in the current folder, named after the problem or family, with this suffix."""
        if self.spaces:
            name = re.sub(r"\.ya?ml$", "", self.name.strip("/").rpartition("/")[2])
            return self.output or Path(f"{name}-dispatch{suffix}")
        return self.output or Path(self.problem.file_name + suffix)


@dataclass(frozen=True)
class Export:
    """The files written, their summary as JSON data, and warnings."""

    files: list[Path]
    summary: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @staticmethod
    def of_targets(files: list[Path], targets: Sequence[Target]) -> Export:
        """The export of the best configurations for these targets."""
        notes = dict.fromkeys(note for target in targets for note in (*target.best.notes, *_misfit(target)))
        return Export(files, {"devices": [_summary(target) for target in targets]}, tuple(notes))

    @staticmethod
    def of_trials(files: list[Path], trials: Trials) -> Export:
        """The export of all trials."""
        recording = trials.recording
        summary = {"device": recording.device, "trials": len(recording.entries), "from": trials.origin}
        notes = []
        if recording.is_unverified:
            notes.append(f"{recording.kernel}: the trials are unverified: no output was compared with a reference")
        if trials.peculiar:
            notes.append(f"{recording.kernel}: the trials were not tuned for time with warm caches: {trials.peculiar}")
        return Export(files, summary, tuple(notes))


def _misfit(target: Target) -> list[str]:
    """A warning if the configuration was not tuned for this version, problem and device."""
    problem, best, record = target.problem, target.best, target.best.record
    if best.match == "exact" and not best.stale:
        return []
    device = target.device.name or target.device.architecture
    configuration = "the default configuration"
    if record is not None:
        of = f"{problem_text(record.sizes, record.types)} on {record.device}"
        configuration = (
            f"the configuration that was tuned for {of}{', for an earlier version of the kernel' if best.stale else ''}"
        )
    words = problem_words(problem.space.operation, problem.sizes, problem.types, problem.options)
    return [
        f"{problem.space.name} at {problem.text} on {device}: not tuned; exported {configuration}. "
        f"To tune it, run `tune {shown(problem.space.name)} {words}` on that device"
    ]


def _summary(target: Target) -> dict[str, Any]:
    best, device = target.best, target.device
    names = {"device": device.name or None, "kind": device.kind, "architecture": device.architecture}
    return {**names, "match": best.match, "stale": best.stale, "config": best.config}


@dataclass(frozen=True)
class Format:
    """A format of `tune export`.

    module: has a function `export` from ExportRequest to Export, which writes the files. It raises RequestError if
        there is nothing to write, and OSError if a file cannot be written.
    holds_trials: the files hold all trials, which may come from a shared ledger.
    holds_family: the files hold the kernels of a family, at any size.
    has_architectures: the files hold one binary per requested architecture.
    """

    name: str
    description: str
    module: str
    holds_trials: bool = False
    holds_family: bool = False
    has_architectures: bool = False


FORMATS: Mapping[str, Format] = {
    form.name: form
    for form in (
        Format("header", "the best as a C header of macros", "tuner.exchange.exports.header"),
        Format(
            "cubin",
            "the best as cubins for NVIDIA GPUs, with a C example",
            "tuner.exchange.exports.bundle",
            has_architectures=True,
        ),
        Format(
            "dispatch",
            "builds for any device and size, for tuner.dispatch",
            "tuner.exchange.exports.dispatch_bundle",
            holds_family=True,
        ),
        Format("cu", "the best as one specialised source", "tuner.exchange.exports.single_file"),
        Format(
            "kernel-tuner", "all trials as its cache", "tuner.exchange.interop.kernel_tuner_files", holds_trials=True
        ),
        Format("t4", "all trials as FAIR T4 results", "tuner.exchange.interop.t4", holds_trials=True),
        Format("csv", "a table of all trials", "tuner.exchange.exports.table", holds_trials=True),
    )
}


def export(to: str, request: ExportRequest) -> Export:
    """Write the files of the format `to`.

    Raises RequestError if an option does not apply to the format, there is nothing to write, or a file cannot be
    written.
    """
    if request.architectures is not None and not FORMATS[to].has_architectures:
        raise RequestError(f"--architecture applies to --to {_names('has_architectures')}, not to --to {to}")
    if request.storage is not None and not FORMATS[to].holds_trials:
        raise RequestError(f"--storage applies to --to {_names('holds_trials')}, not to --to {to}")
    try:
        result: Export = importlib.import_module(FORMATS[to].module).export(request)
        return result
    except OSError as error:
        where = shown(error.filename or request.path(""))
        raise RequestError(f"{where}: cannot be written: {error.strerror}; name another file with --output") from None


def _names(attribute: str) -> str:
    """The names of the formats with this attribute: `kernel-tuner, t4 and csv`."""
    names = [form.name for form in FORMATS.values() if getattr(form, attribute)]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def write(path: Path, text: str) -> Path:
    """Write `text` to `path` and return `path`. Raises OSError."""
    paths.replace(path, text.encode())
    return path
