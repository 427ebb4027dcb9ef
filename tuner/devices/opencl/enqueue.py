"""Enqueues work through pyopencl, whose kernel objects store their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from tuner.devices import environment
from tuner.devices.work import Copy, Local, Passed, Run, Work, Zero
from tuner.errors import LaunchError
from tuner.space import dtypes

Action = Callable[[cl.CommandQueue], cl.Event]


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
            raise launch_error(f"launching {self._work.kernel}", error) from None

    def _set(self, positions: Iterable[int], values: Sequence[Any]) -> None:
        for position, value in zip(positions, values, strict=True):
            self._handles[position] = value
            for kernel, index, name in self._users[position]:
                try:
                    kernel.set_arg(index, plain(value))
                except cl.Error as error:
                    raise launch_error(f"argument {index + 1} of {name}", error) from None

    def _action(self, action: Run | Copy | Zero) -> Action:
        match action:
            case Run(function, arguments):
                kernel = cl.Kernel(function.handle, function.kernel)
                if kernel.num_args != len(arguments):
                    raise LaunchError(
                        f"{function.kernel} takes {kernel.num_args} arguments, but its space declares "
                        f"{len(arguments)}; declare all of them, in the kernel's order"
                    )
                self._check_local(kernel, function.kernel, arguments)
                for index, position in enumerate(arguments):
                    self._users[position].append((kernel, index, function.kernel))
                grid, block = function.geometry.grid, function.geometry.block
                total = tuple(blocks * threads for blocks, threads in zip(grid, block, strict=True))
                return lambda queue: cl.enqueue_nd_range_kernel(queue, kernel, total, block)
            case Copy(target, source, nbytes):
                return lambda queue: cl.enqueue_copy(queue, target, self._handles[source], byte_count=nbytes)
            case Zero(target, nbytes):
                zero = np.array(0, np.uint8)
                return lambda queue: cl.enqueue_fill_buffer(queue, target, zero, 0, nbytes)

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
