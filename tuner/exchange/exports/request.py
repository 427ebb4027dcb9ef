"""The request and the result of an export, which all formats share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.catalog import catalog
from tuner.classes import dataclass
from tuner.quoting import shown
from tuner.space.parsing import problem_words
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
    architectures: the architectures of a bundle, as in `sm_80,sm_90a`, or the only one of a source.
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
            return self.output or Path(name + suffix)
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
    def of_trials(files: list[Path], trials: Trials, more: Sequence[str] = ()) -> Export:
        """The export of all trials, with `more` notes about the format."""
        recording = trials.recording
        summary = {"device": recording.device, "trials": len(recording.entries), "from": trials.origin}
        notes = []
        if recording.is_unverified:
            notes.append(f"{recording.kernel}: the trials are unverified: no output was compared with a reference")
        if trials.peculiar:
            notes.append(f"{recording.kernel}: the trials were not tuned for time with warm caches: {trials.peculiar}")
        return Export(files, summary, (*notes, *more))


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
        f"To tune it, run `tune {shown(_kernel(problem.space))} {words}` on that device"
    ]


def _kernel(space: Space) -> str:
    """What a command calls a kernel: its name, or its file if no kernel is known by the name."""
    return space.name if catalog.known(space.name) else space.origin


def _summary(target: Target) -> dict[str, Any]:
    best, device = target.best, target.device
    names = {"device": device.name or None, "kind": device.kind, "architecture": device.architecture}
    return {**names, "match": best.match, "stale": best.stale, "config": best.config}


def write(path: Path, text: str) -> Path:
    """Write `text` to `path` and return `path`. Raises OSError."""
    paths.replace(path, text.encode())
    return path
