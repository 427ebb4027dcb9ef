"""The reaper: a process between parent and child that kills all descendants of the child when either of them ends.

The parent is the process that asked for the child. For the operating system, the child is a child of the reaper. The
reaper is a subreaper (prctl): it adopts every orphaned descendant of the child, whatever its session. When the child or
the parent has ended, the reaper kills all remaining descendants, and then ends with the child's exit status or signal.

If the reaper itself is killed, the system kills the child with it, and the parent then kills the child's process group.
Descendants that have left that group survive.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

SET_PARENT_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36  # of prctl
CANNOT_START = 71  # exit status if the child cannot be started: EX_OSERR of sysexits.h
WOKEN_BY = {signal.SIGTERM, signal.SIGCHLD}


def watch(server: int, work: Callable[[], None], called: str) -> None:
    """Run `work` in a child named `called`, wait until the child or the parent ends, and kill all descendants.

    Does not return. `server` is the process id of the fork server, which forked this process and ends with the parent.
    """
    name("reaper")
    signal.pthread_sigmask(signal.SIG_BLOCK, WOKEN_BY)  # stay pending until sigwait
    adopt_orphans()
    end_with_parent(signal.SIGTERM)
    if os.getppid() != server:
        os._exit(0)  # the server ended before the death signal was set
    try:
        child = _start(work, called)
    except OSError as error:
        print(error.strerror, file=sys.stderr, flush=True)
        os._exit(CANNOT_START)
    status = None
    while status is None and signal.sigwait(WOKEN_BY) == signal.SIGCHLD:
        status = reap().get(child)
    _kill_all(child)
    end_like(-signal.SIGTERM if status is None else os.waitstatus_to_exitcode(status))


def adopt_orphans() -> None:
    """Become the parent of each descendant whose own parent ends."""
    _prctl(SET_CHILD_SUBREAPER, 1)


def _start(work: Callable[[], None], called: str) -> int:
    """Fork the child and return its process id. The reaper gives up standard input and output, which the child has."""
    reaper = os.getpid()
    child = os.fork()
    if child:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        return child
    status = 1
    try:
        os.setsid()  # so that signals to the child's process group do not reach the reaper
        end_with_parent(signal.SIGKILL)
        if os.getppid() == reaper:
            name(called)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, WOKEN_BY)
            work()
            status = 0
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(status)


def name(process: str) -> None:
    """Set the name of this process in process lists (`ps`, `top`) to `tuner-<process>`."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"tuner-{process}", encoding="ascii")


def end_with_parent(number: int) -> None:
    """Have the system send this signal to this process when the thread that started it ends."""
    _prctl(SET_PARENT_DEATH_SIGNAL, number)


def _prctl(option: int, value: int) -> None:
    """Call prctl, if the system has it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def reap() -> dict[int, int]:
    """The wait statuses, by process id, of the children that have ended since the last call."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return ended


def _kill_all(child: int) -> None:
    """Kill the children of this process, then the orphans that it adopts, until none is left."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in _children(child):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children(child: int) -> list[int]:
    """The process ids of this process's children. If /proc is not readable, kill the child's process group instead."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        return []


def end_like(code: int) -> None:
    """End with the child's exit status, or by the signal that killed it."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    os._exit(code & 255)
