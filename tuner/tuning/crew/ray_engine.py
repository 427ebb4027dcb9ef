"""A cluster of Ray, through the server for clients on its head node.

An actor takes all processors and GPUs that Ray counts for a node, so that Ray starts nothing beside what is measured.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import math
import socket
import time
import urllib.parse
import warnings
from typing import Any

from tuner.errors import OptionError
from tuner.measure.remote import relay
from tuner.measure.remote.remote_device import Lost
from tuner.tuning.crew import engine
from tuner.tuning.crew.engine import POLL_SECONDS, START_SECONDS, Actor, Engine, Refused, one_line, unreachable
from tuner.version import DISTRIBUTION

CONNECT_SECONDS = 10.0  # for the head node to answer


class RayEngine(Engine):
    """The nodes of a cluster of Ray."""

    def __init__(self, address: str, head: str) -> None:
        """Connect to `head`, an address as Ray writes it. Raises OptionError if it does not answer, if the package is
        missing or of another version there, or if this program is connected to a cluster of Ray already."""
        super().__init__(address)
        try:
            import ray
            from ray import exceptions
        except ImportError:
            raise OptionError(f"{address}: Ray is missing; run pip install 'ray[client]'", "cluster") from None
        if ray.is_initialized():
            raise OptionError(f"{address}: this program uses Ray already; call ray.shutdown() first", "cluster")
        parts = urllib.parse.urlsplit(head)
        try:
            socket.create_connection((parts.hostname or "", parts.port or 0), CONNECT_SECONDS).close()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # our messages say what Ray's would
                ray.init(head, logging_level=logging.CRITICAL, log_to_driver=False)
        except Exception as error:  # of several types, also of gRPC; the last line of a traceback there says why
            with contextlib.suppress(Exception):
                ray.shutdown()  # what has been connected
            reason = one_line(str(error).strip().rpartition("\n")[2] or error)
            raise OptionError(
                f"{address}: the head node does not answer: {reason}; start `ray start --head`, or correct "
                "the address, whose port is that of the server for clients",
                "cluster",
            ) from None
        self._ray: Any = ray  # whose types need not be there
        self._exceptions: Any = exceptions
        self._nodes: dict[str, dict[str, Any]] = {}  # what Ray says of each node, by its address

    def _list(self) -> list[str]:
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        self._nodes = {f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}": node for node in nodes}
        return sorted(self._nodes)

    @property
    def advice(self) -> str:
        return "start some with `ray start --address=HEAD:6379`"

    @property
    def has_ended(self) -> bool:
        return not self._ray.is_initialized()

    def relay(self, worker: str) -> Actor:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if (node := self._nodes.get(worker)) is None:
            raise Refused("it has left the cluster")
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        answer: object
        try:
            asks = self._ray.remote(num_cpus=0)(importlib.metadata.version).options(scheduling_strategy=there)
            answer = self._ray.get(asks.remote(DISTRIBUTION), timeout=START_SECONDS)
        except Exception as error:  # of several types, also what the function raises
            answer = error
        engine.check_version(answer)
        has = node["Resources"]
        create = self._ray.remote(relay.Relay).options(
            num_cpus=has.get("CPU", 0), num_gpus=has.get("GPU", 0), scheduling_strategy=there, max_restarts=0
        )
        handle = create.remote()
        actor = Actor(worker, _Proxy(handle))
        try:
            self.result(actor.proxy.are_you_there(), worker, START_SECONDS)
        except Lost as lost:
            self._ray.kill(handle)
            raise Refused(f"no station starts: {lost}") from None
        return actor

    def result(self, asked: Any, worker: str, seconds: float = math.inf) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._ray.get(asked, timeout=POLL_SECONDS)
            except self._exceptions.GetTimeoutError:
                if worker not in self.workers():
                    raise Lost("its worker has left the cluster") from None
                if time.monotonic() > deadline:
                    raise Lost(f"its worker has done other work for {seconds:g} s") from None
            except self._exceptions.RayActorError:
                raise Lost("its worker has left the cluster") from None
            except Exception as error:  # of several types, according to what has gone when
                raise Lost(unreachable(error)) from None

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._ray.shutdown()


class _Proxy:
    """Calls the methods of a Relay, an actor of Ray, as those of one of Dask are called."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __getattr__(self, method: str) -> Any:
        return getattr(self._handle, method).remote
