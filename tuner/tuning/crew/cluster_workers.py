"""The workers of a cluster: those that have come, whether they can be used, and those that are asked again."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tuner import devices
from tuner.classes import dataclass
from tuner.errors import OptionError, TunerError
from tuner.measure.process import channel
from tuner.measure.remote.remote_device import Lost
from tuner.tuning.crew.engine import Actor, Engine, Refused, StationLine
from tuner.version import VERSION

WORKERS_SECONDS = 30.0  # for the first worker to come, and for another one after the last has gone
POLL_SECONDS = 0.5  # between two looks for workers that have come
MOST_ASKED = 3  # times that a worker is asked whose devices are lost or were another's
MOST_LISTED = 3  # reasons in a message


@dataclass(frozen=True)
class Worker:
    """A worker of the cluster that can start stations. `machine` identifies its machine, `node` is the name of that for
    messages, and `devices` are the devices there that this run may use."""

    address: str
    actor: Actor
    machine: str
    devices: tuple[str, ...]

    @property
    def node(self) -> str:
        return f"{self.machine.partition(' ')[0]} ({self.address})"


class ClusterWorkers:
    """The workers that a run asks for their devices. Several threads may ask at a time."""

    def __init__(self, cluster: Engine, device_names: Sequence[str], noted: Callable[[str], None]) -> None:
        self._cluster, self._names, self._noted = cluster, device_names, noted
        self._guard = threading.Lock()  # for what follows
        self._known: set[str] = set()  # workers that have been asked to join
        self._asked: Counter[str] = Counter()  # how often each has been
        self._usable: list[Worker] = []

    def await_first(self) -> None:
        """Wait until a worker is there. Raises OptionError if none comes."""
        deadline = time.monotonic() + WORKERS_SECONDS
        if not self._cluster.workers():
            self._noted(f"{self._cluster.address}: no workers yet; waiting up to {WORKERS_SECONDS:g} s for one")
        while not self._cluster.workers():
            if time.monotonic() > deadline:
                raise self.nobody()
            time.sleep(POLL_SECONDS)

    def nobody(self) -> OptionError:
        return OptionError(f"{self._cluster.address}: it has no workers; {self._cluster.advice}", "cluster")

    def unasked(self) -> list[str]:
        """Workers that have not been asked to join; from now on they have been."""
        with self._guard:
            new = [worker for worker in self._cluster.workers() if worker not in self._known]
            self._known.update(new)
            self._asked.update(new)
        return new

    def ask(self, address: str, refusals: list[str]) -> tuple[Worker, StationLine] | None:
        """A worker, and the way to its first station; None if it cannot be used, which `refusals` then says."""
        try:
            actor = self._cluster.relay(address)
            line = self._cluster.line(actor)
            about = self._about(line)
            if about["version"] != VERSION:
                raise Refused(f"it has tuner {about['version']}, not {VERSION}, as here; install the same version")
            names = tuple(name for name in about["devices"] if self._may_use(name))
            if not names:
                raise Refused(f"it has no device {' or '.join(self._names)}; see `tune devices` there")
        except (Refused, Lost, TunerError) as reason:
            refusals.append(str(reason))
            return None
        worker = Worker(address, actor, about["machine"], names)
        with self._guard:
            self._usable.append(worker)
        return worker, line

    def station(self, worker: Worker) -> StationLine:
        """The way to another station of a worker. Raises Refused or Lost if it starts none."""
        line = self._cluster.line(worker.actor)
        self._about(line)
        return line

    def ask_again(self, busy: Collection[str]) -> None:
        """Let workers of nodes other than the `busy` ones be asked again, a few times each."""
        with self._guard:
            idle = (worker.address for worker in self._usable if worker.node not in busy)
            self._known -= {address for address in idle if self._asked[address] < MOST_ASKED}

    def _about(self, line: StationLine) -> dict[str, Any]:
        """What a new station says of its machine."""
        kinds = [*dict.fromkeys(devices.split(name)[0] for name in self._names)]
        about = line.ask({"op": "about", "kinds": kinds, "level": logging.getLogger("tuner").getEffectiveLevel()})
        channel.check(about)
        return about

    def _may_use(self, device: str) -> bool:
        kind, _, number = device.partition(":")
        return kind in self._names or f"{kind}:{number}" in self._names


def summary(refusals: Sequence[str]) -> str:
    """Why workers cannot be used, on one line: the most frequent reasons, each with the number of workers."""
    reasons = Counter(refusals).most_common(MOST_LISTED)
    return "; ".join(f"{count} worker{'s' * (count > 1)} cannot be used: {reason}" for reason, count in reasons)
