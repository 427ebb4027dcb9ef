"""Kernel Tuner's tutorial kernel tuned by Kernel Tuner (NVCUDA), beside our stage of it tuned by tuner, on one GPU.

    python benchmarks/against_kernel_tuner.py --size 4096 --rounds 3

Each round prints Kernel Tuner's best time for the tutorial's kernel in the tutorial's space; tuner's best time for
sgemm/07_tiled_1xn in its larger space, with its share of cuBLAS; and the time of tuner's record when launched
afterwards. Medians follow at the end. Needs a GPU, `tuner[cuda]` and cuda-python.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tuner.cli.screen.progress import TuningProgress
from tuner.measure.method import STANDARD
from tuner.tuning import driver, rerun
from tuner.tuning.request import TuningRequest

HERE = Path(__file__).resolve().parent


def kernel_tuner(size: int, source: Path) -> dict[str, Any]:
    """Kernel Tuner's run of the tutorial: its space, its restriction, as many iterations as ours, verified."""
    import kernel_tuner

    random = np.random.default_rng(0)
    A, B = (random.random((size, size), dtype=np.float32) + np.float32(0.5) for _ in "AB")
    C = np.zeros_like(A)
    parameters = {
        "block_size_x": [16, 32, 64],
        "block_size_y": [1, 2, 4, 8, 16, 32],
        "tile_size_x": [1, 2, 4],
        "tile_size_y": [1, 2, 4],
    }
    text = f"#define WIDTH {size}\n" + source.read_text()
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = kernel_tuner.tune_kernel(
            "matmul_kernel", text, (size, size), [C, A, B], parameters,
            grid_div_x=["block_size_x", "tile_size_x"], grid_div_y=["block_size_y", "tile_size_y"],
            restrictions=["block_size_x==block_size_y*tile_size_y"], lang="NVCUDA", iterations=STANDARD.repeats,
            answer=[A @ B, None, None], atol=1e-2, compiler_options=["--std=c++17"],
        )  # fmt: skip
    seconds = time.perf_counter() - start
    successes = [r for r in results if isinstance(r.get("time"), float) and "__error__" not in r]
    best = min(successes, key=lambda r: float(r["time"]))
    config = {name: best[name] for name in parameters}
    return {"time_ms": best["time"], "config": config, "configurations": len(results), "seconds": seconds}


def ours(size: int) -> dict[str, Any]:
    """Our run of the stage in an empty store, and a launch of its record."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TUNER_STATE"] = os.environ["TUNER_CACHE"] = folder  # no earlier trials or builds
        start = time.perf_counter()
        request = TuningRequest("sgemm/07_tiled_1xn", str(size), "cuda", results=Path(folder))
        result = driver.tune(request, TuningProgress())
        seconds = time.perf_counter() - start
        launch = rerun.run("sgemm/07_tiled_1xn", str(size), "cuda", {}, {}, Path(folder), print)
    record = result.record
    assert record is not None
    assert launch.time_ms is not None
    return {
        "time_ms": record.time_ms,
        "config": record.config,
        "configurations": result.evaluated,
        "seconds": seconds,
        "vs_library": record.vs_library,
        "launched_ms": launch.time_ms,
        "verified": launch.verified,
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--source", type=Path, default=HERE / "tutorial_1xn.cu", help="the kernel that Kernel Tuner tunes"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    rounds = []
    for _ in range(options.rounds):
        # A process for each round, so a context too.
        with multiprocessing.get_context("spawn").Pool(1) as process:
            theirs = process.apply(kernel_tuner, (options.size, options.source))
            own = process.apply(ours, (options.size,))
        rounds.append({"kernel_tuner": theirs, "tuner": own})
        for name, run in (("Kernel Tuner", theirs), ("tuner", own)):
            cost = f"{run['configurations']} configurations in {run['seconds']:.1f} s"
            print(f"{name:12} {run['time_ms']:.4f} ms {run['config']}, {cost}")
        change = own["launched_ms"] / own["time_ms"] - 1
        print(f"{'':12} {own['vs_library']:.1%} of cuBLAS; launched {own['launched_ms']:.4f} ms ({change:+.2%})")
    for tuner in ("kernel_tuner", "tuner"):
        times = [r[tuner]["time_ms"] for r in rounds]
        print(f"{tuner}: median {median(times):.4f} ms, from {min(times):.4f} to {max(times):.4f}")
    if options.json:
        options.json.write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
