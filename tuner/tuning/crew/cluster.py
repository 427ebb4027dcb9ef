"""A cluster of Dask: its workers, and the way to stations on their machines.

Dask carries requests and replies, and says which workers are there. Its storage for Optuna's studies is not used: the
ledger stays with the one search, so it needs no server and outlasts the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import logging
import math
import re
import socket
import threading
import time
import urllib.parse
import warnings
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from tuner.errors import OptionError
from tuner.measure.remote import relay
from tuner.measure.remote.relay import ENDED
from tuner.measure.remote.remote_device import Lost
from tuner.quoting import quoted, shown
from tuner.version import DISTRIBUTION, VERSION

PORT = 8786  # of a scheduler, unless an address has another one
CONNECT_SECONDS = 10.0  # for the scheduler to answer
START_SECONDS = 60.0  # for a worker to start a station: it may have other work
POLL_SECONDS = 1.0  # between two looks at the list of workers
EXAMPLES = "dask://scheduler:8786, or tls://scheduler:8786"
_ADDRESS = re.compile(r"(dask|tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?/?")


class Refused(Exception):
    """A worker of the cluster cannot be used. `str()` says why, for a message."""


def checked(address: str) -> str:
    """The scheduler's address as Dask writes it: `tcp://host:8786` for `dask://host`. Raises OptionError."""
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match[3] or PORT) not in range(1, 1 << 16):
        raise OptionError(f"{quoted(address)}: not the address of a scheduler; write {EXAMPLES}", "cluster")
    protocol = "tcp" if match[1] == "dask" else match[1]
    return f"{protocol}://{match[2]}:{match[3] or PORT}"


@dataclass(frozen=True)
class Actor:
    """A Relay in the process of a worker, and what calls its methods there. It ends when nothing holds `future`."""

    worker: str
    proxy: Any
    future: Any


class Cluster:
    """The workers of a scheduler, which messages call `address`, as the user does. The caller must `close` it. Any
    thread may call its methods."""

    def __init__(self, address: str) -> None:
        """Connect to the scheduler at `address`. Raises OptionError if it is no address, if its host is unknown or does
        not answer, or if a package is missing."""
        self.address = address
        scheduler = checked(address)
        try:
            import distributed
        except ImportError:
            raise OptionError(f"{address}: Dask is missing; run pip install distributed", "cluster") from None
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # our messages say what it would
        host = urllib.parse.urlsplit(scheduler).hostname or ""
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            raise OptionError(f"{address}: {host}: {error.strerror}; correct the address", "cluster") from None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that other versions of packages are elsewhere; ours is checked
                connect: Any = distributed.Client  # not typed; it becomes the default client, for which actors look
                self._client = connect(scheduler, timeout=CONNECT_SECONDS, name="tuner")
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            tls = ", or name its certificates in Dask's configuration" if address.startswith("tls:") else ""
            raise OptionError(
                f"{address}: the scheduler does not answer: {_line(error)}; start `dask scheduler`, or correct "
                f"the address{tls}",
                "cluster",
            ) from None
        self._listing = threading.Lock()
        self._listed, self._listed_at = list[str](), -math.inf
        self.trouble: str | None = None  # why the scheduler does not answer

    def workers(self) -> list[str]:
        """The addresses of the workers, as of a moment ago; empty if the scheduler does not answer."""
        with self._listing:
            if time.monotonic() - self._listed_at >= POLL_SECONDS:
                try:
                    self._listed, self.trouble = sorted(self._client.nthreads()), None
                except Exception as error:  # of several types
                    broken = self.has_ended or isinstance(error, OSError)
                    self._listed, self.trouble = [], "the connection is broken" if broken else _line(error)
                self._listed_at = time.monotonic()
            return self._listed

    @property
    def has_ended(self) -> bool:
        """Whether Dask has given up connecting to the scheduler again."""
        return bool(self._client.status == "closed")

    def relay(self, worker: str) -> Actor:
        """A Relay in the process of a worker. Raises Refused."""
        self._check_version(worker)
        future = self._client.submit(
            relay.Relay, actor=True, workers=[worker], allow_other_workers=False, pure=False, retries=0
        )
        try:
            return Actor(worker, self.result(future, worker, START_SECONDS), future)
        except Lost as lost:
            future.cancel()
            raise Refused(f"no station starts: {lost}") from None

    def result(self, asked: Awaitable[Any], worker: str, seconds: float = math.inf) -> Any:
        """What `asked`, a future of Dask, gives. Raises Lost if it fails, if the worker leaves the cluster, or after
        `seconds`.

        A coroutine waits for it, not Dask's own `result`, whose timeouts sometimes fail at the moment of an answer.
        """
        try:
            waiting = asyncio.run_coroutine_threadsafe(_awaited(asked), self._client.loop.asyncio_loop)
        except Exception as error:  # of several types, when the client has closed
            raise Lost(_unreachable(error)) from None
        deadline = time.monotonic() + seconds
        while True:
            try:
                return waiting.result(POLL_SECONDS)
            except TimeoutError as error:
                if waiting.done():  # it is that of a connection
                    raise Lost(_unreachable(error)) from None
                if worker not in self.workers():
                    waiting.cancel()
                    raise Lost("its worker has left the cluster") from None
                if time.monotonic() > deadline:
                    waiting.cancel()
                    raise Lost(f"its worker has done other work for {seconds:g} s") from None
            except Exception as error:  # of several types, according to what has gone when
                raise Lost(_unreachable(error)) from None

    def _check_version(self, worker: str) -> None:
        """Raise Refused unless the worker's Python has this version of the package.

        A function of the standard library asks: a worker without the package, or with another version, knows none of
        ours.
        """
        try:
            answers = self._client.run(importlib.metadata.version, DISTRIBUTION, workers=[worker], on_error="return")
            version = answers.get(worker)
        except Exception as error:  # of several types, if the worker goes at this moment
            version = error
        if isinstance(version, importlib.metadata.PackageNotFoundError):
            raise Refused(f"its Python has no tuner; install {VERSION}, as here")
        if not isinstance(version, str):
            raise Refused("it has left the cluster" if version is None else f"it does not answer: {_line(version)}")
        if version != _installed():
            raise Refused(f"it has tuner {version}, not {_installed()}, as here; install the same version")

    def line(self, actor: Actor) -> StationLine:
        """The way to a new station of an actor. Raises Refused."""
        try:
            number = self.result(actor.proxy.start(), actor.worker)
        except Exception as error:
            raise Refused(_unreachable(error)) from None
        return StationLine(self, actor, number)

    def close(self) -> None:
        """Disconnect. The stations end."""
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)


class StationLine:
    """The way to one station, through the scheduler. Any thread may call its methods."""

    def __init__(self, cluster: Cluster, actor: Actor, number: int) -> None:
        self._cluster, self._actor, self._number = cluster, actor, number

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request. Raises Lost."""
        try:
            asked = self._actor.proxy.ask(self._number, json.dumps(request))
        except Exception as error:  # of several types, if the worker is known to have gone
            raise Lost(_unreachable(error)) from None
        reply: dict[str, Any] = json.loads(self._cluster.result(asked, self._actor.worker))
        if ENDED in reply:
            raise Lost(reply[ENDED])
        return reply

    def close(self) -> None:
        """End the station, if it is there."""
        with contextlib.suppress(Exception):  # it may have gone, and so may the client
            self._actor.proxy.end(self._number)


async def _awaited(asked: Awaitable[Any]) -> Any:
    return await asked


def _unreachable(error: Exception) -> str:
    """Why a worker cannot be asked."""
    if isinstance(error, Lost):
        return str(error)
    if type(error) is RuntimeError:  # Dask says that the worker of an actor was lost
        return "its worker has left the cluster"
    return "its worker cannot be reached" if isinstance(error, OSError) else _line(error)


def _line(error: object) -> str:
    """What an error says, on one line."""
    return shown((str(error).strip().splitlines() or [type(error).__name__])[0])


def _installed() -> str:
    """The version of this package, as `importlib.metadata` finds it on the workers."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return VERSION
