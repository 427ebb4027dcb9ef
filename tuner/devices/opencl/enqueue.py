"""Enqueues work through pyopencl, whose kernel objects store their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from tuner.devices import environment
from tuner.devices import work as works
from tuner.devices.work import Copy, Local, Move, Passed, Run, Series, While, Work, Zero
from tuner.errors import LaunchError
from tuner.space import dtypes

Action = Callable[[cl.CommandQueue], cl.Event]
FLUSH = 256  # launches of a series after which the device may start


class Enqueue:
    """Enqueues a work on a queue. Threads must not share it, because its kernel objects store the arguments."""

    def __init__(self, work: Work, note: Callable[[cl.Event], None]) -> None:
        """`note` is called with the event of each action. Raises LaunchError if a kernel rejects an argument."""
        self._work, self._note = work, note
        self._passed, self._scalars = work.positions(Passed), work.scalars
        # For each argument: the kernels that take it, with its index among their arguments, and their names.
        self._users: list[list[tuple[cl.Kernel, int, str]]] = [[] for _ in work.arguments]
        self._handles: list[Any] = list(work.arguments)
        self._actions = [self._action(action) for action in work.actions]
        fixed = [position for position, argument in enumerate(work.arguments) if not isinstance(argument, Passed)]
        self._set(fixed, [work.arguments[position] for position in fixed])

    def set_arrays(self, handles: Sequence[Any]) -> None:
        """Use these arrays from the next call on. Raises LaunchError."""
        self._set(self._passed, handles)

    def set_scalars(self, scalars: Sequence[Any]) -> None:
        """Use these scalars from the next call on. Raises LaunchError."""
        self._set(self._scalars, scalars)

    def __call__(self, queue: cl.CommandQueue) -> None:
        """Enqueue all actions. Raises LaunchError."""
        try:
            for action in self._actions:
                self._note(action(queue))
            queue.flush()
        except cl.Error as error:
            if error.code == cl.status_code.OUT_OF_RESOURCES:  # a group needs too many registers, or too much memory
                raise LaunchError(f"launching {self._work.kernel}: {error}", "too many resources") from None
            raise launch_error(f"launching {self._work.kernel}", error) from None

    def _set(self, positions: Iterable[int], values: Sequence[Any]) -> None:
        for position, value in zip(positions, values, strict=True):
            self._handles[position] = value
            for kernel, index, name in self._users[position]:
                try:
                    kernel.set_arg(index, plain(value))
                except cl.Error as error:
                    raise launch_error(f"argument {index + 1} of {name}", error) from None

    def _action(self, action: works.Action) -> Action:
        match action:
            case Run(function):
                kernel, block = self._kernel(action), function.geometry.block
                total = _total(function.geometry.grid, block)
                return lambda queue: cl.enqueue_nd_range_kernel(queue, kernel, total, block)
            case Series():
                return self._series(action)
            case While():
                return self._while(action)
            case Move(to, source, nbytes):
                return lambda queue: cl.enqueue_copy(queue, self._handles[to], self._handles[source], byte_count=nbytes)
            case Copy(target, source, nbytes):
                return lambda queue: cl.enqueue_copy(queue, target, self._handles[source], byte_count=nbytes)
            case Zero(target, nbytes):
                zero = np.array(0, np.uint8)
                return lambda queue: cl.enqueue_fill_buffer(queue, target, zero, 0, nbytes)

    def _kernel(self, run: Run) -> cl.Kernel:
        """A kernel object of its own for a run, which stores the run's arguments."""
        function, arguments = run.function, run.arguments
        kernel = cl.Kernel(function.handle, function.kernel)
        if kernel.num_args != len(arguments):
            raise LaunchError(
                f"{function.kernel} takes {kernel.num_args} arguments, but its space declares "
                f"{len(arguments)}; declare all of them, in the kernel's order"
            )
        self._check_local(kernel, function.kernel, arguments)
        for index, position in enumerate(arguments):
            self._users[position].append((kernel, index, function.kernel))
        return kernel

    def _series(self, series: Series) -> Action:
        kernels = [(self._kernel(run), run.function.geometry.block) for run in series.runs]
        grids, changes = [launch.grid for launch in series.launches], series.changes(plain)

        def enqueue(queue: cl.CommandQueue) -> cl.Event:
            for count, number in enumerate(series.order):
                run, values = changes[number]
                kernel, block = kernels[run]
                for index, value in values:
                    kernel.set_arg(index, value)
                event = cl.enqueue_nd_range_kernel(queue, kernel, _total(grids[number], block), block)
                if count == 0:
                    self._note(event)  # a timer needs the first event and the last
                if count % FLUSH == FLUSH - 1:
                    queue.flush()
            return event

        return enqueue

    def _while(self, action: While) -> Action:
        passes = [self._series(series) for series in action.passes]
        moves = [self._action(move) for move in action.moves]
        zero, flag = np.array(0, np.uint8), np.empty(action.nbytes, np.uint8)

        def enqueue(queue: cl.CommandQueue) -> cl.Event:
            last: list[cl.Event] = []

            def start(number: int) -> bool:
                first = cl.enqueue_fill_buffer(queue, self._handles[action.flag], zero, 0, flag.nbytes)
                if not last:
                    self._note(first)
                passes[number](queue)
                last.append(cl.enqueue_copy(queue, flag, self._handles[action.flag]))  # waits
                return bool(flag.any())

            action.run(start, lambda: last.extend(move(queue) for move in moves))
            return last[-1]

        return enqueue

    def _check_local(self, kernel: cl.Kernel, name: str, arguments: Iterable[int]) -> None:
        """Raise LaunchError if a work-group needs more local memory than the device has; some drivers would abort."""
        passed = [self._work.arguments[position] for position in arguments]
        needed = sum(argument.nbytes for argument in passed if isinstance(argument, Local))
        if not needed:
            return
        (device,) = kernel.context.devices
        needed += kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device)
        if needed > device.local_mem_size:
            raise LaunchError(
                f"loading {name}: {needed} bytes of local memory; the device has {device.local_mem_size}",
                "too many resources",
            )


def _total(grid: tuple[int, int, int], block: tuple[int, int, int]) -> tuple[int, ...]:
    """The work-items of a launch."""
    return tuple(blocks * threads for blocks, threads in zip(grid, block, strict=True))


def plain(argument: Any) -> Any:
    """Convert an argument to the form that pyopencl takes: a scalar of a type that OpenCL lacks to the integer of its
    bits, Local to pyopencl's LocalMemory; any other argument is unchanged."""
    if isinstance(argument, Local):
        return cl.LocalMemory(argument.nbytes)
    if not isinstance(argument, np.generic) or isinstance(argument, np.void):  # pyopencl copies the bytes of a struct
        return argument
    dtype = dtypes.of(argument.dtype)
    return argument.view(dtype.bits) if dtype.foreign or dtype.kind == "boolean" else argument


def launch_error(action: str, error: cl.Error) -> LaunchError:
    """The error for an error of pyopencl, with a failure reason if its code implies one."""
    reasons: dict[object, str] = {
        cl.status_code.OUT_OF_RESOURCES: "out of memory",
        cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE: "out of memory",
        cl.status_code.OUT_OF_HOST_MEMORY: environment.NO_MEMORY,
        cl.status_code.DEVICE_NOT_AVAILABLE: environment.OTHER,
    }
    return LaunchError(f"{action}: {error}", reasons.get(error.code))
