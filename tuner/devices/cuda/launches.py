"""Launches kernels by ctypes, and holds the memory from which the driver reads the arguments."""

from __future__ import annotations

import ctypes
import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tuner.devices.cuda.driver.context import library
from tuner.devices.cuda.driver.launch_config import LaunchConfig, configured
from tuner.devices.cuda.driver.modules import LoadedKernel
from tuner.devices.work import Action, Copy, Encoded, Function, Move, Passed, Run, Series, While, Work, Zero
from tuner.errors import LaunchError

_ENCODED, _ENCODED_ALIGNMENT = 3, 64  # result of `_kind`; bytes
MOST_ENCODED = 1024  # contents of encoded arguments that a launch keeps


class Launch:
    """A work, with the memory from which the driver reads its arguments.

    `cells[changing]` are the addresses of the caller's arrays, `cells[scalars]` the `words` of the scalars. `stream`
    holds the handle of the stream; `to` sets it. Threads may share a launch only if none of them sets the cells or the
    stream.
    """

    def __init__(self, work: Work, stream: int = 0) -> None:
        self.work, arguments = work, work.arguments
        # An argument takes one cell of 8 bytes, or two cells for a complex number of 16 bytes. The caller's arrays are
        # adjacent, and so are the scalars, so that one slice assignment sets all of a kind.
        kinds = [_kind(argument) for argument in arguments]
        order = sorted((p for p, kind in enumerate(kinds) if kind < _ENCODED), key=lambda position: kinds[position])
        contents = [words(arguments[position]) for position in order]
        ends = list(itertools.accumulate(map(len, contents), initial=0))
        arrays, scalars = ends[kinds.count(0)], ends[kinds.count(0) + kinds.count(1)]
        self.changing, self.scalars = slice(arrays), slice(arrays, scalars)
        self.cells = (ctypes.c_uint64 * ends[-1])(*itertools.chain.from_iterable(contents))
        self._addresses = {p: ctypes.addressof(self.cells) + 8 * first for first, p in zip(ends, order, strict=False)}
        self._memory: list[ctypes.Array[ctypes.c_char]] = []
        self._encoded = [(arguments[p], self._block(p)) for p, kind in enumerate(kinds) if kind == _ENCODED]
        self._contents: dict[tuple[int, int], bytes] = {}  # of the encoded arguments, by number and address
        self.stream, self._configs = ctypes.c_void_p(stream), list[LaunchConfig]()
        enqueues = [self._action(action) for action in work.actions]
        self.enqueue = enqueues[0] if len(enqueues) == 1 else functools.partial(_enqueue_all, enqueues)

    def encode(self, addresses: Sequence[int]) -> None:
        """Write the encoded arguments, such as tensor maps, of the arrays at these addresses. A program that calls one
        kernel with the weights of many layers has each of them encoded once."""
        for number, (argument, block) in enumerate(self._encoded):
            key = number, addresses[argument.position]
            content = self._contents.get(key)
            if content is None:
                if len(self._contents) >= MOST_ENCODED:
                    self._contents.clear()
                content = self._contents[key] = argument.encode(key[1])
            ctypes.memmove(block, content, argument.nbytes)

    def to(self, stream: int) -> None:
        """Enqueue on this stream from now on; `stream` is its handle."""
        self.stream.value = stream
        for config in self._configs:
            config.stream = stream

    def _block(self, position: int) -> int:
        """The address of new memory for an encoded argument, aligned to 64 bytes as tensor maps require."""
        memory = (ctypes.c_char * (self.work.arguments[position].nbytes + _ENCODED_ALIGNMENT))()
        self._memory.append(memory)
        address = ctypes.addressof(memory)
        self._addresses[position] = address = address + -address % _ENCODED_ALIGNMENT
        return address

    def _action(self, action: Action) -> Callable[[], int]:
        """A call that enqueues one action and returns the driver's status."""
        cuda = library()
        match action:
            case Run(Function(LoadedKernel())):
                return self._run(action)[0]
            case Run(function, positions):
                call: Callable[[], int] = function.handle.routine([self._addresses[p] for p in positions], self.stream)
                return call
            case Series():
                return self._series(action)
            case While():
                return self._while(action)
            case Move(to, source, nbytes):
                cells = (ctypes.c_uint64.from_address(self._addresses[position]) for position in (to, source))
                return functools.partial(cuda.cuMemcpyDtoDAsync_v2, *cells, ctypes.c_size_t(nbytes), self.stream)
            case Copy(target, source, nbytes):
                cell = ctypes.c_uint64.from_address(self._addresses[source])  # a view of `cells`, which never move
                size = ctypes.c_size_t(nbytes)
                return functools.partial(
                    cuda.cuMemcpyDtoDAsync_v2, ctypes.c_uint64(int(target)), cell, size, self.stream
                )
            case Zero(target, nbytes):
                size = ctypes.c_size_t(nbytes)
                return functools.partial(cuda.cuMemsetD8Async, ctypes.c_uint64(int(target)), 0, size, self.stream)

    def _run(self, run: Run) -> tuple[Callable[[], int], LaunchConfig]:
        """A call that launches a kernel, and the configuration that it reads."""
        parameters = (ctypes.c_void_p * len(run.arguments))(*(self._addresses[p] for p in run.arguments))
        config = configured(run.function.geometry, self.stream.value or 0, run.function.handle.programmatic)
        self._configs.append(config)
        # With cuLaunchKernelEx's 4 arguments, ctypes takes half as long as with cuLaunchKernel's 11.
        call = functools.partial(
            library().cuLaunchKernelEx,
            ctypes.byref(config),
            ctypes.c_void_p.from_param(run.function.handle.handle.value),  # converted once
            ctypes.byref(parameters),
            None,
        )
        if run.pointers:
            address = self._addresses
            copies = [(address[each.struct] + each.offset, address[each.array]) for each in run.pointers]
            return functools.partial(_with_pointers, copies, call), config
        return call, config

    def _series(self, series: Series) -> Callable[[], int]:
        """A call that launches a series. All launches of a run share its cells and its configuration: the driver reads
        both before a launch returns."""
        runs, cells, first = [self._run(run) for run in series.runs], self.cells, ctypes.addressof(self.cells)
        launches: list[tuple[Callable[[], int], LaunchConfig, tuple[int, int, int], list[tuple[int, int]]]] = []
        for launch in series.launches:
            contents = [
                ((self._addresses[position] - first) // 8 + offset, word)
                for position, value in launch.scalars
                for offset, word in enumerate(words(value))
            ]
            launches.append((*runs[launch.run], launch.grid, contents))

        def enqueue() -> int:
            for number in series.order:
                call, config, grid, contents = launches[number]
                for cell, word in contents:
                    cells[cell] = word
                config.grid_x, config.grid_y, config.grid_z = grid
                if status := call():
                    return status
            return 0

        return enqueue

    def _while(self, action: While) -> Callable[[], int]:
        """A call that launches passes until they leave the flag 0, for which it waits after each. Raises LaunchError
        after too many passes, and if a graph captures the stream."""
        cuda, nbytes, capturing = library(), ctypes.c_size_t(action.nbytes), ctypes.c_int()
        value = (ctypes.c_char * action.nbytes)()
        passes = [self._series(series) for series in action.passes]
        moves = [self._action(move) for move in action.moves]
        flag = ctypes.c_uint64.from_address(self._addresses[action.flag])

        def start(number: int) -> bool:
            _succeed(cuda.cuMemsetD8Async(flag, 0, nbytes, self.stream))
            _succeed(passes[number]())
            _succeed(cuda.cuMemcpyDtoHAsync_v2(ctypes.byref(value), flag, nbytes, self.stream))
            _succeed(cuda.cuStreamSynchronize(self.stream))
            return any(value.raw)

        def enqueue() -> int:
            if status := cuda.cuStreamIsCapturing(self.stream, ctypes.byref(capturing)):
                return int(status)
            if capturing.value:
                raise LaunchError(
                    f"`while: {action.name}`: the host reads {action.name} after each pass, which a CUDA graph cannot "
                    "capture; launch it outside of the capture, or use `repeat:`"
                )
            try:
                action.run(start, lambda: _succeed(_enqueue_all(moves)))
            except _Status as failed:
                return failed.status
            return 0

        return enqueue


def _with_pointers(copies: Sequence[tuple[int, int]], call: Callable[[], int]) -> int:
    """Copy the addresses of arrays, each from its cell into a struct, and launch: the driver reads structs before a
    launch returns, so launches may share them."""
    for to, cell in copies:
        ctypes.memmove(to, cell, 8)
    return call()


class _Status(Exception):
    """A call of the driver failed within a `while`."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def _succeed(status: int) -> None:
    if status:
        raise _Status(status)


def _enqueue_all(enqueues: Sequence[Callable[[], int]]) -> int:
    """Enqueue the actions in order, up to the first that fails. Returns the last status."""
    for enqueue in enqueues:
        if status := enqueue():
            return status
    return 0


def _kind(argument: Any) -> int:
    """0 for one of the caller's arrays, 1 for a scalar, 2 for any other memory, _ENCODED for an encoded argument."""
    if isinstance(argument, Encoded):
        return _ENCODED
    return 0 if isinstance(argument, Passed) else 1 if isinstance(argument, np.generic) else 2


def words(argument: Any) -> list[int]:
    """The contents of an argument's cells: one, or two for a scalar of 16 bytes. 0 for one of the caller's arrays."""
    if isinstance(argument, Passed):
        return [0]
    if not isinstance(argument, np.generic):
        return [int(argument)]
    content = argument.tobytes()
    return [int.from_bytes(content[start : start + 8], sys.byteorder) for start in range(0, len(content), 8)]
