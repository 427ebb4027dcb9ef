"""A cluster of Dask.

Dask carries requests and replies, and says which workers are there. Its storage for Optuna's studies is not used: the
ledger stays with the one search, so it needs no server and outlasts the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
import math
import socket
import time
import urllib.parse
import warnings
from collections.abc import Awaitable
from typing import Any

from tuner.errors import OptionError
from tuner.measure.remote import relay
from tuner.measure.remote.remote_device import Lost
from tuner.tuning.crew import engine
from tuner.tuning.crew.engine import POLL_SECONDS, START_SECONDS, Actor, Engine, Refused, one_line, unreachable
from tuner.version import DISTRIBUTION

CONNECT_SECONDS = 10.0  # for the scheduler to answer


class DaskEngine(Engine):
    """The workers of a scheduler of Dask."""

    def __init__(self, address: str, scheduler: str) -> None:
        """Connect to `scheduler`, an address as Dask writes it. Raises OptionError if its host is unknown or does not
        answer, or if a package is missing."""
        super().__init__(address)
        self._scheduler = scheduler
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
            tls = (
                "name its certificates in Dask's configuration"
                if address.startswith("tls:")
                else "write tls:// for TLS"
            )
            raise OptionError(
                f"{address}: the scheduler does not answer: {one_line(error)}; start `dask scheduler`, correct "
                f"the address, or {tls}",
                "cluster",
            ) from None

    def _list(self) -> list[str]:
        return sorted(self._client.nthreads())

    @property
    def advice(self) -> str:
        return f"start some with `dask worker {self._scheduler}`"

    @property
    def has_ended(self) -> bool:
        return bool(self._client.status == "closed")

    def relay(self, worker: str) -> Actor:
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
        # A coroutine waits for it, not Dask's own `result`, whose timeouts sometimes fail at the moment of an answer.
        try:
            waiting = asyncio.run_coroutine_threadsafe(_awaited(asked), self._client.loop.asyncio_loop)
        except Exception as error:  # of several types, when the client has closed
            raise Lost(unreachable(error)) from None
        deadline = time.monotonic() + seconds
        while True:
            try:
                return waiting.result(POLL_SECONDS)
            except TimeoutError as error:
                if waiting.done():  # it is that of a connection
                    raise Lost(unreachable(error)) from None
                if worker not in self.workers():
                    waiting.cancel()
                    raise Lost("its worker has left the cluster") from None
                if time.monotonic() > deadline:
                    waiting.cancel()
                    raise Lost(f"its worker has done other work for {seconds:g} s") from None
            except Exception as error:  # of several types, according to what has gone when
                raise Lost(unreachable(error)) from None

    def _check_version(self, worker: str) -> None:
        try:
            answers = self._client.run(importlib.metadata.version, DISTRIBUTION, workers=[worker], on_error="return")
            answer = answers.get(worker)
        except Exception as error:  # of several types, if the worker goes at this moment
            answer = error
        engine.check_version(answer)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)


async def _awaited(asked: Awaitable[Any]) -> Any:
    return await asked
