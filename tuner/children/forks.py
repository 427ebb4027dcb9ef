"""Forks of this process for work that may change its process, such as a kernel on this processor.

Whatever the work changes ends with the fork: its rounding mode, threads, limits, descriptors, memory maps. This process
must not have threads of its own, nor have run such work.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import json
import os
import pickle
import resource
import secrets
import select
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tuner.children import reaper
from tuner.errors import WorkerDied

T = TypeVar("T")
LOST_CHANNEL = 97  # exit status of a process that can no longer answer
HIGHEST, MARGIN = 4096, 16  # the descriptors of a channel are below HIGHEST, and MARGIN below the limit
POLL_SECONDS = 0.25  # between two looks at a fork that does not answer
_NUMBER, _SIZE = 16, 8  # bytes of the random number before an answer, and of the answer's length


class Forks:
    """Forks this process for each piece of work, or once for several (`keep`).

    `private` are descriptors that no fork inherits. A fork calls `begin` first. If a fork ends without an answer, this
    process ends in the same way.
    """

    def __init__(self, private: Sequence[int] = (), begin: Callable[[], None] = lambda: None) -> None:
        self._private, self._begin = {*private}, begin

    def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, which runs in a fork. Raises what `work` raises."""
        with contextlib.closing(_Fork(self._private, self._begin, lambda answer: answer(work))) as fork:
            result: T = fork.answer()
            return result

    def keep(self, make: Callable[[], object]) -> KeptFork:
        """A fork that holds the object that `make` returns. Raises what `make` raises."""
        return KeptFork(self._private, self._begin, make)


class KeptFork:
    """An object in a fork of its own, which is stopped while nobody asks the object for anything."""

    def __init__(self, private: set[int], begin: Callable[[], None], make: Callable[[], object]) -> None:
        asked, self._asking = os.pipe()
        self._private = private
        private.add(self._asking)
        self._fork = _Fork(private, begin, functools.partial(_hold, asked, make))
        os.close(asked)
        try:
            self._fork.answer()
        except BaseException:
            self.close()
            raise
        self._fork.stop()

    def ask(self, method: str, *arguments: Any) -> Any:
        """The result of a method of the object, whose arguments JSON can hold. Raises what the method raises."""
        request = json.dumps([method, *arguments]).encode()
        self._fork.resume()
        with contextlib.suppress(BrokenPipeError):  # it has ended, which the lack of an answer shows
            _write(self._asking, len(request).to_bytes(_SIZE, "big") + request)
        try:
            return self._fork.answer()
        finally:
            self._fork.stop()

    def close(self) -> None:
        """End the fork."""
        self._fork.close()
        self._private.remove(self._asking)
        os.close(self._asking)


def _hold(asked: int, make: Callable[[], object], answer: _Answering) -> None:
    """Make the object of a `KeptFork` and answer requests until this process is killed."""
    asked = out_of_reach(asked)
    held: object = None

    def hold() -> None:
        nonlocal held
        held = make()

    answer(hold)
    while True:
        request = _read(asked, int.from_bytes(_read(asked, _SIZE), "big"))
        method, *arguments = json.loads(request)
        answer(functools.partial(getattr(held, method), *arguments))


class _Fork:
    """A fork of this process, and the pipe on which it answers."""

    def __init__(self, private: set[int], begin: Callable[[], None], work: Callable[[_Answering], None]) -> None:
        """`work` is called in the fork. Raises OSError if the machine has no room for another process."""
        self._private = private
        self._number = secrets.token_bytes(_NUMBER)  # so that nothing that a kernel writes is taken for an answer
        self._answers, answering = os.pipe()
        self._status: int | None = None
        parent = os.getpid()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self._answers)
            os.close(answering)
            raise
        if self._pid:
            os.close(answering)
            private.add(self._answers)
            return
        try:
            _begin(parent, [*private, self._answers])
            begin()
            work(_Answering(out_of_reach(answering), self._number))
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stderr.flush()
            os._exit(1)

    def answer(self) -> Any:
        """The fork's next answer. Raises what its work raised, and WorkerDied if a kernel wrote something into the
        pipe. If the fork ends without an answer, this process ends like it."""
        head = self._read(_NUMBER + _SIZE)
        if head[:_NUMBER] != self._number:
            raise WorkerDied("there was other output in the stream of the worker's replies", "crash")
        data = self._read(int.from_bytes(head[_NUMBER:], "big"))
        # A kernel that wrote the answer itself has all rights of this process anyway.
        result, error = pickle.loads(data)  # noqa: S301
        if error is not None:
            raise error
        return result

    def stop(self) -> None:
        """Stop all threads of the fork, those too that a kernel left behind."""
        if self._status is None:
            os.kill(self._pid, signal.SIGSTOP)
            _, status = os.waitpid(self._pid, os.WUNTRACED)
            self._status = None if os.WIFSTOPPED(status) else status

    def resume(self) -> None:
        """Let the fork continue."""
        if self._status is None:
            os.kill(self._pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill the fork and wait for its end."""
        self._private.remove(self._answers)
        os.close(self._answers)
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            self._status = os.waitpid(self._pid, 0)[1]

    def _read(self, count: int) -> bytes:
        """The next bytes that the fork has written. If it has ended before, this process ends like it."""
        data, poll = bytearray(), select.poll()
        poll.register(self._answers, select.POLLIN)
        while len(data) < count:
            if poll.poll(POLL_SECONDS * 1e3):
                part = os.read(self._answers, count - len(data))
                if not part:
                    self._end_likewise()
                data += part
            elif self._has_ended() and not poll.poll(0):  # what a kernel started may hold the other end open
                self._end_likewise()
        return bytes(data)

    def _has_ended(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def _end_likewise(self) -> None:
        """End this process as the fork ends, which can no longer answer. Does not return."""
        if self._status is None:
            self._status = os.waitpid(self._pid, 0)[1]
        reaper.end_like(os.waitstatus_to_exitcode(self._status))


class _Answering:
    """The fork's end of its pipe. A call runs some work and sends its result, or the error that it raises."""

    def __init__(self, descriptor: int, number: bytes) -> None:
        self._descriptor, self._number = descriptor, number
        self._pid, self._parent, self._files = os.getpid(), os.getppid(), self._open_files()

    def __call__(self, work: Callable[[], object]) -> None:
        """Ends this process if it can no longer answer."""
        try:
            answer = pickle.dumps((work(), None), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            if os.getpid() == self._pid:
                answer = _pickled(error)
        if os.getpid() != self._pid:  # a copy that a kernel has forked
            os._exit(0)
        if self._open_files() != self._files:
            os._exit(LOST_CHANNEL)
        os.kill(self._parent, signal.SIGCONT)  # a kernel may have stopped it
        try:
            _write(self._descriptor, self._number + len(answer).to_bytes(_SIZE, "big") + answer)
        except OSError:
            os._exit(LOST_CHANNEL)

    def _open_files(self) -> list[tuple[int, int] | None]:
        return identities([0, 1, 2, self._descriptor])


def _begin(parent: int, private: Sequence[int]) -> None:
    """Make a fork a session of its own, which ends with its parent and has none of its descriptors `private`."""
    gc.freeze()  # else a garbage collection would write to, and so copy, every page of the parent
    os.setsid()  # so that signals to its process group do not reach the parent
    reaper.end_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    reaper.name("kernel")
    for descriptor in private:
        os.close(descriptor)


def _pickled(error: Exception) -> bytes:
    """The answer that reports an error. Raises the error itself if it cannot be pickled."""
    try:
        return pickle.dumps((None, error), pickle.HIGHEST_PROTOCOL)
    except Exception:
        raise error from None


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _read(descriptor: int, count: int) -> bytes:
    """The next `count` bytes. Ends this process if the other end is closed."""
    data = bytearray()
    while len(data) < count:
        part = os.read(descriptor, count - len(data))
        if not part:
            os._exit(0)
        data += part
    return bytes(data)


def identities(descriptors: Sequence[int]) -> list[tuple[int, int] | None]:
    """The device and inode behind each descriptor; None for a closed one."""
    files: list[tuple[int, int] | None] = []
    for descriptor in descriptors:
        try:
            status = os.fstat(descriptor)
            files.append((status.st_dev, status.st_ino))
        except OSError:
            files.append(None)
    return files


def out_of_reach(descriptor: int) -> int:
    """Move a descriptor to a high number that no child inherits. Closes the given one and returns the new one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = HIGHEST if soft == resource.RLIM_INFINITY else min(HIGHEST, soft)
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, max(0, most - MARGIN))
    os.close(descriptor)
    return high
