"""A search by a cluster of Dask on this machine, whose workers are killed at random while others come.

    python benchmarks/cluster.py sgemm/01_host_blocked 64 --workers 8 --every 5 --budget 60
    python benchmarks/cluster.py sgemm/03_naive 64 --device opencl --workers 8 --every 5 --budget 60

Starts a scheduler and --workers workers, each with a cache of its own, so that each counts as a machine. Then runs
`tune KERNEL SIZE --cluster`. Every --every seconds it kills a worker and starts another. Prints how many workers were
killed, and how many of them had joined; how many were lost without being killed, which must be none; how many
configurations have a result, and how many were measured more than once, which must be none, too. Times say nothing: the
workers share this machine's cores.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import IO

END_SECONDS = 30.0


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def dask(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of Dask, which writes to a log in the folder."""
    environment = {**os.environ, "TUNER_CACHE": str(folder / f"cache-{name}")}
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments, "--no-dashboard"], stdout=log, stderr=log, env=environment
        )


def measured(folder: Path) -> Counter[str]:
    """How often each configuration was measured, from the journal of the study in the folder."""
    (journal,) = (folder / "state").rglob("*.log")
    parameters: dict[int, str] = {}
    times: Counter[str] = Counter()
    trials = 0
    for line in journal.read_text().splitlines():
        entry = json.loads(line)
        if entry["op_code"] == 4:  # a new trial; the finals measure some again
            is_again = "revised" in entry.get("user_attrs", {})
            parameters[trials] = "" if is_again else json.dumps(entry.get("params"), sort_keys=True)
            trials += 1
        elif entry["op_code"] == 6 and entry.get("state") in (1, 3):  # complete, or failed
            times[parameters[entry["trial_id"]]] += 1
    del times[""]
    return times


def address_of(log: Path) -> str:
    """The address of a worker, which its log tells; empty before it has one."""
    found = re.search(r"Start worker at: *(\S+)", log.read_text(errors="replace"))
    return found[1] if found else ""


def main() -> None:
    """Run the search, and kill workers meanwhile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("size")
    parser.add_argument("--device", default="host")
    parser.add_argument("--budget", default="60")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two kills; 0: kill none")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    drawn = random.Random(arguments.seed)  # noqa: S311
    with tempfile.TemporaryDirectory(prefix="cluster-") as name:
        folder, port = Path(name), free_port()
        address = f"tcp://127.0.0.1:{port}"
        processes = [dask(folder, "scheduler", "scheduler", "--host", "127.0.0.1", "--port", str(port))]
        alive: dict[str, subprocess.Popen[bytes]] = {}

        def add() -> None:
            worker = f"worker{len(processes)}"
            options = ("--no-nanny", "--nthreads", "1", "--local-directory", str(folder / "dask"))
            alive[worker] = dask(folder, worker, "worker", address, *options)
            processes.append(alive[worker])

        for _ in range(arguments.workers):
            add()
        wanted = ("--device", arguments.device, "--budget", arguments.budget, "--results", str(folder / "results"))
        command = [sys.executable, "-m", "tuner", arguments.kernel, arguments.size, *wanted]
        environment = {**os.environ, "TUNER_STATE": str(folder / "state"), "TUNER_CACHE": str(folder / "cache")}
        killed: set[str] = set()
        said: list[str] = []
        try:
            time.sleep(arguments.workers)  # so that most are there when the search begins
            tune = subprocess.Popen(
                [*command, "--cluster", address], env=environment, stderr=subprocess.PIPE, text=True
            )
            assert tune.stderr is not None
            listener = threading.Thread(target=listen, args=(tune.stderr, said))
            listener.start()
            last = time.monotonic()
            while tune.poll() is None:
                time.sleep(0.2)
                if arguments.every and time.monotonic() - last > arguments.every:
                    worker = drawn.choice(list(alive))
                    killed.add(address_of(folder / f"{worker}.log"))
                    alive.pop(worker).send_signal(signal.SIGKILL)
                    last = time.monotonic()
                    add()
            listener.join()
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.wait(END_SECONDS)
        times = measured(folder)
        lost = {found[1] for line in said if (found := re.search(r"\((\S+)\) is lost: ", line))}
        again = sum(each > 1 for each in times.values())
        kills = len(processes) - 1 - arguments.workers
        print(f"status {tune.returncode}; {kills} workers killed, {len(lost)} of them at work")
        print(f"{len(lost - killed)} lost without being killed; {len(times)} configurations, {again} more than once")


def listen(stream: IO[str], said: list[str]) -> None:
    """Print the lines of a stream, and note them."""
    for line in stream:
        said.append(line)
        print(line, end="", flush=True)


if __name__ == "__main__":
    main()
