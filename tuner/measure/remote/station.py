"""The station: the process on a machine of a cluster that holds one of its devices for a search that runs elsewhere.

It builds and measures what it is asked to, with a compile pool and a supervisor of its own, as a search on its machine
would. Requests and replies are lines of JSON on its standard input and output. Several may be in progress at a time.
The station ends when its input does, and with it all that it has started.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, BinaryIO

from tuner import devices
from tuner.errors import TunerError
from tuner.measure import turns
from tuner.measure.method import Method
from tuner.measure.process import replies, scratch
from tuner.measure.process.attempts import with_retries
from tuner.measure.process.compile_pool import CompilePool
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.process.task import Task
from tuner.space import launch_form, snapshot
from tuner.version import VERSION

AT_ONCE = 64  # requests in progress; each of them but one waits for a build
MOST_LOGGED = 1000  # messages that one reply carries
END_SECONDS = 10.0  # to stop all processes at the end


class Station:
    """Answers the requests about one device. Any thread may call `answer`."""

    def __init__(self) -> None:
        self._supervisor: Supervisor | None = None
        self._pool: CompilePool | None = None
        self._products = scratch.file()
        self._files: dict[str, BinaryIO] = {}  # large files of the space, by their digests
        self._measuring = threading.Lock()
        self._notes: list[str] = []  # since the last reply
        self._logged: list[tuple[int, str]] = []  # level and text of messages, since the last reply

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request, or the reply that reports its error."""
        handle: Callable[[dict[str, Any]], dict[str, Any]] = getattr(self, f"_{request['op']}")
        reply = replies.attempt(lambda: handle(request))
        notes, self._notes = self._notes, []
        logged, self._logged = self._logged, []
        return {**reply, "notes": notes, "logged": logged}

    def close(self) -> None:
        """Stop all processes, even in the middle of a request."""
        if self._supervisor is not None:
            self._supervisor.kill()
        if self._pool is not None:
            self._pool.close()
        if self._supervisor is not None:
            self._supervisor.close()

    def _about(self, request: dict[str, Any]) -> dict[str, Any]:
        """This machine, this version, and the devices of the first of the kinds asked for that are here.

        From now on messages of at least the level asked for are collected.
        """
        logger = logging.getLogger("tuner")
        logger.setLevel(request["level"])
        logger.addHandler(_Collected(self._logged_one))
        found = next((kind for kind in request["kinds"] if devices.count(kind)), None)
        names = [] if found is None else [f"{found}:{number}" for number in range(devices.count(found))]
        return {"version": VERSION, "machine": turns.machine(), "devices": names}

    def _file(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write a piece of a file; the reply has the place from which it can be read."""
        file = self._files.get(request["digest"])
        if file is None:
            file = self._files[request["digest"]] = _file()
        file.seek(request["at"])
        piece = base64.b64decode(request["piece"])
        while piece:
            piece = piece[file.write(piece) :]
        return {"place": f"/proc/{os.getpid()}/fd/{file.fileno()}"}

    def _task(self, request: dict[str, Any]) -> dict[str, Any]:
        """Turn to a task: open the device at the first one. The reply describes the device."""
        data, device = request["task"], request["device"]
        with self._measuring:
            if self._supervisor is not None:
                self._supervisor.settle()
            snapshot.adopt(data["files"])
            method = Method.from_json(data["method"])
            space = launch_form.from_json(data["space"])
            task = Task(space, data["sizes"], data["options"], method, request["timeout"], data["types"])
            if self._supervisor is None:
                self._supervisor = Supervisor(task, device, self._products)
            supervisor = self._supervisor
            self._products.truncate(0)
            if self._pool is None:
                modules = devices.compiler_modules(device, space)
                self._pool = with_retries(
                    lambda: CompilePool(task.timeout, [device], modules, request["sharers"]), self._note
                )
            with_retries(lambda: supervisor.switch_to(task), self._note)
            self._pool.switch_to(space, supervisor.scope, supervisor.device, supervisor.compiler)
        info = supervisor.device
        return {
            "device": asdict(info),
            "compiler": supervisor.compiler,
            "place": f"{turns.machine()} {info.place or info.id}",
            "depth": self._pool.depth,
            "headers": devices.BACKENDS[info.kind].surrounding(space),
        }

    def _ready(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compute inputs and answers, unless they are there."""
        supervisor = self._supervisor
        assert supervisor is not None
        with_retries(supervisor.get_ready, self._note)
        return {"missed_cases": supervisor.missed_cases, "method_notes": supervisor.notes}

    def _build(self, request: dict[str, Any]) -> dict[str, Any]:
        """Build a configuration, before others that are likely to be asked for."""
        assert self._pool is not None
        self._pool.prepare(request["config"], request["likely"])
        self._pool.wait(request["config"])
        return {}

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Relay a request to the worker. The reply has what it found wrong, even if it then died."""
        assert self._supervisor is not None
        found: list[tuple[int, str]] = []
        asked, supervisor = request["request"], self._supervisor
        configs = [*asked.get("finals", ()), *asked.get("verify", ())]
        with self._measuring:
            self._build_all(configs)

            def relayed() -> dict[str, Any]:
                is_final = request["is_final"]
                return supervisor.relay(asked, request["seconds"], is_final, lambda *wrong: found.append(wrong))

            return {"answer": replies.attempt(relayed), "found": found}

    def _build_all(self, configs: list[Any]) -> None:
        """Build configurations at the same time, which other machines may have measured. The worker reports faults."""
        pool = self._pool
        assert pool is not None

        def build(config: Any) -> None:
            with contextlib.suppress(TunerError):
                pool.wait(config)

        if configs:
            with ThreadPoolExecutor(min(len(configs), AT_ONCE)) as builders:
                list(builders.map(build, configs))

    def _note(self, text: str) -> None:
        self._notes.append(text)

    def _logged_one(self, level: int, text: str) -> None:
        if len(self._logged) < MOST_LOGGED:
            self._logged.append((level, text))


class _Collected(logging.Handler):
    """Collects what is logged, for the reply that is sent next."""

    def __init__(self, add: Callable[[int, str], None]) -> None:
        super().__init__()
        self._add = add

    def emit(self, record: logging.LogRecord) -> None:
        self._add(record.levelno, record.getMessage())


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no reply
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    station, writing = Station(), threading.Lock()

    def answer(number: int, request: dict[str, Any]) -> None:
        line = json.dumps({**station.answer(request), "number": number}).encode() + b"\n"
        with writing, contextlib.suppress(OSError):  # whoever asked is gone
            answers.write(line)
            answers.flush()

    threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="request")
    for request in _read(requests):
        threads.submit(answer, request.pop("number"), request)
    ending = threading.Thread(target=station.close, daemon=True)
    ending.start()
    ending.join(END_SECONDS)
    os._exit(0)  # whatever threads still wait for; reapers end what is left


def _file() -> BinaryIO:
    return tempfile.TemporaryFile(prefix="tuner-", buffering=0)


def _read(requests: BinaryIO) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(OSError, ValueError):
        for line in requests:
            yield json.loads(line)


if __name__ == "__main__":
    main()
