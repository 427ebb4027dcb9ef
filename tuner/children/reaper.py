"""Stands between a parent and a child, and outlives neither. The parent is the process that asked for the child.

For the system, the child is the reaper's. What the child starts, in a session of its own or not, becomes the reaper's
too as soon as its own parent ends. So when the child has ended, or the parent has, the reaper kills all that is left,
and then ends as the child did.

Where the reaper itself is killed, the child is killed with it. The parent then kills the child's group. What has left
that group lives on; nobody is there to see it.
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
CANNOT_START = 71  # exit status where the child cannot be started: EX_OSERR of sysexits.h
WOKEN_BY = {signal.SIGTERM, signal.SIGCHLD}


def watch(server: int, work: Callable[[], None], called: str) -> None:
    """Do `work` in a child, which is `called` so; wait until it or the parent has ended, and kill what is left. Does
    not return. `server` is the fork server, which has forked this process, and ends with the parent."""
    name("reaper")
    signal.pthread_sigmask(signal.SIG_BLOCK, WOKEN_BY)  # they stay pending until they are waited for
    _on_linux(SET_CHILD_SUBREAPER, 1)
    end_with_parent(signal.SIGTERM)
    if os.getppid() != server:
        os._exit(0)  # it died before it could be watched
    try:
        child = _start(work, called)
    except OSError as error:
        print(error.strerror, file=sys.stderr, flush=True)
        os._exit(CANNOT_START)
    status = None
    while status is None and signal.sigwait(WOKEN_BY) == signal.SIGCHLD:
        status = reap().get(child)
    _kill_all(child)
    _end_like(-signal.SIGTERM if status is None else os.waitstatus_to_exitcode(status))


def _start(work: Callable[[], None], called: str) -> int:
    """The process id of the child. It has the streams to the parent; the reaper keeps no end of them."""
    reaper = os.getpid()
    child = os.fork()
    if child:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        return child
    status = 1
    try:
        os.setsid()  # a child that signals its group does not reach the reaper
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
    """What the system's list of processes calls this one."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"tuner-{process}", encoding="ascii")


def end_with_parent(number: int) -> None:
    """Have the system send this signal when the thread ends that started this process."""
    _on_linux(SET_PARENT_DEATH_SIGNAL, number)


def _on_linux(option: int, value: int) -> None:
    """Call prctl, where there is one."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def reap() -> dict[int, int]:
    """The children that have ended since the last call, with their wait statuses."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return ended


def _kill_all(child: int) -> None:
    """Kill what this process is the parent of, then what becomes so by that, until none is left."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in _children(child):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children(child: int) -> list[int]:
    """What this process is the parent of. Where the system does not tell, the child's group has to do."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        return []


def _end_like(code: int) -> None:
    """End with the child's exit status, or by the signal that killed it."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    os._exit(code & 255)
