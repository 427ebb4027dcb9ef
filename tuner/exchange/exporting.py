"""`tune export`: what a kernel's tuning has found, in the formats of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner import devices, paths
from tuner.errors import RequestError
from tuner.exchange import bundle, header, kernel_tuner_files, recording, standalone, t4, table, trials
from tuner.exchange import target as targets
from tuner.exchange.names import beside
from tuner.exchange.target import Problem, Target
from tuner.store.report import short_size


@dataclass(frozen=True)
class Request:
    """What to export. `architectures` are of a bundle, as `sm_80,sm_90a`; `storage` is the URL of a shared ledger."""

    problem: Problem
    device: str | None = None
    output: Path | None = None
    architectures: str | None = None
    storage: str | None = None

    def path(self, suffix: str) -> Path:
        """Where to write: `output`, or a name in this folder made of the kernel, the size and `suffix`."""
        stem = self.problem.space.name.rpartition("/")[2]
        return self.output or Path(f"{stem}-{short_size(dict(self.problem.sizes))}{suffix}")


@dataclass(frozen=True)
class Exported:
    """The files that were written, what to say of them in JSON, and warnings."""

    files: list[Path]
    about: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def export(to: str, request: Request) -> Exported:
    """Write the files of one of FORMATS. Raises RequestError where there is nothing to write, or it cannot be
    written."""
    if request.architectures is not None and to != "cubin":
        raise RequestError(f"--architecture is for --to cubin, not for --to {to}")
    if request.storage is not None and to not in ("kernel-tuner", "t4", "csv"):
        raise RequestError(f"--storage is for --to kernel-tuner, t4 and csv, which hold all trials, not for --to {to}")
    try:
        return FORMATS[to](request)
    except OSError as error:
        where = paths.shown(error.filename or request.path(""))
        raise RequestError(f"{where}: cannot be written: {error.strerror}; name another place by --output") from None


def _header(request: Request) -> Exported:
    problem, name = request.problem, request.device
    if name is None:
        found = targets.known(problem)
    elif name.partition(":")[0] in devices.KINDS:
        found = [targets.opened(devices.for_space(problem.space, name))]
    else:
        found = targets.named(problem, name)
    chosen = [targets.of(problem, device) for device in found]
    path = _write(request.path(".h"), header.text(problem, chosen))
    return Exported([path], {"devices": [_about(target) for target in chosen]}, _notes(chosen))


def _bundle(request: Request) -> Exported:
    chosen = bundle.chosen(request.problem, request.device, request.architectures)
    files = bundle.write(request.problem, chosen, request.path(""))
    return Exported(files, {"devices": [_about(target) for target in chosen]}, _notes(chosen))


def _source(request: Request) -> Exported:
    target = targets.one(request.problem, request.device)
    path = _write(request.path(standalone.SUFFIXES[target.scope.language]), standalone.text(target))
    return Exported([path], {"devices": [_about(target)]}, _notes([target]))


def _kernel_tuner(request: Request) -> Exported:
    found = _trials(request)
    path = request.path(".json")
    recording.write(path, kernel_tuner_files.cache(request.problem, found))
    best = kernel_tuner_files.results(request.problem, found)
    second = _write(beside(path, "results"), json.dumps(best, indent=1) + "\n")
    return Exported([path, second], _origin(found))


def _t4(request: Request) -> Exported:
    found = _trials(request)
    path = _write(request.path("-t4.json"), json.dumps(t4.results(found), indent=1) + "\n")
    second = _write(beside(path, "metadata"), json.dumps(t4.metadata(request.problem, found), indent=1) + "\n")
    return Exported([path, second], _origin(found))


def _csv(request: Request) -> Exported:
    found = _trials(request)
    return Exported([_write(request.path(".csv"), table.text(found))], _origin(found))


FORMATS: Mapping[str, Callable[[Request], Exported]] = {
    "header": _header,
    "cubin": _bundle,
    "cu": _source,
    "kernel-tuner": _kernel_tuner,
    "t4": _t4,
    "csv": _csv,
}


def _trials(request: Request) -> trials.Trials:
    return trials.gather(request.problem, request.device, request.storage)


def _origin(found: trials.Trials) -> dict[str, Any]:
    return {"device": found.recording.device, "trials": len(found.recording.entries), "from": found.origin}


def _about(target: Target) -> dict[str, Any]:
    found, device = target.found, target.device
    names = {"device": device.device or None, "kind": device.kind, "architecture": device.architecture}
    return {**names, "match": found.match, "stale": found.stale, "config": found.config}


def _notes(chosen: list[Target]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for target in chosen for note in target.found.notes))


def _write(path: Path, text: str) -> Path:
    paths.replace(path, text.encode())
    return path
