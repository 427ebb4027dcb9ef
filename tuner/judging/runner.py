"""The process of one candidate: it loads what the candidate's text was compiled to, and launches it when it is told to.

It has no answers and no clock that counts. On a processor, its arrays lie in memory that it shares with the judge, who
stops it whenever it is not asked to run. A GPU's arrays are copied to and from that memory here, as a kernel on a GPU
cannot reach it.
"""

from __future__ import annotations

import base64
import functools
import importlib
import pickle
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner import devices
from tuner.children.descriptors import out_of_reach
from tuner.children.fork_channel import read, write
from tuner.devices.program import Program
from tuner.errors import TunerError
from tuner.judging.isolation import Confinement
from tuner.judging.memory import GUARD, SharedMemory
from tuner.measure.images import Images
from tuner.measure.process import replies
from tuner.measure.timing.clock import MOST_ENQUEUED
from tuner.space import operation

if TYPE_CHECKING:
    from tuner.devices.base import Buffer, Device

GO, DONE, FAILED = b"g", b"d", b"f"
# What loading and launching import only when they need it, which is after the files are hidden.
LATER = (
    "numpy.ctypeslib", "numpy.ma", "tuner.devices.misfits", "tuner.space.loops", "tuner.space.schedule",
    "tuner.space.sources.prototype",
)  # fmt: skip
WAKE_MS = 50.0  # of work before a timed launch on a GPU, which lowers its clock when it has nothing to do
SPACER = 1 << 16  # bytes; memory of a GPU moves by a multiple of it from run to run


def main() -> None:
    """Serve the judge's requests until it is gone.

    The first one names device, memory and pipes. `load` brings a build, without which a launch does nothing; `bind`
    says where the arrays will be. Then the next byte of a pipe begins the launch, and a byte of another tells its end;
    `took` asks for the device's own time.
    """
    channel = replies.Channel()
    requests = iter(channel)
    with channel.reporting():
        task = next(requests)
        isolation = Confinement()
        if task["processor"]:
            isolation.apart()
        device = devices.open_apart(task["device"])
        memory = SharedMemory(task["size"], task["memory"])
        launches = _Launches(device, memory, out_of_reach(task["go"]), out_of_reach(task["done"]), task["processor"])
        if task["processor"]:
            for module in LATER:
                importlib.import_module(module)
            isolation.lowered(hides_files=device.runs_in_process)
            device.builds_folder = isolation.folder
        channel.reply({"isolation": isolation.got, "folder": isolation.made})
    for request in requests:
        channel.reply(replies.attempt(functools.partial(launches.answer, request)))
        if "bind" in request:
            launches.run(request["is_timed"])


class _Launches:
    """The launches of whatever is loaded."""

    def __init__(self, device: Device, memory: SharedMemory, go: int, done: int, in_place: bool) -> None:
        self._device, self._memory, self._go, self._done, self._in_place = device, memory, go, done, in_place
        self._program: Program | None = None
        self._buffers: dict[str, Buffer] = {}
        self._images: Images | None = None
        self._kept: list[Any] = []
        self._timer = device.timer()
        self._failure: Exception | None = None
        self.call: Callable[[], None] = lambda: None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request. Raises TrialError if the candidate does not load or bind."""
        if "load" in request:
            built = pickle.loads(base64.b64decode(request["load"]))  # noqa: S301  # from the judge, which made it
            self._program = None
            self._program = Program(self._device, built)
        if "bind" in request:
            self._bind(request["bind"], request["leading"], request["options"])
        if "took" in request:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            return {"ms": None if self._in_place or self._program is None else self._timer.milliseconds()}
        return {}

    def _bind(self, places: dict[str, tuple[int, int]], leading: dict[str, int], options: Mapping[str, float]) -> None:
        """Bind what is loaded to arrays at `places`, for a launch with these values of the options."""
        self._places = places
        if self._program is None:
            return
        if self._in_place:
            memory = self._memory.bytes
            self._buffers = {n: self._device.over(memory[start : start + size]) for n, (start, size) in places.items()}
        else:
            spacer = self._device.allocate((1 + secrets.randbelow(64)) * SPACER, guard=0)
            moved = {name: self._device.allocate(size, guard=GUARD) for name, (_, size) in places.items()}
            self._kept, self._buffers = [spacer, self._buffers], moved  # the old ones too: so the addresses differ
        op, scope = self._program.space.operation, self._program.scope
        is_own = not leading and all(scope.options.get(name) == value for name, value in options.items())
        self._work = self._program.work(
            scalars=None if is_own else operation.scalars(op, replace(scope, options=options), leading or None)
        )
        self._images = Images(self._program, self._buffers)
        self.call = self._device.bind_whole(self._work, self._images.handles, MOST_ENQUEUED)

    def run(self, is_timed: bool) -> None:
        """Launch once, from the judge's byte on."""
        read(self._go, len(GO))
        try:
            if self._program is None:
                self.call()
            elif self._in_place:
                self._run_in_place()
            else:
                self._run_on_gpu(is_timed)
        except TunerError as error:
            self._failure = error
            write(self._done, FAILED)
        else:
            write(self._done, DONE)

    def _run_in_place(self) -> None:
        if self._images:
            self._images.fill()
        self.call()
        if self._images:
            self._images.collect()
        self._device.synchronize()

    def _run_on_gpu(self, is_timed: bool) -> None:
        device = self._device
        for name, (start, size) in self._places.items():
            device.write(self._buffers[name].whole, self._memory.bytes[start - GUARD : start + size + GUARD])
        if self._images:
            self._images.fill()
        device.synchronize()
        if is_timed and device.asynchronous:
            device.occupy(WAKE_MS)
        self._timer.start()
        self.call()
        self._timer.stop()
        if self._images:
            self._images.collect()
        device.synchronize()
        for name, (start, size) in self._places.items():
            whole = np.empty(size + 2 * GUARD, np.uint8)
            device.read(self._buffers[name].whole, whole)
            self._memory.bytes[start - GUARD : start + size + GUARD] = whole
