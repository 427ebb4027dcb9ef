"""The judge's end of a candidate's process: it runs only while the judge's clock runs."""

from __future__ import annotations

import base64
import contextlib
import os
import pickle
import select
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.devices import forkable_packages
from tuner.errors import EnvironmentTrouble, TrialError, TunerError, WorkerDied
from tuner.judging.memory import ArrayPlace, SharedMemory
from tuner.judging.runner import DONE, GO, LATER
from tuner.judging.verdict import Refusal
from tuner.measure.process.channel import Process

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.devices.built import Built

RUNNER = "tuner.judging.runner"
START_SECONDS = 120.0  # for a process to open its device, and to load a build, which some drivers compile then
STOP_SECONDS = 3.0  # for a process to stop
QUICK_LOOKS, LOOK_SECONDS = 20, 1e-4  # at a process that is to stop: so many at once, then with pauses
AWAKE_NS = 20_000  # of processor time while it is stopped: more than the system needs to stop it
# Reasons of the engine's errors, by the codes of verdicts.
CODES = {"resources": "resources", "too many resources": "resources", "timeout": "timeout", "crash": "crash"}


class CandidateProcess:
    """A process that launches one build after another, on arrays in memory that is shared with this process.

    On a processor it is stopped but for its launches, and `run` returns this process's time from the moment at which it
    goes on until it says that the launch has ended; it is stopped then, before anything is read. On a GPU, whose
    kernels cannot reach a process, `run` returns the time of the device's own events.
    """

    def __init__(self, device: Device, size: int, timeout: float, is_judged: bool = True) -> None:
        """`size` is the bytes of memory, `timeout` the seconds of a launch. If it is not `is_judged`, as the
        space's own kernel is not, checks for what only a cheat would do are left out. Raises EnvironmentTrouble."""
        self._is_judged, self._folder = is_judged, ""
        self.on_processor, self._timeout = device.on_processor, timeout
        self.memory = SharedMemory(size)
        goes, self._go = os.pipe()
        self._done, done = os.pipe()
        try:
            imports = [*LATER, *(forkable_packages(device.id) or ())]
            self._process = Process(RUNNER, [self.memory.descriptor, goes, done], imports)
        finally:
            os.close(goes)
            os.close(done)
        task = {
            "device": device.id, "processor": device.on_processor, "memory": self.memory.descriptor, "size": size,
            "go": goes, "done": done,
        }  # fmt: skip
        try:
            reply = self._process.ask(task, START_SECONDS)
        except WorkerDied as died:
            self.close()
            raise EnvironmentTrouble(f"the process of a candidate does not start: {died}") from None
        except BaseException:
            self.close()
            raise
        self.memory.close()
        self.isolation: list[str] = reply["isolation"]
        self._folder = reply["folder"]
        self._is_loaded, self._spent = False, dict[str, tuple[int, int]]()

    def load(self, built: Built) -> None:
        """Load a build in place of the one before. Raises Refusal if that fails."""
        data = base64.b64encode(pickle.dumps(built, pickle.HIGHEST_PROTOCOL)).decode()
        self._go_on()
        self._is_loaded = True
        self._ask({"load": data})
        self._stop()

    def run(
        self,
        places: Mapping[str, ArrayPlace],
        fill: Callable[[SharedMemory], object],
        leading: Mapping[str, int] = MappingProxyType({}),
        options: Mapping[str, float] = MappingProxyType({}),
        is_timed: bool = True,
    ) -> float:
        """Launch once on arrays at `places`, which `fill` fills, and return the time in ms. `leading` are the leading
        dimensions of arrays whose rows have padding, `options` the values of all options; those of the build if there
        are none. Unless it `is_timed`, a GPU's clock need not be up. Raises Refusal."""
        self._go_on()
        bound = {name: (place.offset, place.nbytes) for name, place in places.items()}
        self._ask({"bind": bound, "leading": dict(leading), "options": dict(options), "is_timed": is_timed})
        self._stop()
        fill(self.memory)
        self.check_stopped()
        ended, began = b"", time.perf_counter()
        self._go_on()
        with contextlib.suppress(BrokenPipeError):  # it has ended, which the next question tells
            os.write(self._go, GO)
            if self._is_done():
                ended = os.read(self._done, len(DONE))
        self._halt()  # before the clock is read: what it still does until then must not be free
        time_ms = 1e3 * (time.perf_counter() - began)
        self._check_alone()
        if ended != DONE or not self.on_processor:
            self._go_on()
            took = self._ask({"took": True}).get("ms")
            self._stop()
            if ended != DONE:
                raise Refusal("crash", "its process says neither that the launch has ended nor why")
            if isinstance(took, float):
                time_ms = min(time_ms, took)
        return time_ms

    def check_stopped(self) -> None:
        """Raise Refusal if the process has run since it was stopped last."""
        if not self.on_processor or not self._is_judged:
            return
        now, before = self._schedules(), self._spent
        woken = [task for task in now.keys() & before.keys() if now[task][1] != before[task][1]]
        has_run = any(
            now[task][1] - before[task][1] > 1 or now[task][0] - before[task][0] > AWAKE_NS for task in woken
        )  # a thread may be interrupted once on its way to a stop
        if has_run or now.keys() - before.keys() or (woken and now.keys() != before.keys()) or not self._has_stopped():
            raise Refusal("runs_while_stopped", "its process ran while it was stopped")

    def wait(self, seconds: float) -> None:
        """Let the process go on for a while, to see what it still does."""
        self._go_on()
        time.sleep(seconds)
        self._stop()

    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return not self._process.has_ended()

    def close(self) -> None:
        """End the process, and all that it has started."""
        self._process.close()
        self.memory.close()
        for end in (self._go, self._done):
            with contextlib.suppress(OSError):
                os.close(end)
        self._go = self._done = -1
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _is_done(self) -> bool:
        poll = select.poll()
        poll.register(self._done, select.POLLIN)
        if not poll.poll(self._timeout * 1e3):
            raise Refusal("timeout", f"not finished after {self._timeout:g} s; a longer --timeout allows more")
        return True

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply of the process. Once it has loaded a candidate, whatever goes wrong is the candidate's fault."""
        try:
            return self._process.ask(request, START_SECONDS if "load" in request else self._timeout)
        except EnvironmentTrouble as error:
            if not self._is_loaded:
                raise
            raise Refusal("crash", str(error)) from None
        except (TrialError, WorkerDied) as error:
            is_missing = "load" in request and "the source has no kernel" in str(error)
            raise Refusal("signature" if is_missing else code_of(error), str(error)) from None
        except TunerError as error:
            raise Refusal("launch", str(error)) from None

    def _go_on(self) -> None:
        if self.on_processor:
            self._signal(signal.SIGCONT)

    def _stop(self) -> None:
        self._halt()
        self._check_alone()

    def _halt(self) -> None:
        """Stop all threads of the process, and wait until they have stopped."""
        if not self.on_processor:
            return
        self._signal(signal.SIGSTOP)
        looks, deadline = 0, time.monotonic() + STOP_SECONDS
        while not self._has_stopped():
            looks += 1
            if looks > QUICK_LOOKS:  # on a busy machine it needs the processor to stop
                time.sleep(LOOK_SECONDS)
            if time.monotonic() > deadline:
                raise Refusal("runs_while_stopped", "its process does not stop")
        self._spent = self._schedules()

    def _check_alone(self) -> None:
        """Raise Refusal if the process has started another one, which is not stopped."""
        if self.on_processor and self._is_loaded and self._is_judged and self._has_company():
            raise Refusal("left_processes", "its process has started another one, which goes on when it is stopped")

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended, which the next question tells
            os.kill(self._process.child, number)

    def _tasks(self, file: str) -> dict[str, str]:
        """What the system says of each thread of the process, by the thread's number."""
        texts = dict[str, str]()
        with contextlib.suppress(OSError):
            for task in os.scandir(f"/proc/{self._process.child}/task"):
                with contextlib.suppress(OSError):
                    texts[task.name] = Path(task.path, file).read_text(encoding="utf-8", errors="replace")
        return texts

    def _has_stopped(self) -> bool:
        return all(text.rpartition(")")[2].split()[0] in "TtZX" for text in self._tasks("stat").values())

    def _schedules(self) -> dict[str, tuple[int, int]]:
        """The processor time of each thread in ns, and how often it was given a processor; empty where the system does
        not tell."""
        parts = {task: text.split() for task, text in self._tasks("schedstat").items()}
        return {task: (int(each[0]), int(each[2])) for task, each in parts.items() if len(each) > 2}

    def _has_company(self) -> bool:
        return any(text.split() for text in self._tasks("children").values()) or self._process.has_orphans()


def code_of(error: TrialError | WorkerDied) -> str:
    """The code of an error of the engine."""
    return CODES.get(error.reason, "launch")
