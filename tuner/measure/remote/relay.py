"""The relay: starts stations on a machine of a cluster, and passes requests and replies.

An engine, Dask or Ray, keeps it as an actor in a process of its own. When that process ends, so do the stations.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import Any

STATION = f"{__package__}.station"  # by its name: nothing of it runs in this process
ENDED = "ended"  # the key of a reply that the station did not send, because it has ended


class Relay:
    """The stations of one search in a process of a cluster."""

    def __init__(self) -> None:
        self._stations: list[_Pipe] = []

    async def are_you_there(self) -> None:
        """Answer, when the engine has started this actor."""

    async def start(self) -> int:
        """Start a station; returns its number."""
        self._stations.append(await asyncio.to_thread(_Pipe))
        return len(self._stations) - 1

    async def ask(self, number: int, request: str) -> str:
        """The reply of a station to a request, both in JSON; one with the key ENDED if the station has ended."""
        return await self._stations[number].ask(request)

    async def end(self, number: int) -> None:
        """End a station."""
        await asyncio.to_thread(self._stations[number].close)

    def __del__(self) -> None:
        for station in getattr(self, "_stations", ()):  # the class that Ray makes of this one is never initialised
            station.close()


class _Pipe:
    """A station's process, and the requests that it has not answered yet."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", STATION], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._asked: dict[int, Future[str]] = {}
        self._numbers, self._writing, self._has_ended = itertools.count(), threading.Lock(), False
        threading.Thread(target=self._read, daemon=True).start()

    async def ask(self, request: str) -> str:
        reply: Future[str] = Future()
        reply.set_running_or_notify_cancel()  # so that nobody can cancel it: its result must find it
        await asyncio.to_thread(self._write, request, reply)
        return await asyncio.wrap_future(reply)

    def _write(self, request: str, reply: Future[str]) -> None:
        with self._writing:
            if self._has_ended:
                reply.set_result(self._end())
                return
            number = next(self._numbers)
            self._asked[number] = reply
            assert self._process.stdin is not None
            with contextlib.suppress(OSError, ValueError):  # it has ended, which the other thread notices
                self._process.stdin.write(json.dumps({**json.loads(request), "number": number}).encode() + b"\n")
                self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            reply: dict[str, Any] = json.loads(line)
            self._asked.pop(reply.pop("number")).set_result(json.dumps(reply))
        self._process.wait()
        with self._writing:
            self._has_ended = True
            for each in self._asked.values():
                each.set_result(self._end())

    def _end(self) -> str:
        return json.dumps({ENDED: f"its process on that machine has ended with status {self._process.returncode}"})

    def close(self) -> None:
        """Let the station end, by the end of its requests."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.close()
