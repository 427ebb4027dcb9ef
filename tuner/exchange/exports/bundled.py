"""One build of a bundle: the first candidate of a target that compiles, with its files, arguments and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tuner import devices
from tuner.classes import dataclass
from tuner.devices.builds.build import Build
from tuner.devices.built import Built, build
from tuner.errors import RequestError, TrialError
from tuner.exchange.exports.names import identifier
from tuner.exchange.exports.target import Target
from tuner.quoting import shown
from tuner.space import operation
from tuner.space.argument import Argument, Exported
from tuner.space.chosen_types import dtype
from tuner.space.dtypes import DTYPES, DType
from tuner.space.instance import Instance
from tuner.space.schedule import Unrolled
from tuner.space.scope import Scope
from tuner.space.sources.source import Source, StepSource
from tuner.store.lookup import Candidate

NULL = Argument("no_scratch_memory", "uint64")  # a null pointer, which some compilers' kernels take


@dataclass(frozen=True)
class BundledArgument:
    """A kernel argument in one configuration.

    dtype: the element type; None if the argument has no elements, or is a struct.
    shape: the shape of an array; None if the argument has no device memory.
    value: the value of a scalar, struct or vector, or the contents of a constant array.
    exported: how the argument is passed, if it has a `kind` (tensor map, texture, constant).
    """

    argument: Argument
    dtype: DType | None
    shape: tuple[int, ...] | None
    value: Any
    exported: Exported | None

    @property
    def name(self) -> str:
        return self.argument.name

    @property
    def nbytes(self) -> int:
        """The bytes of device memory; 0 for a scalar."""
        return 0 if self.shape is None or self.dtype is None else int(np.prod(self.shape)) * self.dtype.itemsize


@dataclass(frozen=True)
class BundledBuild:
    """A configuration that compiles for a target."""

    target: Target
    candidate: Candidate
    built: Built

    @staticmethod
    def of(target: Target) -> BundledBuild:
        """The best configuration that compiles within the device's limits. Raises RequestError if none does."""
        space, device = target.problem.space, target.device
        compiler = devices.compiler_for(device.kind, device.architecture)
        first: TrialError | None = None
        for candidate in target.candidates:
            try:
                built = build(compiler, Instance(space, candidate.config, target.scope))
            except TrialError as error:
                first = first or error
            else:
                return BundledBuild(target, candidate, built)
        log = str(first).strip().splitlines()[0] if first and str(first).strip() else "no configuration"
        raise RequestError(f"{space.name}: nothing compiles for {device.architecture}: {log}")

    @property
    def scope(self) -> Scope:
        """The problem on the target's device."""
        return self.built.instance.scope

    @property
    def architecture(self) -> str:
        return self.target.device.architecture

    @property
    def steps(self) -> tuple[StepSource, ...]:
        return self.built.steps

    @property
    def schedule(self) -> Unrolled | None:
        """All launches in order; None if each step is launched once."""
        return self.built.instance.schedule

    @cached_property
    def files(self) -> Mapping[Source, str]:
        """The name of each source's cubin: the architecture, followed by the source's name if there are several."""
        suffix = devices.BACKENDS[self.target.device.kind].binaries
        if len(self.built.builds) == 1:
            return dict.fromkeys(self.built.builds, f"{self.architecture}{suffix}")
        space, names = self.target.problem.space, dict[Source, str]()
        paths: dict[Source, Path] = {
            rendered.source: step.source for rendered, step in zip(self.steps, space.steps, strict=True)
        }
        for source in self.built.builds:
            names[source] = identifier(f"{self.architecture} {paths[source].stem}", names.values())
        return {source: f"{name}{suffix}" for source, name in names.items()}

    def build(self, step: StepSource) -> Build:
        """The build of a step's source."""
        return self.built.builds[step.source]

    def entry(self, step: StepSource) -> str:
        """The name of a step's kernel in its cubin."""
        return self.build(step).entry(step.kernel)

    def taken(self, step: StepSource) -> tuple[str, ...]:
        """The arguments that a step's kernel takes as parameters, in its order."""
        symbols = {a.name for a in self.arguments if a.exported is not None and a.exported.symbol is not None}
        nulls = (NULL.name,) * self.build(step).pointers(step.kernel)
        return (*(name for name in step.arguments if name not in symbols), *nulls)

    def pointers(self, step: StepSource) -> list[tuple[str, int, str]]:
        """The pointers in the structs that a step takes: the struct, the offset in bytes, and the array."""
        instance = self.built.instance
        return [(name, offset, array) for name in step.arguments for offset, array in instance.pointers(name)]

    @cached_property
    def arguments(self) -> tuple[BundledArgument, ...]:
        """All arguments, in the operation's order. Raises RequestError for one that no bundle can hold."""
        op = self.target.problem.space.operation
        scalars = iter(operation.scalars(op, self.scope))
        constants = operation.constants(op, self.scope)
        arguments = []
        for a in op.arguments:
            is_scalar = a.shape is None and a.kind is None
            value = next(scalars) if is_scalar else constants.get(a.name)
            has_elements = a.shape is not None or (is_scalar and not a.fields)
            element = dtype(a, self.scope) if has_elements else None
            shape = None if a.shape is None else operation.shape(a, self.scope)
            arguments.append(BundledArgument(a, element, shape, value, self._exported(a)))
        if any(self.build(step).pointers(step.kernel) for step in self.steps):
            null = DTYPES[NULL.dtype]
            arguments.append(BundledArgument(NULL, null, None, null.scalar(0), None))
        return tuple(arguments)

    def alignment(self, argument: BundledArgument) -> int:
        """The number of bytes of which the array's address is a multiple, if a compiler was told so; 0 otherwise."""
        if argument.shape is None or self.target.problem.space.python_language is None:
            return 0
        own = self.built.instance.alignment_of(argument.name)
        return own if argument.dtype is not None and own > argument.dtype.itemsize else 0

    def _exported(self, argument: Argument) -> Exported | None:
        if argument.kind is None or argument.kind.is_plain(self.scope):
            return None
        exported = argument.kind.export(argument, self.built.instance)
        if exported is None:
            raise RequestError(
                f"{self.target.problem.space.name}: {argument.name}: a bundle cannot hold an argument of kind "
                f"{argument.kind.name}; use --to cu"
            )
        if exported.symbol is None:
            return exported
        builds = [build for build in self.built.builds.values() if build.has_variable(exported.symbol)]
        names = {build.variable(exported.symbol) for build in builds}
        if len(names) > 1:
            raise RequestError(
                f"{self.target.problem.space.name}: {argument.name}: its variable has several names in the binaries, "
                f"{shown(' and '.join(sorted(names)))}, but a bundle holds one; declare it outside of namespaces"
            )
        return replace(exported, symbol=names.pop()) if names else exported
