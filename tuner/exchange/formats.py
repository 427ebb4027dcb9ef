"""The formats that `tune export` writes: one table, which help, validation and use all read."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.errors import RequestError
from tuner.space.model import short_size

if TYPE_CHECKING:
    from tuner.exchange.target import Problem, Target
    from tuner.exchange.trials import Trials


@dataclass(frozen=True)
class ExportRequest:
    """What to export. `architectures` are of a bundle, as `sm_80,sm_90a`; `storage` is the URL of a shared ledger."""

    problem: Problem
    device: str | None = None
    output: Path | None = None
    architectures: str | None = None
    storage: str | None = None

    def path(self, suffix: str) -> Path:
        """Where to write: `output`, or a name in this folder made of the kernel, the size and `suffix`."""
        stem = self.problem.space.name.rpartition("/")[2]
        return self.output or Path(f"{stem}-{short_size(self.problem.sizes)}{suffix}")


@dataclass(frozen=True)
class Export:
    """The files that were written, what to say of them in JSON, and warnings."""

    files: list[Path]
    about: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @staticmethod
    def of_targets(files: list[Path], targets: Sequence[Target]) -> Export:
        """Of files that hold the best configurations for these targets."""
        notes = dict.fromkeys(note for target in targets for note in target.found.notes)
        return Export(files, {"devices": [_about(target) for target in targets]}, tuple(notes))

    @staticmethod
    def of_trials(files: list[Path], trials: Trials) -> Export:
        """Of files that hold all trials."""
        recording = trials.recording
        return Export(files, {"device": recording.device, "trials": len(recording.entries), "from": trials.origin})


def _about(target: Target) -> dict[str, Any]:
    found, device = target.found, target.device
    names = {"device": device.name or None, "kind": device.kind, "architecture": device.architecture}
    return {**names, "match": found.match, "stale": found.stale, "config": found.config}


@dataclass(frozen=True)
class Format:
    """A format. Its `module` has a function `export` of an ExportRequest, which writes the files and gives the Export,
    and raises RequestError where there is nothing to write."""

    name: str
    about: str
    module: str
    holds_trials: bool = False  # all of them, so that they may come from a shared ledger
    has_architectures: bool = False  # a binary for each


FORMATS: Mapping[str, Format] = {
    form.name: form
    for form in (
        Format("header", "a C header of macros", "tuner.exchange.header"),
        Format("cubin", "a folder of cubins with a C example", "tuner.exchange.bundle", has_architectures=True),
        Format("cu", "the source as one file", "tuner.exchange.standalone"),
        Format("kernel-tuner", "a cache and results", "tuner.exchange.kernel_tuner_files", holds_trials=True),
        Format("t4", "results and metadata", "tuner.exchange.t4", holds_trials=True),
        Format("csv", "a table", "tuner.exchange.table", holds_trials=True),
    )
}


def export(to: str, request: ExportRequest) -> Export:
    """Write the files of the format called `to`. Raises RequestError where there is nothing to write, or it cannot be
    written."""
    if request.architectures is not None and not FORMATS[to].has_architectures:
        raise RequestError(f"--architecture is for --to {_those('has_architectures')}, not for --to {to}")
    if request.storage is not None and not FORMATS[to].holds_trials:
        raise RequestError(f"--storage is for --to {_those('holds_trials')}, which hold all trials, not for --to {to}")
    try:
        done: Export = importlib.import_module(FORMATS[to].module).export(request)
        return done
    except OSError as error:
        where = paths.shown(error.filename or request.path(""))
        raise RequestError(f"{where}: cannot be written: {error.strerror}; name another place by --output") from None


def _those(property_: str) -> str:
    """`kernel-tuner, t4 and csv`: the formats that have a property."""
    names = [form.name for form in FORMATS.values() if getattr(form, property_)]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def write(path: Path, text: str) -> Path:
    """Write `text` to `path`, which it returns. Raises OSError."""
    paths.replace(path, text.encode())
    return path
