"""What every engine of a cluster offers: its workers, and the way to stations on their machines."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import threading
import time
from abc import ABC, abstractmethod
from typing import Any

from tuner.classes import dataclass
from tuner.measure.remote.relay import ENDED
from tuner.measure.remote.remote_device import Lost
from tuner.quoting import shown
from tuner.version import DISTRIBUTION, VERSION

START_SECONDS = 60.0  # for a worker to start a station: it may have other work
POLL_SECONDS = 1.0  # between two looks at the list of workers


class Refused(Exception):
    """A worker of the cluster cannot be used. `str()` says why, for a message."""


@dataclass(frozen=True)
class Actor:
    """A Relay in the process of a worker, and what calls its methods there. It ends when nothing holds `future`."""

    worker: str
    proxy: Any
    future: Any = None


class Engine(ABC):
    """The workers of a cluster, which messages call `address`, as the user does. The caller must `close` it. Any thread
    may call its methods."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.trouble: str | None = None  # why the cluster does not answer
        self._listing = threading.Lock()
        self._listed, self._listed_at = list[str](), -math.inf

    def workers(self) -> list[str]:
        """The addresses of the workers, as of a moment ago; empty if the cluster does not answer."""
        with self._listing:
            if time.monotonic() - self._listed_at >= POLL_SECONDS:
                try:
                    self._listed, self.trouble = self._list(), None
                except Exception as error:  # of several types
                    broken = self.has_ended or isinstance(error, OSError)
                    self._listed, self.trouble = [], "the connection is broken" if broken else one_line(error)
                self._listed_at = time.monotonic()
            return self._listed

    @abstractmethod
    def _list(self) -> list[str]:
        """The addresses of the workers, now. Raises exceptions of several types if the cluster does not answer."""

    @property
    @abstractmethod
    def advice(self) -> str:
        """How to start workers, for a message."""

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether the engine has given up connecting again."""

    @abstractmethod
    def relay(self, worker: str) -> Actor:
        """A Relay in the process of a worker. Raises Refused."""

    @abstractmethod
    def result(self, asked: Any, worker: str, seconds: float = math.inf) -> Any:
        """What `asked`, a call of an actor, gives. Raises Lost if it fails, if the worker leaves the cluster, or after
        `seconds`."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect. The stations end."""

    def line(self, actor: Actor) -> StationLine:
        """The way to a new station of an actor. Raises Refused."""
        try:
            number = self.result(actor.proxy.start(), actor.worker)
        except Exception as error:
            raise Refused(unreachable(error)) from None
        return StationLine(self, actor, number)


class StationLine:
    """The way to one station, through the engine. Any thread may call its methods."""

    def __init__(self, engine: Engine, actor: Actor, number: int) -> None:
        self._engine, self._actor, self._number = engine, actor, number

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request. Raises Lost."""
        try:
            asked = self._actor.proxy.ask(self._number, json.dumps(request))
        except Exception as error:  # of several types, if the worker is known to have gone
            raise Lost(unreachable(error)) from None
        reply: dict[str, Any] = json.loads(self._engine.result(asked, self._actor.worker))
        if ENDED in reply:
            raise Lost(reply[ENDED])
        return reply

    def close(self) -> None:
        """End the station, if it is there."""
        with contextlib.suppress(Exception):  # it may have gone, and so may the engine
            self._actor.proxy.end(self._number)


def check_version(answer: object) -> None:
    """Raise Refused unless `answer` is the version of this package: what a worker's Python has said, or raised; None if
    the worker has gone.

    A function of the standard library asks: a worker without the package, or with another version, knows none of ours.
    """
    if isinstance(answer, importlib.metadata.PackageNotFoundError):
        raise Refused(f"its Python has no tuner; install {VERSION}, as here")
    if not isinstance(answer, str):
        raise Refused("it has left the cluster" if answer is None else f"it does not answer: {one_line(answer)}")
    if answer != installed():
        raise Refused(f"it has tuner {answer}, not {installed()}, as here; install the same version")


def installed() -> str:
    """The version of this package, as `importlib.metadata` finds it on the workers."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return VERSION


def unreachable(error: Exception) -> str:
    """Why a worker cannot be asked."""
    if isinstance(error, Lost):
        return str(error)
    if type(error) is RuntimeError:  # Dask says that the worker of an actor was lost
        return "its worker has left the cluster"
    return "its worker cannot be reached" if isinstance(error, OSError) else one_line(error)


def one_line(error: object) -> str:
    """What an error says, on one line."""
    return shown((str(error).strip().splitlines() or [type(error).__name__])[0])
