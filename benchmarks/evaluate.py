"""Whether `tune evaluate` says of a kernel that it is faster or slower than itself.

    python benchmarks/evaluate.py --device host
    python benchmarks/evaluate.py --device cuda --copies 20 gallery/softmax@1000x4096

Copies of the text of a space's own kernel are judged against it, `--copies` of each kernel. All do the same work by the
same code, so a decision `faster` or `slower` is false. For each kernel, the table has the number of decisions of each
kind, how many of the intervals of the ratio hold 1, the least and the largest median of the ratios, and the median
width of their intervals. `--busy N` has N processes keep as many cores busy meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import tuner
from tuner.catalog import catalog

KERNELS = {
    "host": ("sgemm/00_host_simple@128", "sgemm/01_host_blocked@256", "gallery/convolution_host@256x256"),
    "opencl": ("gallery/vector_add@1048576", "gallery/transpose@1024", "gallery/sum@1048576", "sgemm/03_naive@128"),
    "cuda": ("gallery/vector_add@1048576", "gallery/transpose@1024", "gallery/softmax@1000x1024", "sgemm/03_naive@512"),
}


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", metavar="KERNEL@SIZE")
    parser.add_argument("--device", choices=KERNELS, default="host")
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--busy", type=int, default=0)
    options = parser.parse_args()
    false = 0
    print(f"{'problem':<36} faster slower undecided refused  hold 1  ratios            width  seconds")
    for problem in options.problems or KERNELS[options.device]:
        kernel, _, size = problem.partition("@")
        with kept_busy(options.busy), tempfile.TemporaryDirectory() as folder:
            source = catalog.load(kernel).sources[0]
            copies = [Path(folder, f"copy_{number}{source.suffix}") for number in range(options.copies)]
            for copy in copies:
                shutil.copy(source, copy)
            for header in source.parent.glob("*.h"):
                shutil.copy(header, folder)
            began = time.monotonic()
            judged = tuner.evaluate(
                [*copies], kernel, size, device=options.device, hidden=0, rounds=options.rounds, verify=1
            )
        times = [verdict.times[0] for verdict in judged.verdicts if verdict.is_accepted]
        for verdict in judged.verdicts:
            for reason in verdict.reasons:
                print(f"{verdict.candidate}: {reason.code}: {reason.message}", file=sys.stderr)
        found = Counter(each.decision for each in times)
        false += found["faster"] + found["slower"]
        ratios = sorted(each.speedup[1] for each in times)
        held = sum(each.speedup[0] <= 1 <= each.speedup[2] for each in times)
        width = median(each.speedup[2] - each.speedup[0] for each in times)
        print(
            f"{problem:<36} {found['faster']:6} {found['slower']:6} {found['undecided']:9} "
            f"{len(copies) - len(times):7}  {held:6}  {ratios[0]:.4f} to {ratios[-1]:.4f}  {width:.4f}  "
            f"{time.monotonic() - began:.0f}",
            flush=True,
        )
    print(f"false decisions: {false}")


@contextlib.contextmanager
def kept_busy(count: int) -> Iterator[None]:
    """Processes that keep as many cores busy during a block."""
    workers = [multiprocessing.get_context("spawn").Process(target=spin, daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def spin() -> None:
    """Keep a core busy for good."""
    while True:
        pass


if __name__ == "__main__":
    main()
