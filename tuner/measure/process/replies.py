"""The child's end of a channel: requests come, answers go, and whatever a kernel does, no other process writes them."""

import contextlib
import fcntl
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tuner.devices import environment
from tuner.errors import BY_NAME, TunerError, WorkerDied

STACK_BYTES = 1 << 30  # of a child, where there is no limit
HIGHEST, MARGIN = 4096, 16  # own descriptors lie below the first, and that far below the limit
# Signals that a kernel may send to itself, to go on working when its time has been taken.
LATER = {signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGUSR1, signal.SIGUSR2}
LOST_CHANNEL = 97  # exit status of a child that cannot answer any more


class Channel:
    """Iterate over it for the requests; `reply` to each. It ends when the parent is gone.

    Making it prepares the process for what kernels and compilers do to it. The channel gets descriptors that no kernel
    meets by chance, and no process inherits. What a kernel prints goes to the log. The system kills this process first
    where memory runs out. Endless recursion crashes before that.
    """

    def __init__(self) -> None:
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
        if soft == resource.RLIM_INFINITY:  # NVRTC lifts the limit of its process, which children inherit
            resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, hard))
        signal.pthread_sigmask(signal.SIG_BLOCK, LATER)
        self._requests = os.fdopen(out_of_reach(os.dup(0)), "rb")
        self._replies = out_of_reach(os.dup(1))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._pid, self._number = os.getpid(), 0
        self._files = self._open_files()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with contextlib.suppress(OSError):
            for line in self._requests:
                request = json.loads(line)
                self._number = request.pop("number")
                yield request

    def tell(self, news: dict[str, Any]) -> None:
        """Send what is known ahead of the answer to the latest request."""
        self.reply({"news": news})

    def reply(self, answer: dict[str, Any]) -> None:
        """Send the answer to the latest request."""
        if os.getpid() != self._pid:  # a copy, which a kernel has made
            os._exit(0)
        intact = self._open_files() == self._files
        if not intact:
            answer = failure(WorkerDied("its kernel closed or replaced files that its process had open", "crash"))
        line = json.dumps({**answer, "number": self._number, "pid": self._pid}).encode() + b"\n"
        try:
            while line:
                line = line[os.write(self._replies, line) :]
        except OSError:
            intact = False
        if not intact:
            os._exit(LOST_CHANNEL)

    def is_unasked(self, seconds: float) -> bool:
        """Wait up to `seconds` for the next request; whether there is none yet."""
        poll = select.poll()
        poll.register(self._requests, select.POLLIN)
        return not poll.poll(seconds * 1e3)

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """A block whose error is the answer, and the end of this process."""
        try:
            yield
        except (TunerError, OSError, MemoryError) as error:
            self.reply(failure(error))
            sys.exit()

    @contextlib.contextmanager
    def reporting_to(self, requests: Iterator[dict[str, Any]]) -> Iterator[None]:
        """A block that does beforehand what the next request will ask for; the error of either is the answer to it."""
        error: TunerError | OSError | MemoryError | None = None
        try:
            yield
        except (TunerError, OSError, MemoryError) as found:
            error = found
        if next(requests, None) is None:
            sys.exit()
        if error is not None:
            raise error

    def _open_files(self) -> list[tuple[int, int] | None]:
        """The files behind the descriptors that this process needs; None for one that is closed."""
        files: list[tuple[int, int] | None] = []
        for descriptor in (0, 1, 2, self._requests.fileno(), self._replies):
            try:
                status = os.fstat(descriptor)
                files.append((status.st_dev, status.st_ino))
            except OSError:
                files.append(None)
        return files


def out_of_reach(descriptor: int) -> int:
    """The same open file under a high number, which no child inherits; closes the given one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = HIGHEST if soft == resource.RLIM_INFINITY else min(HIGHEST, soft)
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, max(0, most - MARGIN))
    os.close(descriptor)
    return high


def open_files() -> int:
    """How many descriptors this process has open, as far as the system tells; no limit where it has none to spare."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except FileNotFoundError:
        return 0
    except OSError:
        return sys.maxsize


def has_children() -> bool:
    """Whether this process has children, ended ones included. A kernel must have started them."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def attempt(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of `work`, or the one that reports its error."""
    try:
        return work()
    except (TunerError, OSError, MemoryError) as error:
        return failure(error)


def failure(error: TunerError | OSError | MemoryError) -> dict[str, Any]:
    """The answer that reports an error; `Process.ask` raises it again, as the nearest class that `tuner.errors` has.
    Raises an error that tells of no trouble of the machine's: it is a fault of this package."""
    if not isinstance(error, TunerError):
        found = environment.of_error(error)
        if found is None:
            raise error
        error = found
    known = next(kind.__name__ for kind in type(error).__mro__ if BY_NAME.get(kind.__name__) is kind)
    return {"error": known, "message": str(error), "reason": getattr(error, "reason", None)}
