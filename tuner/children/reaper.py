"""Stands between a supervisor and a worker, and outlives neither.

The worker is its child. What the worker starts, in a session of its own or not, becomes the reaper's child as soon as
its own parent ends. So when the worker has ended, or the supervisor has, the reaper kills all that is left, and then
ends as the worker did.

Where the reaper itself is killed, the worker is killed with it. The supervisor then kills the worker's group. What has
left that group lives on; nobody is there to see it.
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
CANNOT_START = 71  # exit status where the worker cannot be started: EX_OSERR of sysexits.h
WOKEN_BY = {signal.SIGTERM, signal.SIGCHLD}


def watch(parent: int, work: Callable[[], None], called: str) -> None:
    """Do `work` in a worker, which is `called` so; wait until it or the parent has ended, and kill what is left. Does
    not return. This process is a child of `parent`, which ends with the supervisor."""
    name("reaper")
    signal.pthread_sigmask(signal.SIG_BLOCK, WOKEN_BY)  # they stay pending until they are waited for
    _on_linux(SET_CHILD_SUBREAPER, 1)
    end_with_parent(signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(0)  # it died before it could be watched
    try:
        worker = _start(work, called)
    except OSError as error:
        print(error.strerror, file=sys.stderr, flush=True)
        os._exit(CANNOT_START)
    status = None
    while status is None and signal.sigwait(WOKEN_BY) == signal.SIGCHLD:
        status = reap().get(worker)
    _kill_all(worker)
    _end_like(-signal.SIGTERM if status is None else os.waitstatus_to_exitcode(status))


def _start(work: Callable[[], None], called: str) -> int:
    """The process id of the worker. It has the channel; the reaper keeps no end of it."""
    reaper = os.getpid()
    worker = os.fork()
    if worker:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        return worker
    status = 1
    try:
        os.setsid()  # a kernel that signals its group does not reach the reaper
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
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            ended[child[0]] = child[1]
    return ended


def _kill_all(worker: int) -> None:
    """Kill the children, then those who become children by that, until none is left."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in _children(worker):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children(worker: int) -> list[int]:
    """The children of this process. Where the system does not tell them, the worker's group has to do."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        with contextlib.suppress(OSError):
            os.killpg(worker, signal.SIGKILL)
        return []


def _end_like(code: int) -> None:
    """End with the worker's exit status, or by the signal that killed it."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    os._exit(code & 255)
