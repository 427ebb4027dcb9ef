"""The child's end of a channel: it reads requests and writes replies.

Whatever a kernel does, no other process can write a reply.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.children.descriptors import identities, out_of_reach
from tuner.children.fork_channel import LOST_CHANNEL, LOST_FILES
from tuner.children.forks import Forks
from tuner.devices import environment
from tuner.errors import BY_NAME, TunerError, WorkerDied

if TYPE_CHECKING:
    from tuner.devices import Device

STACK_BYTES = 1 << 30  # stack limit of a child if it has none
# Signals that a kernel may send to itself to continue working after the timer has stopped.
LATER = {signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGUSR1, signal.SIGUSR2}


class Channel:
    """Iterate over it for requests, and `reply` to each. The iteration ends when the parent is gone.

    The constructor protects the process against kernels and compilers. It moves the channel to descriptors that no
    kernel uses by chance and no child inherits. It sends what kernels print to the log. It makes this process the first
    that the system kills when memory runs out. It limits the stack, so that endless recursion crashes before that.
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

    def print_to(self, descriptor: int) -> None:
        """Have what this process prints go there, in place of the log."""
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)
        self._files = self._open_files()

    def isolate(self, device: Device) -> None:
        """Have kernels of this processor run in forks of this process, which must run none itself."""
        if device.runs_in_process:
            device.isolation = Forks([self._requests.fileno(), self._replies], device.adopt)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with contextlib.suppress(OSError):
            for line in self._requests:
                request = json.loads(line)
                self._number = request.pop("number")
                yield request

    def tell(self, news: dict[str, Any]) -> None:
        """Send news before the reply to the latest request."""
        self.reply({"news": news})

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Ask the parent, before the reply to the latest request, and return its answer."""
        self.tell(question)
        line = self._requests.readline()
        if not line:
            sys.exit()  # the parent is gone
        answer: dict[str, Any] = json.loads(line)
        return answer

    def reply(self, answer: dict[str, Any]) -> None:
        """Send the reply to the latest request. Ends the process if it can no longer reply."""
        if os.getpid() != self._pid:  # a copy that a kernel has forked
            os._exit(0)
        intact = self._open_files() == self._files
        if not intact:
            answer = failure(WorkerDied(LOST_FILES, "crash"))
        line = json.dumps({**answer, "number": self._number, "pid": self._pid}).encode() + b"\n"
        try:
            while line:
                line = line[os.write(self._replies, line) :]
        except OSError:
            intact = False
        if not intact:
            os._exit(LOST_CHANNEL)

    def is_idle_for(self, seconds: float) -> bool:
        """Wait up to `seconds` for the next request; returns whether none has come."""
        poll = select.poll()
        poll.register(self._requests, select.POLLIN)
        return not poll.poll(seconds * 1e3)

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """A block whose error is sent as the reply and ends this process."""
        try:
            yield
        except Exception as error:
            self.reply(failure(error))
            sys.exit()

    @contextlib.contextmanager
    def reporting_to(self, requests: Iterator[dict[str, Any]]) -> Iterator[None]:
        """A block that does the work of the next request in advance; its error becomes the reply to that request."""
        error: Exception | None = None
        try:
            yield
        except Exception as caught:
            error = caught
        if next(requests, None) is None:
            sys.exit()
        if error is not None:
            raise error

    def _open_files(self) -> list[tuple[int, int] | None]:
        """The device and inode behind each descriptor that this process needs; None for a closed one."""
        return identities([0, 1, 2, self._requests.fileno(), self._replies])


def open_files() -> int:
    """How many descriptors this process has open; 0 if unknown, and sys.maxsize if none is left to count them."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except FileNotFoundError:
        return 0
    except OSError:
        return sys.maxsize


def has_children() -> bool:
    """Whether this process has children, including ended ones. Only a kernel can have started them."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def attempt(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The reply of `work`, or the reply that reports its error."""
    try:
        return work()
    except Exception as error:
        return failure(error)


def failure(error: Exception) -> dict[str, Any]:
    """The reply that reports an error; `Process.ask` raises it again as the nearest class in `tuner.errors`.

    An error that is no TunerError says nothing of a kernel. It becomes trouble of the machine, and its traceback goes
    to the log.
    """
    if not isinstance(error, TunerError):
        traceback.print_exception(error)
        error = environment.of_error(error)
    known = next(kind.__name__ for kind in type(error).__mro__ if BY_NAME.get(kind.__name__) is kind)
    return {"error": known, "message": str(error), "reason": getattr(error, "reason", None)}
