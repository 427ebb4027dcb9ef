"""The channel between a fork and its parent: the fork's ends of two pipes, and the form of what goes through them.

An answer is a random number that the fork got from its parent, a length, and pickled content. So what a kernel
writes into the pipe is not taken for an answer.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
from collections.abc import Callable
from typing import Any

from tuner.children.descriptors import identities
from tuner.classes import dataclass

LOST_CHANNEL = 97  # exit status of a process that can no longer answer
# Why a process has died, in messages. Its own code may be to blame, or the kernel that it ran.
LOST_FILES = "files that the process had open were closed or replaced"
OTHER_OUTPUT = "there was other output in the stream of the worker's replies"
NUMBER, SIZE = 16, 8  # bytes of the random number before an answer, and of the answer's length


@dataclass(frozen=True)
class Look:
    """A fork's request that its parent call one of the functions of `Forks.outside`."""

    number: int
    arguments: tuple[Any, ...]


class ForkChannel:
    """The fork's ends of its two pipes."""

    def __init__(self, answers: int, told: int, number: bytes) -> None:
        self._answers, self._told, self._number = answers, told, number
        self._pid, self._parent, self._files = os.getpid(), os.getppid(), self._open_files()

    def answer(self, work: Callable[[], object]) -> None:
        """Do some work and send its result, or the error that it raises. Ends this process if it can no longer."""
        try:
            answer = pickle.dumps((work(), None), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            self._end_copy()
            answer = _pickled(error)
        self._send(answer)

    def look(self, request: Look) -> Any:
        """The result of what the parent does while this process is stopped."""
        self._send(pickle.dumps(request, pickle.HIGHEST_PROTOCOL))
        return self.told()

    def told(self) -> Any:
        """What the parent has sent. Ends this process if it is gone."""
        return json.loads(read(self._told, int.from_bytes(read(self._told, SIZE), "big")))

    def _send(self, message: bytes) -> None:
        self._end_copy()
        if self._open_files() != self._files:
            os._exit(LOST_CHANNEL)
        os.kill(self._parent, signal.SIGCONT)  # a kernel may have stopped it
        try:
            write(self._answers, self._number + len(message).to_bytes(SIZE, "big") + message)
        except OSError:
            os._exit(LOST_CHANNEL)

    def _end_copy(self) -> None:
        """End this process if it is a copy that a kernel has forked."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _open_files(self) -> list[tuple[int, int] | None]:
        return identities([0, 1, 2, self._answers, self._told])


def _pickled(error: Exception) -> bytes:
    """The answer that reports an error. Raises the error itself if it cannot be pickled."""
    try:
        return pickle.dumps((None, error), pickle.HIGHEST_PROTOCOL)
    except Exception:
        raise error from None


def write(descriptor: int, data: bytes) -> None:
    """Write all of the data."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read(descriptor: int, count: int) -> bytes:
    """The next `count` bytes. Ends this process if the other end is closed."""
    data = bytearray()
    while len(data) < count:
        part = os.read(descriptor, count - len(data))
        if not part:
            os._exit(0)
        data += part
    return bytes(data)
