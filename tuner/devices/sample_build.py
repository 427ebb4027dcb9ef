"""Compiles the default configuration of a space for each kind of device, without launching it."""

from __future__ import annotations

import re
from dataclasses import replace

from tuner import devices
from tuner.classes import dataclass
from tuner.devices.builds import equal_code
from tuner.devices.builds.allowance import Allowance
from tuner.devices.builds.compiler import Compiler
from tuner.devices.builds.figures import NO_FIGURES, Figures
from tuner.devices.built import build
from tuner.errors import BuildError, DeviceError, LaunchError, NoConfiguration, RequestError, TrialError
from tuner.space.config import Config
from tuner.space.default import first_valid
from tuner.space.file.step_reader import CLUSTERS_FROM
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Limits, Scope
from tuner.space.sources import source_text
from tuner.space.texts import config_text

_CLUSTERS = re.compile(r"\b(__)?cluster_dims(__)?\b")  # with it, a source needs what clusters need
MOST_LINES = 10  # of a compiler's log in a message
MOST_SECONDS = 60  # for a build in a process of its own


@dataclass(frozen=True)
class Sample:
    """The result for one kind of device. If this machine cannot compile for it, `missing` says why, and nothing was
    built. `doubts` are messages about parameters whose values give the same code, or do not compile."""

    kind: str
    architecture: str = ""
    config: Config | None = None
    figures: Figures = NO_FIGURES
    missing: str = ""
    doubts: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.missing:
            return f"{self.kind}: not compiled: {self.missing}"
        values = {
            "registers": self.figures.registers,
            "bytes of spills": self.figures.spills,
            "bytes of shared memory": self.figures.shared_memory,
            "bytes of local memory": self.figures.local_memory,
        }
        figures = "".join(f", {value} {name}" for name, value in values.items() if value is not None)
        return f"{self.kind}: the default compiles for {self.architecture}{figures}"


def samples(space: Space, problem: Scope) -> list[Sample]:
    """A sample for each kind of device that compiles a language of the space, at the sizes and types of `problem`.

    Raises RequestError if the default does not compile, if no configuration is valid, or if this machine can compile
    for none of the kinds.
    """
    results = [_sample(space, problem, kind) for kind in devices.kinds_of(space)]
    if all(sample.missing for sample in results):
        raise RequestError("; ".join(map(str, results)))
    return results


def _sample(space: Space, problem: Scope, kind: str) -> Sample:
    try:
        compiler, instance = _valid(space, problem, kind)
        compiler.allowance = Allowance.shared(MOST_SECONDS)
        built = build(compiler, instance)
    except DeviceError as error:
        return Sample(kind, missing=str(error))
    except TrialError as error:
        log = "\n".join(str(error).strip().splitlines()[:MOST_LINES])
        what = "does not compile" if isinstance(error, BuildError) else "cannot be built"
        what = "cannot be launched" if isinstance(error, LaunchError) else what
        raise RequestError(f"{kind}: {config_text(instance.config)} {what}: {log}") from None
    doubts = tuple(equal_code.of_default(space, instance, compiler))
    return Sample(kind, compiler.architecture, instance.config, built.figures, doubts=doubts)


def _valid(space: Space, problem: Scope, kind: str) -> tuple[Compiler, Instance]:
    """The compiler of the first architecture on which a configuration is valid, and the first valid instance. Raises
    NoConfiguration if there is none, DeviceError if there is no compiler."""
    failure: NoConfiguration | None = None
    compilers = _compilers(kind)
    if any(_CLUSTERS.search(source_text.of(space, path)) for path in space.sources):
        compilers = [each for each in compilers if each[1].compute_capability >= CLUSTERS_FROM] or compilers
    for compiler, limits in compilers:
        scope = replace(problem, language=devices.BACKENDS[kind].language, limits=limits)
        try:
            return compiler, Instance(space, first_valid(space, scope), scope)
        except NoConfiguration as error:
            failure = failure or error
    raise failure or DeviceError("there is no compiler")


def _compilers(kind: str) -> list[tuple[Compiler, Limits]]:
    """The compiler and limits of the first device, else those of the common architectures. Raises DeviceError."""
    backend = devices.BACKENDS[kind]
    if devices.count(kind) or backend.compiler is None:
        device = devices.open_device(kind)
        return [(device.compiler, device.limits)]
    return [(backend.compiler(name), backend.limits_of(name)) for name in backend.common]
