"""Forks of this process, for work that may change the state of its process, such as running a kernel on this processor.

Whatever the work changes ends with the fork: its rounding mode, threads, limits, descriptors, memory maps. This process
must not have threads of its own, nor have run such work.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import pickle
import secrets
import select
import signal
import sys
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tuner.children import reaper
from tuner.children.descriptors import out_of_reach
from tuner.children.fork_channel import NUMBER, OTHER_OUTPUT, SIZE, ForkChannel, Look, write
from tuner.errors import WorkerDied

T = TypeVar("T")
POLL_SECONDS = 0.25  # between two looks at a fork that does not answer


class Forks:
    """Forks this process for each piece of work, or once for several (`keep`).

    `private` are descriptors that no fork inherits. A fork calls `begin` first. If a fork ends without an answer, this
    process ends in the same way.
    """

    def __init__(self, private: Sequence[int] = (), begin: Callable[[], None] = lambda: None) -> None:
        self._private, self._begin = {*private}, begin
        self._looks: list[weakref.WeakMethod[Callable[..., Any]]] = []
        self._channel: ForkChannel | None = None  # in a fork

    def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, which runs in a fork. Raises what `work` raises."""
        with contextlib.closing(self._fork(lambda channel: channel.answer(work))) as fork:
            result: T = fork.answer()
            return result

    def keep(self, make: Callable[[], object]) -> KeptFork:
        """A fork that holds the object that `make` returns. Raises what `make` raises."""
        return KeptFork(self._fork(functools.partial(_hold, make)))

    def outside(self, look: Callable[..., T]) -> Callable[..., T | None]:
        """A function for forks, which calls the method `look` in this process while the fork is stopped.

        `look` gets the fork's process id, then the arguments, which JSON can hold. Outside a fork, the result is None.
        """
        self._looks.append(weakref.WeakMethod(look))
        return functools.partial(self._looked, len(self._looks) - 1)

    def _looked(self, number: int, *arguments: Any) -> Any:
        return None if self._channel is None else self._channel.look(Look(number, arguments))

    def _fork(self, work: Callable[[ForkChannel], None]) -> _Fork:
        """A fork that does `work`. Raises OSError if the machine has no room for another process."""
        fork = _Fork(self._private, self._looks)
        if not fork.is_here:
            return fork
        try:
            fork.enter()
            self._begin()
            self._channel = fork.channel()
            work(self._channel)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stderr.flush()
            os._exit(1)


class KeptFork:
    """An object in a fork of its own, which is stopped while nobody asks the object for anything."""

    def __init__(self, fork: _Fork) -> None:
        self._fork = fork
        try:
            self._fork.answer()
        except BaseException:
            self.close()
            raise
        self._fork.stop()

    def ask(self, method: str, *arguments: Any) -> Any:
        """The result of a method of the object, whose arguments JSON can hold. Raises what the method raises."""
        self._fork.resume()
        self._fork.tell([method, *arguments])
        try:
            return self._fork.answer()
        finally:
            self._fork.stop()

    def close(self) -> None:
        """End the fork."""
        self._fork.close()


def _hold(make: Callable[[], object], channel: ForkChannel) -> None:
    """Make the object of a `KeptFork` and answer requests until this process is killed."""
    held: object = None

    def hold() -> None:
        nonlocal held
        held = make()

    channel.answer(hold)
    while True:
        method, *arguments = channel.told()
        channel.answer(functools.partial(getattr(held, method), *arguments))


class _Fork:
    """A fork of this process, the pipe on which it answers, and the pipe on which it is told something."""

    def __init__(self, private: set[int], looks: Sequence[Callable[[], Callable[..., Any] | None]]) -> None:
        """Forks: both processes return. Raises OSError if the machine has no room for another process."""
        self._private, self._looks, self._parent = private, looks, os.getpid()
        self._number = secrets.token_bytes(NUMBER)  # so that nothing that a kernel writes is taken for an answer
        self._status: int | None = None
        pipes = list[int]()
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            self._pid = os.fork()
        except OSError:
            for descriptor in pipes:
                os.close(descriptor)
            raise
        self._answers, self._answering, self._told, self._telling = pipes
        if not self.is_here:
            os.close(self._answering)
            os.close(self._told)
            private.update((self._answers, self._telling))

    @property
    def is_here(self) -> bool:
        """Whether this process is the fork."""
        return self._pid == 0

    def enter(self) -> None:
        """Make this process, the fork, a session that ends with its parent and has none of its private descriptors."""
        gc.freeze()  # else a garbage collection would write to, and so copy, every page of the parent
        os.setsid()  # so that signals to its process group do not reach the parent
        reaper.end_with_parent(signal.SIGKILL)
        if os.getppid() != self._parent:
            os._exit(0)
        reaper.name("kernel")
        for descriptor in (*self._private, self._answers, self._telling):
            os.close(descriptor)

    def channel(self) -> ForkChannel:
        """The fork's ends of the pipes."""
        return ForkChannel(out_of_reach(self._answering), out_of_reach(self._told), self._number)

    def tell(self, news: Any) -> None:
        """Send something that JSON can hold."""
        data = json.dumps(news).encode()
        with contextlib.suppress(BrokenPipeError):  # it has ended, which the lack of an answer shows
            write(self._telling, len(data).to_bytes(SIZE, "big") + data)

    def answer(self) -> Any:
        """The fork's next answer; until it comes, its requests to look are met. Raises what its work raised, and
        WorkerDied if a kernel wrote something into the pipe. If the fork ends without an answer, this process ends like
        it."""
        while isinstance(message := self._message(), Look):
            self.stop()
            if self._status is not None:
                continue  # it has ended, and its process id may be another's
            look = self._looks[message.number]()
            self.tell(None if look is None else look(self._pid, *message.arguments))
            self.resume()
        result, error = message
        if error is not None:
            raise error
        return result

    def _message(self) -> Any:
        head = self._read(NUMBER + SIZE)
        if head[:NUMBER] != self._number:
            raise WorkerDied(OTHER_OUTPUT, "crash")
        data = self._read(int.from_bytes(head[NUMBER:], "big"))
        return pickle.loads(data)  # noqa: S301  # a kernel that wrote it itself has all rights of this process anyway

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
        for descriptor in (self._answers, self._telling):
            self._private.remove(descriptor)
            os.close(descriptor)
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
        """End this process like the fork, which can no longer answer. Does not return."""
        if self._status is None:
            self._status = os.waitpid(self._pid, 0)[1]
        reaper.end_like(os.waitstatus_to_exitcode(self._status))
