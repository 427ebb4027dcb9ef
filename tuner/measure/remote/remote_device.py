"""A device of another machine, which a station there holds for one task after another."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tuner.devices import DeviceInfo
from tuner.errors import DeviceError
from tuner.measure.process import channel
from tuner.measure.process.task import Task
from tuner.space.config import Config
from tuner.space.scope import Scope

logger = logging.getLogger(__name__)
PIECE = 4 << 20  # bytes of a large file in one request


class Lost(Exception):
    """The station, its machine or the way to it is gone. `str()` says which, for a message."""


class Line(Protocol):
    """The way to one station. Any thread may call its methods."""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request. Raises Lost."""

    def close(self) -> None:
        """End the station, if it is there."""


class RemoteDevice:
    """A device of a station, on one task at a time. Any thread may call `build` and `ask`.

    machine: the machine's name, for messages; name: the same with the device.
    turn: held by the thread that measures.
    info, scope, compiler, headers, place, depth: what the station says of the device and of the task. `place`
    identifies the device across all stations, `headers` the user's headers on its machine, and `depth` is how many
    configurations it builds at the same time.
    loss: why the station is gone; None if it is there.
    """

    info: DeviceInfo
    scope: Scope
    compiler: str | None
    headers: str
    place: str
    depth: int

    def __init__(self, line: Line, machine: str, device_id: str, sharers: int, noted: Callable[[str], None]) -> None:
        """`sharers` is how many stations share the machine's cores; `noted` is called with messages for the user."""
        self.machine, self.name = machine, f"{device_id} of {machine}"
        self.turn = threading.Lock()
        self.loss: str | None = None
        self._line, self._device_id, self._sharers, self._noted = line, device_id, sharers, noted
        self._preparing = threading.Lock()
        self._task: Task | None = None
        self._ready: dict[str, Any] | None = None
        self._places: dict[str, str] = {}  # of large files on the station's machine, by their digests

    @property
    def is_lost(self) -> bool:
        """Whether the station is gone."""
        return self.loss is not None

    def is_on(self, task: Task) -> bool:
        """Whether `task` is the latest that it was given."""
        return self._task is task

    def check(self) -> None:
        """Raise DeviceError if the station is lost."""
        if self.loss is not None:
            raise DeviceError(self.loss)

    def switch_to(self, task: Task) -> None:
        """Give the station another task.

        Raises DeviceError if its device cannot be used or the station is lost, and whatever its supervisor raises.
        """
        with self._preparing:
            if self._task is task:
                return
            data = task.to_json()
            data["files"] = data["files"] and {path: self._carried(file) for path, file in data["files"].items()}
            asked = {"task": data, "device": self._device_id, "timeout": task.timeout, "sharers": self._sharers}
            self._task = self._ready = None  # until the station has the new one
            reply = self._request("task", **asked)
            self.info, self.compiler = DeviceInfo.from_json(reply["device"]), reply["compiler"]
            self.place, self.depth, self.headers = reply["place"], reply["depth"], reply["headers"]
            operation, language, limits = task.space.operation, self.info.language, self.info.limits
            self.scope = operation.scope(task.sizes, task.options, language, limits, task.types)
            self._task = task

    def get_ready(self) -> tuple[list[str], list[str]]:
        """Have the station compute inputs and answers; returns the warnings about missed cases, and notes on the
        method. Raises as `switch_to` does."""
        with self._preparing:
            if self._ready is None:
                self._ready = self._request("ready")
            return self._ready["missed_cases"], self._ready["method_notes"]

    def build(self, config: Config, likely: Sequence[Config] = ()) -> None:
        """Build a configuration, and then those that are likely to be asked for. Raises as `CompilePool.wait`, and
        DeviceError if the station is lost."""
        self._request("build", config=config, likely=list(likely))

    def ask(
        self, request: dict[str, Any], seconds: float, is_final: bool, found_wrong: Callable[[int, str], None]
    ) -> dict[str, Any]:
        """The worker's reply to a request, as from `Supervisor.relay`. Raises DeviceError if the station is lost."""
        reply = self._request("ask", request=request, seconds=seconds, is_final=is_final)
        for position, failure in reply["found"]:
            found_wrong(position, failure)
        answer: dict[str, Any] = reply["answer"]
        channel.check(answer)
        return answer

    def close(self) -> None:
        """End the station."""
        self._line.close()

    def _request(self, op: str, **what: Any) -> dict[str, Any]:
        self.check()
        try:
            reply = self._line.ask({"op": op, **what})
        except Lost as lost:
            self.loss = self.loss or f"{self.name} is lost: {lost}"
            raise DeviceError(self.loss) from None
        for note in reply.pop("notes", ()):
            self._noted(f"{self.name}: {note}")
        for level, text in reply.pop("logged", ()):
            logger.log(level, "%s: %s", self.name, text)
        try:
            channel.check(reply)
        except DeviceError as error:
            raise type(error)(f"{self.name}: {error}") from None
        return reply

    def _carried(self, file: dict[str, Any] | None) -> dict[str, Any] | None:
        """A file of a snapshot as JSON for the station. What is large is sent in pieces first."""
        if file is None or file["copy"] is None:
            return file
        digest = file["digest"]
        if digest not in self._places:
            with open(file["copy"], "rb") as copy:
                place, at = "", 0
                while piece := copy.read(PIECE):
                    text = base64.b64encode(piece).decode()
                    place = self._request("file", digest=digest, at=at, piece=text)["place"]
                    at += len(piece)
            self._places[digest] = place
        return {**file, "copy": self._places[digest]} if self._places[digest] else {**file, "copy": None, "data": ""}
