"""Loads a built instance on a device, and assembles the work of its launches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.devices.base import Buffer, Device
from tuner.devices.work import Action, Copy, Encoded, Function, Local, Passed, Pointer, Run, Work, Zero, scheduled
from tuner.errors import GeometryError, LaunchError, OutOfMemory, SpaceError
from tuner.space import operation

if TYPE_CHECKING:
    from tuner.devices.built import Built
    from tuner.space.argument import Argument
    from tuner.space.sources.source import Source, StepSource

_NULL = ""  # the name, which no argument has, of a null pointer
Allocate = Callable[["Argument", int], Buffer]


def allocated(device: Device, argument: Argument, nbytes: int, guard: int) -> Buffer:
    """Allocate scratch memory of a launch. Its size depends on the configuration, so LaunchError is raised, not
    OutOfMemory, if it does not fit."""
    try:
        if nbytes > device.memory:
            raise OutOfMemory(f"{device.id}: {nbytes} bytes do not fit; try a smaller size")
        return device.allocate(nbytes, guard)
    except OutOfMemory as error:
        raise LaunchError(f"allocating {argument.name}: {error}", "out of memory") from None


class Program:
    """An instance loaded on a device.

    `scope` includes the configuration. `shapes` are the shapes of the caller's arrays, by name. If `owns_memory`, each
    work has its own scratch memory and global variables, which its launches write to.
    """

    def __init__(self, device: Device, built: Built) -> None:
        """Raises LaunchError if a build cannot be loaded, or GeometryError if a shape cannot be evaluated."""
        self.device, self._built = device, built
        self.space = space = built.instance.space
        try:
            self.scope, self.shapes = built.instance.scope, built.instance.shapes
            for argument in space.operation.arguments:
                if argument.shape is not None:
                    operation.nbytes(argument, self.scope)
        except SpaceError as error:
            raise GeometryError(str(error)) from None
        constants = operation.constants(space.operation, self.scope)
        self._constants = {name: device.upload(data) for name, data in constants.items()}
        kinds = [a.kind for a in space.operation.arguments if a.kind is not None]
        has_symbols = any(not kind.is_taken(self.scope) for kind in kinds)
        # Concurrent launches must not share memory that they write to, so each needs its own work.
        self.owns_memory = has_symbols or bool(space.operation.scratch)
        self._loaded = None if has_symbols else self._load()  # with symbols, each work loads its own global variables

    def work(
        self,
        allocate: Allocate | None = None,
        scalars: Sequence[Any] | None = None,
        constants: Mapping[str, Buffer] = MappingProxyType({}),
    ) -> Work:
        """The work of a launch, with its own scratch memory.

        `allocate(argument, nbytes)` provides the memory of each scratch argument. `scalars` and `constants` replace the
        program's own. Raises LaunchError if memory does not suffice, GeometryError if the configuration makes a scalar
        too large for its type.
        """
        assembly = _Assembly(self, self._loaded or self._load(), allocate or self._allocate, constants)
        return assembly.work(self._scalars() if scalars is None else scalars)

    def bind(self, work: Work, handles: Sequence[Any], stream: Any, keep: object) -> Callable[[], None]:
        """Like `Device.bind`, but the returned function is thread-safe for any work.

        A launch with several actions is enqueued as a whole: threads wait for each other, and a call from a signal
        handler that interrupts a call is enqueued after it. If a launch did not complete, the next one first zeroes the
        scratch memory that is zeroed once.
        """
        call = self.device.bind(work, handles, stream, keep)
        if not self.owns_memory and len(work.actions) == 1 and isinstance(work.actions[0], Run):
            return call
        zeros = tuple(Zero(buffer.handle, buffer.nbytes) for buffer, zeroed in work.scratch if zeroed == "once")
        # On the same stream: actions that a failed launch has enqueued may still write.
        rezero = self.device.bind(Work((), zeros), (), stream, work) if zeros else None
        lock, is_dirty, is_running, deferred = threading.RLock(), False, False, 0

        def call_exclusively() -> None:
            nonlocal is_dirty, is_running, deferred
            while True:
                with lock:
                    if is_running:  # in this thread: a signal handler interrupted the call
                        deferred += 1  # the interrupted call runs this one when it is done
                        return
                    is_running = True
                    try:
                        if is_dirty and rezero is not None:
                            rezero()
                        is_dirty = True
                        call()
                        is_dirty = False
                    finally:
                        is_running = False
                if not deferred:
                    return
                deferred -= 1

        return call_exclusively

    def _scalars(self) -> Sequence[Any]:
        op = self.space.operation
        try:
            return operation.scalars(op, self.scope)
        except SpaceError as error:
            chosen = {*self.space.parameters, *self.space.derived}
            if not any(value.names & chosen for scalar in op.numbers for value in scalar.value):
                raise  # no configuration influences it, so the size is at fault
            raise GeometryError(str(error)) from None

    def _load(self) -> dict[Source, Any]:
        return {source: self.device.load(build, source) for source, build in self._built.builds.items()}

    def _allocate(self, argument: Argument, nbytes: int) -> Buffer:
        buffer = allocated(self.device, argument, nbytes, guard=0)
        if argument.zeroed == "once":
            self.device.zero(buffer)
        return buffer


class _Assembly:
    """Collects the arguments and actions of one work. Argument kinds call its public methods."""

    def __init__(
        self, program: Program, loaded: Mapping[Source, Any], allocate: Allocate, constants: Mapping[str, Buffer]
    ) -> None:
        self.device, self.instance = program.device, program._built.instance
        self._built, self._loaded = program._built, loaded
        self._positions = {a.name: position for position, a in enumerate(program.space.operation.arrays)}
        self._arguments: list[Any] = [Passed(position) for position in self._positions.values()]
        self._parameters = dict(self._positions)  # the position of each argument, by name
        self._before: list[Copy | Zero] = []
        self._keep = program, loaded
        self._scratch: list[tuple[Buffer, str]] = []
        self._functions: dict[StepSource, Function] = {}
        self._constants, self._allocate = {**program._constants, **constants}, allocate

    def work(self, scalars: Sequence[Any]) -> Work:
        rest = iter(scalars)
        for argument in self.instance.space.operation.arguments:
            if argument.kind is not None:
                parameter = argument.kind.add(argument, self)
                if parameter is None:
                    self._parameters.pop(argument.name, None)
                elif not isinstance(parameter, Passed):
                    self._add(argument.name, parameter)
            elif argument.role == "scratch":
                self._add(argument.name, self._scratch_of(argument).handle)
            elif argument.name in self._constants:
                self._add(argument.name, self._constants[argument.name].handle)
            elif argument.shape is None:
                self._add(argument.name, next(rest))
        actions = self._actions()  # may add null pointers to the arguments
        return Work(tuple(self._arguments), (*self._before, *actions), tuple(self._scratch), self._keep)

    def _actions(self) -> list[Action]:
        schedule, steps = self.instance.schedule, self._built.steps
        if schedule is None:
            return [self._run(step, {}) for step in steps]
        return scheduled(
            schedule.trial if self._built.is_trial else schedule,
            lambda number, arrays: self._run(steps[number], arrays),
            self._parameters,
            self.instance.nbytes,
        )

    def _run(self, step: StepSource, arrays: Mapping[str, str]) -> Run:
        """The run of a step, with the arrays that stand for others."""
        names = [arrays.get(name, name) for name in step.arguments if name in self._parameters]
        nulls = self._built.builds[step.source].pointers(step.kernel)
        positions = [*(self._parameters[name] for name in names), *(self._null() for _ in range(nulls))]
        pointers = [
            Pointer(self._parameters[name], offset, self._parameters[arrays.get(array, array)])
            for name in step.arguments
            for offset, array in self.instance.pointers(name)
        ]
        return Run(self._function(step), tuple(positions), tuple(pointers))

    def _null(self) -> int:
        """The position of a null pointer among the arguments."""
        if _NULL not in self._parameters:
            self._add(_NULL, 0)
        return self._parameters[_NULL]

    def _function(self, step: StepSource) -> Function:
        if step not in self._functions:
            function = self.device.function(self._loaded[step.source], step.kernel, step.geometry)
            is_self_timed = self.instance.space.returns_time
            self._functions[step] = self.device.self_timed(function) if is_self_timed else function
        return self._functions[step]

    def passed(self, name: str) -> Passed:
        return Passed(self._positions[name])

    def encoded(self, name: str, nbytes: int, encode: Callable[[Any], bytes]) -> Encoded:
        return Encoded(self._positions[name], nbytes, encode)

    def local(self, nbytes: int) -> Local:
        return Local(nbytes)

    def copy_to_symbol(self, symbol: str, name: str) -> None:
        nbytes = self.instance.nbytes(name)
        variables = [variable for loaded in self._loaded.values() if (variable := self.device.symbol(loaded, symbol))]
        if not variables:
            raise LaunchError(f"{symbol}: no source declares a variable of this name")
        for target, most in variables:
            if nbytes > most:
                raise LaunchError(
                    f"{symbol}: needs {nbytes} bytes, but the source declares {most}; declare the variable as large as "
                    "the largest configuration needs"
                )
            self._before.append(Copy(target, self._positions[name], nbytes))

    def _scratch_of(self, argument: Argument) -> Buffer:
        buffer = self._allocate(argument, self.instance.nbytes(argument.name))
        self._scratch.append((buffer, argument.zeroed))
        if argument.zeroed == "each":
            self._before.append(Zero(buffer.handle, buffer.nbytes))
        return buffer

    def _add(self, name: str, parameter: Any) -> None:
        self._parameters[name] = len(self._arguments)
        self._arguments.append(parameter)
