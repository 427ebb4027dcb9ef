"""Run commands in several slots of each GPU, within a total number of seconds.

The commands of a GPU take turns measuring (see docs/machines.md), while the others prepare. Each slot has its share of
the CPU cores.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

GRACE_SECONDS = 10.0  # for a command to end by itself when time is over
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Job:
    """A command, what it is in words, and the seconds that one of its `group` is thought to take."""

    title: str
    command: Sequence[str]
    group: str
    seconds: float


@dataclass(frozen=True)
class Ended:
    """What came of a job: its exit status, what it printed, and how long it took. `stopped` where time was over."""

    job: Job
    status: int
    output: str
    errors: str
    seconds: float
    stopped: bool


class Slots:
    """The slots of some GPUs, of which `gpus` are the numbers; none for a machine without one, which has one slot."""

    def __init__(self, gpus: Sequence[int], per_gpu: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        places: list[int | None] = [gpu for _ in range(per_gpu) for gpu in gpus] or [None]
        share = max(1, len(cores) // len(places))
        self._slots = [(gpu, set(cores[i * share : (i + 1) * share]) or set(cores)) for i, gpu in enumerate(places)]

    def run(self, jobs: Sequence[Job], seconds: float, ended: Callable[[Ended], None]) -> list[Job]:
        """Run the jobs in their order, and return those that were left out.

        A job begins while the time left is what those of its group have taken so far. One that is under way when time
        is over is interrupted.
        """
        deadline = time.monotonic() + seconds
        taken: dict[str, list[float]] = {}
        waiting, left_out = list(jobs), list[Job]()
        running: dict[int, tuple[Job, subprocess.Popen[str], float, Path]] = {}
        stopped = set[int]()
        with tempfile.TemporaryDirectory() as folder:
            while waiting or running:
                for slot, (gpu, cores) in enumerate(self._slots):
                    while waiting and slot not in running:
                        job = waiting.pop(0)
                        expected = median(taken[job.group]) if job.group in taken else job.seconds
                        if deadline - time.monotonic() < expected + GRACE_SECONDS:
                            left_out.append(job)
                            continue
                        log = Path(folder) / f"{slot}"
                        running[slot] = job, _started(job, gpu, cores, log), time.monotonic(), log
                time.sleep(POLL_SECONDS)
                for slot, (job, process, began, log) in list(running.items()):
                    over = time.monotonic() - deadline
                    if process.poll() is None:
                        if over > -GRACE_SECONDS and slot not in stopped:
                            stopped.add(slot)
                            process.send_signal(signal.SIGINT)
                        elif over > 0:
                            process.kill()
                        continue
                    del running[slot]
                    took = time.monotonic() - began
                    if process.returncode == 0:
                        taken.setdefault(job.group, []).append(took)
                    output = process.stdout.read() if process.stdout else ""
                    errors = log.read_text(errors="replace")
                    ended(Ended(job, process.returncode, output, errors, took, slot in stopped))
        return left_out


def _started(job: Job, gpu: int | None, cores: set[int], log: Path) -> subprocess.Popen[str]:
    """A job in a slot. What it prints must fit into a pipe; its log may be long."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(len(cores)), "OPENBLAS_NUM_THREADS": str(len(cores))}
    if gpu is not None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        number = visible[gpu] if visible != [""] else str(gpu)
        environment["CUDA_VISIBLE_DEVICES"] = number
    with log.open("w") as errors:
        process = subprocess.Popen(job.command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
    os.sched_setaffinity(process.pid, cores)
    return process
