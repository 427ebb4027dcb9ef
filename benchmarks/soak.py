"""Tune under random faults, and check after each one that nothing was lost, duplicated or left behind.

    python benchmarks/soak.py --seconds 600 --device host opencl

A study is tuned in several runs of `tune`. Each run suffers one fault: the run, its workers or its compilers are
killed, suspended or interrupted, the disk of the caches is too small, the CPU is busy, the caches are deleted, the
source or the space file is saved with an error in it, or the environment asks for other threads. After each run the
file is as it was, and the script checks:

- no process of the run is left, and no temporary file;
- the measurements of earlier runs are still there, and those that a run under other conditions made are not;
- no configuration occurs twice, and none has failed, since all of them are correct.

The last run of a study has no fault. Afterwards every configuration is measured, and if the CPU was not kept busy, the
best is one of those that do the least work. Errors are printed with the preceding faults, the folder of that study is
kept, and the script exits with status 1.
"""

import argparse
import contextlib
import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = 5  # with faults, per study
PATIENCE_SECONDS = 600.0  # what takes longer hangs
LEAST_IDLE = 0.8  # where other programs leave less of the processors, any configuration may win
GONE_SECONDS = 10.0  # in which all processes of a run are gone
SIZES = {"cuda": 4_000_000}
SIZE = 40_000  # of other devices
ROUNDS = {"cuda": 1000}  # of work, so that it takes longer than the memory does
MOUNT, UMOUNT = (shutil.which(name) or name for name in ("mount", "umount"))
WORK = (1, 2, 4, 8)
VARIANTS = range(6)

SPACE = """\
title: Add one, after work that is done in vain
operation:
  sizes: {n: }
  extent: [n]
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
  reference: x + 1
kernel: add_one
languages: [LANGUAGES]
parameters:
  work: WORK
  variant: VARIANTS
LAUNCH
"""
# No compiler leaves the work out: 0 times a number that it does not know may be NaN.
BODY = """\
        float vain = x[i];
        for (int k = 0; k < ROUNDS * work; k++) {
            vain = 0.5f * vain + variant;
        }
        y[i] = x[i] + 1 + 0.0f * vain;
"""
TEXTS = {
    "host": f"void add_one(float *y, const float *x, int n) {{\n    for (int i = 0; i < n; i++) {{\n{BODY}    }}\n}}\n",
    "gpu": f"""\
#include "portable.h"
KERNEL void add_one(GLOBAL float *y, GLOBAL const float *x, int n) {{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) {{
{BODY}    }}
}}
""",
}


@dataclass
class Study:
    """A kernel in a folder of its own, tuned in several runs. `mark` is in the environment of all its processes."""

    device: str
    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    times: dict[tuple[str, str], str] = field(default_factory=dict)
    was_busy: bool = False  # whether other programs ever took the processors from it

    def __post_init__(self) -> None:
        self.size = str(SIZES.get(self.device, SIZE))
        host = self.device == "host"
        launch = "" if host else "grid_divisors: {x: [64]}\nblock: [64]"
        words = {"LANGUAGES": "c" if host else "cuda, opencl", "LAUNCH": launch, "WORK": WORK, "VARIANTS": [*VARIANTS]}
        text = SPACE
        for word, value in words.items():
            text = text.replace(word, str(value if isinstance(value, str) else list(value)))
        body = TEXTS["host" if host else "gpu"].replace("ROUNDS", str(ROUNDS.get(self.device, 100)))
        self.files = {self.folder / "soak.yaml": text, self.folder / ("soak.c" if host else "soak.cu"): body}
        self.save()
        (self.folder / "tmp").mkdir()

    def save(self) -> None:
        """Write the files as they should be."""
        for path, text in self.files.items():
            path.write_text(text)

    def tune(
        self, *arguments: str, cache: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """`tune` in this folder, with its own store, ledgers, caches and temporary files."""
        environment = {
            **os.environ,
            **(settings or {}),
            "SOAK": self.mark,
            "TMPDIR": str(self.folder / "tmp"),
            "TUNER_CACHE": str(cache or self.folder / "cache"),
            "TUNER_STATE": str(self.folder / "state"),
            "TUNER_RESULTS": str(self.folder / "results"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        command = [sys.executable, "-m", "tuner", *arguments]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=self.folder
        )

    def processes(self) -> list[int]:
        """Every process whose environment has the mark, those that have ended but were not waited for aside."""
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if f"SOAK={self.mark}".encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
        return found

    def measured(self) -> list[dict[str, str]]:
        """The trials that the ledger holds."""
        table = self.folder / "trials.csv"
        table.unlink(missing_ok=True)
        process = self.tune(
            "export", "soak.yaml", self.size, "--to", "csv", "--device", self.device, "--output", str(table)
        )
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
        if process.returncode and "nothing has been measured" in err:
            return []
        assert process.returncode == 0, f"the trials cannot be read: {err}"
        with table.open() as lines:
            return list(csv.DictReader(lines))

    def check(self) -> None:
        """Raises AssertionError where something is lost, doubled, wrong or left behind."""
        deadline = time.monotonic() + GONE_SECONDS
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not left, f"processes are left: {[command_of(pid) for pid in left]}"
        files = [str(path) for path in (self.folder / "tmp").rglob("*")]
        assert not files, f"temporary files are left: {files}"
        rows = self.measured()
        keys = Counter((row["work"], row["variant"]) for row in rows)
        assert not [key for key, count in keys.items() if count > 1], f"trials are there twice: {keys}"
        failed = [row for row in rows if not row.get("time_ms")]
        assert not failed, f"trials that failed, though every configuration is right: {failed}"
        times = {(row["work"], row["variant"]): row["time_ms"] for row in rows}
        lost = self.times.keys() - times.keys()  # a time that the finals contradict is measured again
        assert not lost, f"trials that were lost: {lost}; before {self.times}, now {times}"
        self.times = times


def command_of(pid: int) -> str:
    """The command line of a process."""
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    return f"process {pid}"


@contextlib.contextmanager
def small_disk(bytes_: int) -> Iterator[Path]:
    """A file system in memory of this size; needs root."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([MOUNT, "-t", "tmpfs", "-o", f"size={bytes_},mode=0700", "soak", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run([UMOUNT, "--lazy", folder], check=True)


def can_mount() -> bool:
    """Whether a small disk can be had."""
    try:
        with small_disk(1 << 16):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextlib.contextmanager
def burners(count: int) -> Iterator[None]:
    """Processes that keep processors busy."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def strike(fault: str, study: Study, process: subprocess.Popen[str], chance: random.Random) -> None:
    """One fault, at a random moment of the run."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=chance.uniform(0.2, 12.0))
        return
    if fault in ("kill the run", "interrupt", "terminate"):
        number = {"kill the run": signal.SIGKILL, "interrupt": signal.SIGINT, "terminate": signal.SIGTERM}[fault]
        process.send_signal(number)
        return
    if fault in WRONG:
        for path, text in study.files.items():
            path.write_text(text.replace(*WRONG[fault]))
        return
    if fault == "delete the caches":
        for _ in range(chance.randint(1, 4)):
            shutil.rmtree(study.folder / "cache", ignore_errors=True)
            time.sleep(chance.uniform(0.0, 1.0))
        return
    others = [pid for pid in study.processes() if pid != process.pid]
    for pid in chance.sample(others, min(len(others), chance.randint(1, 3))):
        with contextlib.suppress(ProcessLookupError):
            if fault == "kill others":
                os.kill(pid, signal.SIGKILL)
            elif fault == "stop others":
                os.kill(pid, signal.SIGSTOP)
                time.sleep(chance.uniform(0.1, 2.0))
                os.kill(pid, signal.SIGCONT)


# What a text is replaced with, so that a run that read it later would find all configurations wrong.
WRONG = {"save the source": ("x[i] + 1", "x[i] + 2"), "save the space": ("reference: x + 1", "reference: x + 3")}
OTHER_THREADS = {"OMP_NUM_THREADS": "1", "POCL_MAX_PTHREAD_COUNT": "1", "POCL_CPU_MAX_CU_COUNT": "1"}
FAULTS = (
    "none", "kill the run", "interrupt", "terminate", "kill others", "stop others", "busy", "small disk",
    "delete the caches", "other threads", *WRONG,
)  # fmt: skip
# Statuses that a run may end with: it is done; it was killed, interrupted or terminated; or it says what is in its way.
STATUSES = {
    "kill the run": (0, -9),
    "interrupt": (0, 130, -signal.SIGINT),
    "terminate": (0, 143, -signal.SIGTERM),
    "small disk": (0, 1, 2),
    "kill others": (0, 1, 2),
    **dict.fromkeys(WRONG, (0, 1)),  # 1: the run read the wrong text from its start
}


def idle_share(seconds: float = 0.5) -> float:
    """The share of the time of this process's processors that nobody uses."""
    processors = {f"cpu{number}" for number in os.sched_getaffinity(0)}

    def ticks() -> tuple[int, int]:
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        rows = [[int(field) for field in fields[1:9]] for fields in lines if fields and fields[0] in processors]
        return sum(row[3] + row[4] for row in rows), sum(map(sum, rows))

    idle, total = ticks()
    time.sleep(seconds)
    idle_after, total_after = ticks()
    return (idle_after - idle) / max(1, total_after - total)


def run(study: Study, fault: str, chance: random.Random) -> None:
    """One run of `tune`, with one fault; then the checks."""
    study.was_busy |= fault == "busy" or idle_share() < LEAST_IDLE
    with contextlib.ExitStack() as stack:
        cache = (
            stack.enter_context(small_disk(chance.choice((16, 64, 200, 1000)) * 1024))
            if fault == "small disk"
            else None
        )
        if fault == "busy":
            stack.enter_context(burners(2 * len(os.sched_getaffinity(0))))
        stack.callback(study.save)
        settings = OTHER_THREADS if fault == "other threads" else None
        command = ("soak.yaml", study.size, "--device", study.device, "--strategy", "random")
        process = study.tune(*command, cache=cache, settings=settings)
        if fault not in ("none", "busy", "small disk", "other threads"):
            strike(fault, study, process, chance)
        try:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError("the run hangs") from None
        assert process.returncode in STATUSES.get(fault, (0,)), f"status {process.returncode}: {out}{err}"
        assert "Traceback" not in err, err
    study.check()


def soak(device: str, chance: random.Random, seconds: float) -> str | None:
    """One study. What went wrong, and where; None where nothing did."""
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    study, steps = Study(device, folder), list[str]()
    ends = time.monotonic() + seconds
    available = [fault for fault in FAULTS if fault != "small disk" or can_mount()]
    try:
        for _ in range(RUNS):
            steps.append(chance.choice(available))
            run(study, steps[-1], chance)
            if time.monotonic() > ends:
                break
        steps.append("none")
        run(study, "none", chance)
        assert len(study.times) == len(WORK) * len(VARIANTS), f"{len(study.times)} configurations are measured"
        best = min(study.times, key=lambda key: float(study.times[key]))
        assert study.was_busy or best[0] == str(WORK[0]), f"{best} is the best: {study.times}"
    except AssertionError as error:
        for pid in study.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return f"{device}, {' > '.join(steps)}, in {folder}: {error}"
    shutil.rmtree(folder)
    print(f"{device}: {' > '.join(steps)}: as it should be", flush=True)
    return None


def main() -> int:
    """Study after study until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="total time (600)")
    parser.add_argument(
        "--device", nargs="+", default=["host", "opencl"], help="devices to alternate between (host opencl)"
    )
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(10**6), help="random seed of the faults"
    )
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    chance, ends, problems, studies = random.Random(arguments.seed), time.monotonic() + arguments.seconds, 0, 0  # noqa: S311
    while time.monotonic() < ends:
        problem = soak(arguments.device[studies % len(arguments.device)], chance, ends - time.monotonic())
        studies += 1
        if problem:
            problems += 1
            print(f"FOUND {problem}", flush=True)
    print(f"{studies} studies, {problems} with a fault of ours")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
